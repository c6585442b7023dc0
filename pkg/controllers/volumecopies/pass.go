package volumecopies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/atoll-dev/atoll/pkg/volume/content"
)

// idleTimeout ends an attempt in which neither end says anything. Nothing is removed by that.
const idleTimeout = 2 * time.Minute

// progress is how far an attempt is.
type progress struct {
	from string
	// begins: it is another one. ended is why it ended before its end.
	begins bool
	ended  string
	bytes  int64
}

// passing is one attempt.
type passing struct {
	// filler is the connection to the pod that fills the volume, source makes that to the one that reads the
	// other one.
	filler net.Conn
	source func(context.Context) (net.Conn, error)
	// limit bounds what is passed on.
	limit  int64
	report func(progress)

	passed  atomic.Int64
	changed atomic.Bool // since it was looked at last
	// verifies: all came, and the pod that fills the volume reads it again.
	verifies atomic.Bool
}

// run passes the stream on, and returns when the pod that fills the volume says that it has all, or when
// anything ends. Only one end is asked before it says that it is ready: it takes one attempt at a time.
func (p *passing) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.filler.Close()
	defer context.AfterFunc(ctx, func() { p.filler.Close() })()
	lines := content.NewListener(p.filler)
	busy := time.AfterFunc(dialTimeout, func() { cancel(errors.New("the pod is busy with another server, or does not answer")) })
	first, err := lines.Next()
	busy.Stop()
	switch {
	case err != nil:
		cancel(fmt.Errorf("waiting for the pod that fills the volume: %w", err))
		return p.end(context.Cause(ctx))
	case first.State != content.Ready:
		return p.end(fmt.Errorf("the pod that fills the volume is %s: %s", bounded(string(first.State)), first.Message))
	}
	source, err := p.source(ctx)
	if err != nil {
		return p.end(fmt.Errorf("connecting to the pod that reads the volume: %w", err))
	}
	defer source.Close()
	defer context.AfterFunc(ctx, func() { source.Close() })()
	p.report(progress{begins: true})
	passes := make(chan struct{})
	go func() { // ends with its connections
		defer close(passes)
		if err := p.pass(source); err != nil {
			cancel(err)
		}
	}()
	watches := make(chan struct{})
	go func() { // ends with ctx
		defer close(watches)
		p.watch(ctx, cancel)
	}()
	failed := p.listen(lines)
	if failed != nil {
		cancel(failed) // unless it was the consequence of something else
		failed = context.Cause(ctx)
	}
	cancel(nil)
	p.filler.Close()
	source.Close()
	<-passes
	<-watches
	if failed != nil {
		return p.end(failed)
	}
	p.report(progress{bytes: p.passed.Load()})
	return nil
}

// pass passes on what comes, as far as there is room for it. Who has sent all may go.
func (p *passing) pass(source io.Reader) error {
	n, err := io.Copy(writerFunc(func(b []byte) (int, error) {
		n, err := p.filler.Write(b)
		p.passed.Add(int64(n))
		p.changed.Store(true)
		return n, err
	}), io.LimitReader(source, min(p.limit, math.MaxInt64-1)+1))
	switch {
	case p.verifies.Load():
		return nil
	case err != nil:
		return fmt.Errorf("passing on what is read: %w", err)
	case n > p.limit:
		return content.ErrTooLong
	}
	return errors.New("the pod that reads the volume has gone")
}

// listen returns when the pod that fills the volume says how it ended.
func (p *passing) listen(lines *content.Listener) error {
	for {
		said, err := lines.Next()
		p.changed.Store(true)
		switch {
		case err != nil:
			return fmt.Errorf("listening to the pod that fills the volume: %w", err)
		case said.State == content.Done:
			return nil
		case said.State == content.Failed:
			return errors.New(said.Message)
		case said.State == content.Verifying:
			p.verifies.Store(true)
		}
	}
}

// watch reports how far it is, and ends what does not go on.
func (p *passing) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	idle := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if idle += reportInterval; p.changed.Swap(false) {
			idle = 0
		}
		if idle >= idleTimeout {
			cancel(errors.New("nothing came from either end for two minutes"))
			return
		}
		p.report(progress{bytes: p.passed.Load()})
	}
}

// end reports why an attempt ended.
func (p *passing) end(err error) error {
	p.report(progress{bytes: p.passed.Load(), ended: bounded(err.Error())})
	return err
}

func bounded(message string) string { return content.Sentence(message) }

type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
