package controller

import (
	"sync"
	"time"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// onset has since when something holds of units, for as many as there are: what is forgotten of one of
// thousands would be new at each look, and what waits until it is not new any more would never be done.
type onset struct {
	mu    sync.Mutex
	times map[controller.Request]time.Time
}

// since notes that it holds of a unit, and says since when.
func (o *onset) since(key controller.Request, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.times[key]; ok {
		return at
	}
	if o.times == nil {
		o.times = map[controller.Request]time.Time{}
	}
	o.times[key] = now
	return now
}

// end notes that it does not hold any more, or that the unit is gone.
func (o *onset) end(key controller.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.times, key)
}
