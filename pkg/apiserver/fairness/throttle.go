package fairness

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// vainPerSecond and vainBurst are how many requests those who share slots may send in
	// vain, and go on unhindered.
	vainPerSecond = 20
	vainBurst     = 100
	// mostDelay is how long a request of those who sent more waits at most.
	mostDelay = 2 * time.Second
	// mostThrottled is of how many is known what they sent. What they are called may be made up.
	mostThrottled = 1000
)

// throttle delays the requests of those whose requests are in vain: refused as too much, or
// given up before the answer. To refuse costs about as much as to answer, and who does not heed
// Retry-After sends the next one at once.
//
//	in vain so far                           the next request waits
//	no more than vainBurst at once, and      not at all
//	  no more than vainPerSecond afterwards
//	more                                     until it would be no more, at most mostDelay
//
// It is forgotten within seconds.
type throttle struct {
	clock clock.Clock

	mu    sync.Mutex
	spent map[string]*rate.Limiter
}

func newThrottle(c clock.Clock) *throttle {
	return &throttle{clock: c, spent: map[string]*rate.Limiter{}}
}

// inVain says that a request of who was.
func (t *throttle) inVain(who string) {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.spent[who]
	if l == nil {
		if len(t.spent) >= mostThrottled {
			t.sweep(now)
		}
		if len(t.spent) >= mostThrottled {
			return
		}
		l = rate.NewLimiter(vainPerSecond, vainBurst)
		t.spent[who] = l
	}
	if l.TokensAt(now) > -mostDelay.Seconds()*vainPerSecond {
		l.ReserveN(now, 1)
	}
}

// sweep forgets those who have all of their burst again.
func (t *throttle) sweep(now time.Time) {
	for who, l := range t.spent {
		if l.TokensAt(now) >= vainBurst {
			delete(t.spent, who)
		}
	}
}

// delay is how long the next request of who waits.
func (t *throttle) delay(who string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.spent[who]
	if l == nil {
		return 0
	}
	owed := -l.TokensAt(t.clock.Now())
	return min(mostDelay, time.Duration(math.Max(owed, 0)/vainPerSecond*float64(time.Second)))
}

// wait delays a request of who; false if ctx ends first.
func (t *throttle) wait(ctx context.Context, who string) bool {
	d := t.delay(who)
	if d <= 0 {
		return true
	}
	timer := t.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// isInVain says that a request was: what was answered, or nothing as the client has left. Watches
// are left by everybody.
func isInVain(code int, watches bool, left error) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong:
		return true
	}
	return !watches && errors.Is(left, context.Canceled)
}
