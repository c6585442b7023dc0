package resourcequota

import (
	"sync"
	"time"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// charges knows which quotas were charged a moment ago.
type charges struct {
	mu   sync.Mutex
	last map[controller.Request]charge
}

type charge struct {
	at    time.Time
	waits int
}

func newCharges() *charges { return &charges{last: map[controller.Request]charge{}} }

func (c *charges) note(key controller.Request, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[key] = charge{at: now, waits: c.last[key].waits}
}

func (c *charges) forget(key controller.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, key)
}

// wait is how long to wait before counting: until the last charge is settleDelay old,
// or maxSettle waits are over. Zero means now.
func (c *charges) wait(key controller.Request, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.last[key]
	if !ok {
		return 0
	}
	left := settleDelay - now.Sub(last.at)
	if left <= 0 || last.waits >= maxSettle {
		delete(c.last, key)
		return 0
	}
	last.waits++
	c.last[key] = last
	return left
}
