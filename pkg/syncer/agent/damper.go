package agent

import (
	"sync"
	"time"
)

const (
	// freeReverts drifts in a row are reverted at once.
	freeReverts = 5
	// calm without a drift starts the count again.
	calm = 10 * time.Minute
	// maxRevertWait bounds the wait between two reverts.
	maxRevertWait = 5 * time.Minute
)

// damper keeps two who want different things of one object from writing in
// turn as fast as they can.
type damper struct {
	mu     sync.Mutex
	counts map[objectKey]reverts
}

type reverts struct {
	n    int
	last time.Time
}

// wait says how long to wait before reverting a drift of key; zero means now,
// and counts.
func (d *damper) wait(key objectKey, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[objectKey]reverts{}
	}
	r := d.counts[key]
	if now.Sub(r.last) > calm {
		r.n = 0
	}
	if r.n >= freeReverts {
		pause := min(time.Second<<min(r.n-freeReverts, 10), maxRevertWait)
		if left := pause - now.Sub(r.last); left > 0 {
			return left
		}
	}
	d.counts[key] = reverts{n: r.n + 1, last: now}
	return 0
}
