package references

import (
	"context"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
)

// readTimeout bounds a read of all that refers to others in a namespace.
const readTimeout = time.Minute

// namespace is one of a logical cluster.
type namespace struct {
	cluster logicalcluster.Name
	name    string
}

// gather reads a namespace for all who ask for it before a read begins: each gets what was read after it asked, and who
// asks while one is under way has the next one. Of thousands of ConfigMaps that leave with what refers to them, each
// would have all of that read else.
type gather struct {
	read func(context.Context, namespace) ([]*holder, error)

	mu sync.Mutex
	// under are the reads under way, and next those that begin when they end.
	under, next map[namespace]*reading
}

// reading is one read; done is closed when it has ended.
type reading struct {
	done chan struct{}
	all  []*holder
	err  error
}

func newGather(read func(context.Context, namespace) ([]*holder, error)) *gather {
	return &gather{read: read, under: map[namespace]*reading{}, next: map[namespace]*reading{}}
}

// get is what a read has that begins now, or later.
func (g *gather) get(ctx context.Context, of namespace) ([]*holder, error) {
	g.mu.Lock()
	r, under := g.next[of], g.under[of]
	if r == nil {
		r = &reading{done: make(chan struct{})}
		if under == nil {
			g.under[of] = r
			go g.run(ctx, of, r)
		} else {
			g.next[of] = r
		}
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r.all, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run reads, and what has gathered meanwhile after it. Whoever began it may wait no more, and others do.
func (g *gather) run(ctx context.Context, of namespace, r *reading) {
	ctx = context.WithoutCancel(ctx)
	for r != nil {
		bounded, cancel := context.WithTimeout(ctx, readTimeout)
		r.all, r.err = g.read(bounded, of)
		cancel()
		close(r.done)
		g.mu.Lock()
		if r = g.next[of]; r != nil {
			g.under[of] = r
		} else {
			delete(g.under, of)
		}
		delete(g.next, of)
		g.mu.Unlock()
	}
}
