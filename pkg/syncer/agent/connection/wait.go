package connection

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// RequestLock is held while a server is asked. Other than a sync.Mutex, it may be
// waited for while a simulation stands still.
type RequestLock struct {
	once sync.Once
	held chan struct{}
}

// Lock waits for the lock, or for the end of ctx.
func (l *RequestLock) Lock(ctx context.Context) (unlock func(), err error) {
	l.once.Do(func() { l.held = make(chan struct{}, 1) })
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// checks are shared by those who wait: what began after somebody came answers for
// him, too.
type checks struct {
	steps   atomic.Uint64
	running RequestLock
	began   uint64
	err     error
}

func (c *checks) share(ctx context.Context, check func() error) error {
	came := c.steps.Add(1)
	unlock, err := c.running.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if c.began > came {
		return c.err
	}
	c.began = c.steps.Add(1)
	c.err = check()
	return c.err
}

// Sleep waits for d, or for the end of ctx.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
