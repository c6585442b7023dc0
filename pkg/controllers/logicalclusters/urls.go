package logicalclusters

import (
	"sync"
	"time"
)

// urlInterval is how often at most one server writes another URL of a logical cluster than the one that is there. Servers
// that were started with different ones, as while all get a new one, would write one after the other for as long as both run.
const urlInterval = time.Minute

// urls remembers when this server wrote its URL over another one. It has an entry for a logical cluster at the most.
type urls struct {
	mu      sync.Mutex
	written map[string]time.Time
}

// wait says for how long the URL that is there stays; zero: it is about to be written.
func (u *urls) wait(name string, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at, ok := u.written[name]; ok && now.Before(at.Add(urlInterval)) && !now.Before(at) {
		return at.Add(urlInterval).Sub(now)
	}
	if u.written == nil {
		u.written = map[string]time.Time{}
	}
	u.written[name] = now
	return 0
}

// forget is called of one that is gone.
func (u *urls) forget(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.written, name)
}
