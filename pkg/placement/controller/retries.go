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

// retries paces how often undecided units are tried again. Each report of each physical cluster may give them room, each
// edit of a policy of their logical cluster has all of them looked at, and a tenant may have thousands that fit nowhere: whatever
// comes, those of one logical cluster take no more than their share. What is placed takes none of that.
type retries struct {
	mu sync.Mutex
	of map[logicalcluster.Name]*pending
}

// pending are the undecided units of a logical cluster that will be tried, and when.
type pending struct {
	due map[controller.Request]time.Time
	// next is when the next one would be tried if there were no burst: it lies behind by as much as is left of that.
	next time.Time
}

func newRetries() *retries { return &retries{of: map[logicalcluster.Name]*pending{}} }

// after is when a unit is tried; ok is false if it waits for that already.
func (r *retries) after(key controller.Request, now time.Time) (delay time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pending(key.Cluster)
	if _, waits := p.due[key]; waits {
		return 0, false
	}
	return p.add(key, now), true
}

// left is for how much longer a unit that is looked at is not tried. One that is tried waits no more.
func (r *retries) left(key controller.Request, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pending(key.Cluster)
	if _, waits := p.due[key]; !waits {
		p.add(key, now)
	}
	left := p.due[key].Sub(now)
	if left <= 0 {
		delete(p.due, key)
	}
	return max(0, left)
}

// drop forgets a unit that is not to be tried: it is decided, or gone.
func (r *retries) drop(key controller.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.of[key.Cluster]; p != nil {
		delete(p.due, key)
	}
}

// placed notes that a unit of a logical cluster was decided, and returns the one that is tried in its place, if one waits.
func (r *retries) placed(cluster logicalcluster.Name, now time.Time) (next controller.Request, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.of[cluster]
	if p == nil {
		return next, false
	}
	p.next = p.next.Add(-retryEach)
	for key, due := range p.due {
		if due.After(now) && (!ok || due.Before(p.due[next])) {
			next, ok = key, true
		}
	}
	if ok {
		p.due[next] = now
	}
	return next, ok
}

// forget drops the logical clusters of which nothing waits, and nothing was tried lately.
func (r *retries) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cluster, p := range r.of {
		if len(p.due) == 0 && !p.next.After(now.Add(-retriesAtOnce*retryEach)) {
			delete(r.of, cluster)
		}
	}
}

// pending are those of a logical cluster, with the lock held.
func (r *retries) pending(cluster logicalcluster.Name) *pending {
	p := r.of[cluster]
	if p == nil {
		p = &pending{due: map[controller.Request]time.Time{}}
		r.of[cluster] = p
	}
	return p
}

// add has a unit tried after all that wait.
func (p *pending) add(key controller.Request, now time.Time) time.Duration {
	if most := now.Add(time.Duration(len(p.due)) * retryEach); p.next.After(most) { // others are gone
		p.next = most
	}
	if least := now.Add(-retriesAtOnce * retryEach); p.next.Before(least) {
		p.next = least
	}
	p.next = p.next.Add(retryEach)
	delay := max(0, p.next.Sub(now))
	p.due[key] = now.Add(delay)
	return delay
}

// withoutNews is after how long a unit is tried again if nothing is reported, of so many that its logical cluster
// has undecided.
func withoutNews(undecided int) time.Duration {
	return max(retryInterval, time.Duration(undecided)*retryEach)
}
