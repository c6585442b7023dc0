package agent

import (
	"sync"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// pace is the shortest time between two reports of one copy that differ only
	// in what controllers below say: they write a status in several steps, and
	// each report costs the server several requests.
	pace = 30 * time.Millisecond
	// remembered is how many copies the pacer keeps in mind at least.
	remembered = 4096
)

// pacer remembers when copies were written.
type pacer struct {
	mu   sync.Mutex
	last map[objectKey]time.Time
}

// wrote notes a write of the Copy of key.
func (p *pacer) wrote(key objectKey, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last) >= remembered {
		for k, at := range p.last {
			if now.Sub(at) > pace {
				delete(p.last, k)
			}
		}
	}
	if p.last == nil {
		p.last = map[objectKey]time.Time{}
	}
	p.last[key] = now
}

// wait says how long to hold a report back; zero means now.
func (p *pacer) wait(key objectKey, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.last[key]
	if !ok {
		return 0
	}
	return max(0, pace-now.Sub(at))
}

// onlyReports says that now is before with another status from below. That can
// wait a moment; what somebody waits for, such as a removal, is never held back.
func onlyReports(before, now *placementv1alpha1.Copy) bool {
	if before == nil || before.Status.State != placementv1alpha1.CopySynced || before.Spec != now.Spec {
		return false
	}
	b, n := before.Status, now.Status
	b.Observed, b.ObservedGeneration = n.Observed, n.ObservedGeneration
	return b == n
}
