package podadmission

import (
	"context"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
)

const (
	// maxInFlight bounds the pods that are asked about at a time; others wait.
	maxInFlight = 64
	// maxOfOne bounds those of one logical cluster: webhooks that never answer make their
	// own pods wait, not those of all others on the physical cluster.
	maxOfOne = 16
)

// places are those of the pods that are asked about.
type places struct {
	all chan struct{}

	mu sync.Mutex
	of map[logicalcluster.Name]*share
}

// share is that of a logical cluster, as long as somebody wants it.
type share struct {
	places chan struct{}
	want   int
}

func newPlaces() *places {
	return &places{all: make(chan struct{}, maxInFlight), of: map[logicalcluster.Name]*share{}}
}

// take waits for a place of a logical cluster, and then for one of all. It fails with ctx.
func (p *places) take(ctx context.Context, c logicalcluster.Name) (give func(), err error) {
	p.mu.Lock()
	own := p.of[c]
	if own == nil {
		own = &share{places: make(chan struct{}, maxOfOne)}
		p.of[c] = own
	}
	own.want++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if own.want--; own.want == 0 {
			delete(p.of, c)
		}
	}
	select {
	case own.places <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	select {
	case p.all <- struct{}{}:
	case <-ctx.Done():
		<-own.places
		leave()
		return nil, ctx.Err()
	}
	return func() { <-p.all; <-own.places; leave() }, nil
}
