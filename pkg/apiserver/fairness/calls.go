package fairness

import (
	"context"
	"fmt"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// maxCalls is how many calls of webhooks one logical cluster has in flight. A request
// whose webhook is asked gives up its slot, but keeps the place that priority and fairness
// gave it: webhooks that never answer would take the places of all logical clusters. Syncers
// need no slot, but ask webhooks too, for the pods that are made on their physical clusters.
const maxCalls = 64

// calls are who shares maxCalls.
type calls struct {
	cluster logicalcluster.Name
	// syncer asks for the pods that are made on its physical cluster; empty for users.
	syncer string
}

// Call is Suspend for a call of a webhook. It fails if there are too many in flight.
//
//	the request is of        is counted with
//	a user                   those of all users of the logical cluster
//	a syncer                 its own for the logical cluster: it takes none from the users, nor
//	                         from other physical clusters
//	an admin, the server     nobody's
func Call(ctx context.Context) (back func(), err error) {
	t, ok := ctx.Value(slotKey{}).(*slot)
	c, scoped := scope.ClusterFrom(ctx)
	if !ok || !scoped {
		return Suspend(ctx), nil
	}
	syncer, counted := t.counted()
	if !counted {
		return Suspend(ctx), nil
	}
	l, key := t.slots, calls{c, syncer}
	l.mu.Lock()
	if l.calls[key] >= maxCalls {
		l.mu.Unlock()
		t.callRefused()
		return nil, fmt.Errorf("logical cluster %q has %d calls of webhooks in flight at this server, the most that it may: have them answer in time, set a shorter timeoutSeconds, or remove them", c, maxCalls)
	}
	l.calls[key]++
	l.mu.Unlock()
	again := Suspend(ctx)
	return sync.OnceFunc(func() {
		l.mu.Lock()
		if l.calls[key]--; l.calls[key] == 0 {
			delete(l.calls, key)
		}
		l.mu.Unlock()
		again()
	}), nil
}

// callRefused notes that the request was in vain, whatever becomes of it: most fail by it.
func (t *slot) callRefused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inVain = true
}

// counted says that the calls of the request are counted: it needed a slot and has it, or is
// of a syncer.
func (t *slot) counted() (syncer string, yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.syncer, t.who != "" || t.syncer != ""
}
