package controller

import (
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"

	"github.com/atoll-dev/atoll/pkg/controller"
)

const (
	// retriesAtOnce is how many units of a logical cluster are tried at once when there is news. Each try
	// is a write that decides among all physical clusters: beyond these, one is tried in each retryEach.
	retriesAtOnce = 100
	retryEach     = 100 * time.Millisecond
)

// retries paces how often undecided units are tried again. Each report of each physical cluster may give them room,
// and a tenant may have thousands that fit nowhere: whatever comes, those of one logical cluster take no more than their share.
type retries struct {
	mu sync.Mutex
	of map[logicalcluster.Name]*pending
}

// pending are the undecided units of a logical cluster that will be tried.
type pending struct {
	units map[controller.Request]bool
	// next is when the next one would be tried if there were no burst: it lies behind by as much as is left of that.
	next time.Time
}

func newRetries() *retries { return &retries{of: map[logicalcluster.Name]*pending{}} }

// after is when a unit is tried; ok is false if it waits for that already.
func (r *retries) after(key controller.Request, now time.Time) (delay time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.of[key.Cluster]
	if p == nil {
		p = &pending{units: map[controller.Request]bool{}}
		r.of[key.Cluster] = p
	}
	if p.units[key] {
		return 0, false
	}
	if most := now.Add(time.Duration(len(p.units)) * retryEach); p.next.After(most) { // others are gone
		p.next = most
	}
	if least := now.Add(-retriesAtOnce * retryEach); p.next.Before(least) {
		p.next = least
	}
	p.units[key], p.next = true, p.next.Add(retryEach)
	return max(0, p.next.Sub(now)), true
}

// begun notes that a unit is looked at: from now on, news has it tried again.
func (r *retries) begun(key controller.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.of[key.Cluster]; p != nil {
		delete(p.units, key)
	}
}

// withoutNews is after how long a unit is tried again if nothing is reported, of so many that its logical cluster
// has undecided.
func withoutNews(undecided int) time.Duration {
	return max(retryInterval, time.Duration(undecided)*retryEach)
}

// forget drops the logical clusters of which nothing waits, and nothing was tried lately.
func (r *retries) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cluster, p := range r.of {
		if len(p.units) == 0 && !p.next.After(now.Add(-retriesAtOnce*retryEach)) {
			delete(r.of, cluster)
		}
	}
}
