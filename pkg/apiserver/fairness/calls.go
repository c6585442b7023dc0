package fairness

import (
	"context"
	"fmt"
	"sync"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// maxCalls is how many calls of webhooks one logical cluster has in flight. A request
// whose webhook is asked gives up its slot, but keeps the place that priority and fairness
// gave it: webhooks that never answer would take the places of all logical clusters.
const maxCalls = 64

// Call is Suspend for a call of a webhook. It fails if the logical cluster has too many in flight.
func Call(ctx context.Context) (back func(), err error) {
	t, ok := ctx.Value(slotKey{}).(*slot)
	c, scoped := scope.ClusterFrom(ctx)
	if !ok || !scoped || !t.limited() {
		return Suspend(ctx), nil
	}
	l := t.slots
	l.mu.Lock()
	if l.calls[c] >= maxCalls {
		l.mu.Unlock()
		return nil, fmt.Errorf("logical cluster %q has %d calls of webhooks in flight at this server, the most that it may: have them answer in time, set a shorter timeoutSeconds, or remove them", c, maxCalls)
	}
	l.calls[c]++
	l.mu.Unlock()
	again := Suspend(ctx)
	return sync.OnceFunc(func() {
		l.mu.Lock()
		if l.calls[c]--; l.calls[c] == 0 {
			delete(l.calls, c)
		}
		l.mu.Unlock()
		again()
	}), nil
}

// limited says that the request needed a slot, and has it.
func (t *slot) limited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.who != ""
}
