package admission

import (
	"context"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
)

// concurrency has one thing done at a time, so that it takes no more than one processor, and
// for whoever has waited longest; of a logical cluster only one waits for the others, so
// that one which asks without end delays the others by one of its requests.
type concurrency struct {
	all chan struct{}

	mu sync.Mutex
	of map[logicalcluster.Name]*share
}

// share is that of a logical cluster, as long as somebody wants it.
type share struct {
	one  chan struct{}
	want int
}

func newConcurrency() *concurrency {
	return &concurrency{all: make(chan struct{}, 1), of: map[logicalcluster.Name]*share{}}
}

// acquire waits until a request of c may be served. It fails with ctx.
func (l *concurrency) acquire(ctx context.Context, c logicalcluster.Name) (release func(), err error) {
	l.mu.Lock()
	own := l.of[c]
	if own == nil {
		own = &share{one: make(chan struct{}, 1)}
		l.of[c] = own
	}
	own.want++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if own.want--; own.want == 0 {
			delete(l.of, c)
		}
	}
	if err := enter(ctx, own.one); err != nil {
		leave()
		return nil, err
	}
	if err := enter(ctx, l.all); err != nil {
		<-own.one
		leave()
		return nil, err
	}
	return func() { <-l.all; <-own.one; leave() }, nil
}

// enter waits for room in a channel: whoever waits longest has it first.
func enter(ctx context.Context, room chan struct{}) error {
	select {
	case room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
