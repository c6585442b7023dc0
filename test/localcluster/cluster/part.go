package cluster

import (
	"context"
	"errors"
	"fmt"
)

// part is one component that runs until its context ends.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// add runs a component. Its context is not the caller's: parts are stopped in
// order, by stop.
func (c *Cluster) add(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	c.parts = append(c.parts, p)
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
}

func (p *part) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure explains why a part ended that nobody had asked to.
func (p *part) failure() error {
	if p.err == nil || errors.Is(p.err, context.Canceled) {
		return fmt.Errorf("%s ended unexpectedly", p.name)
	}
	return fmt.Errorf("%s failed: %w", p.name, p.err)
}
