//go:build linux

package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/atoll-dev/atoll/pkg/volume/content"
)

const (
	// idleTimeout ends a connection over which nothing comes any more; the next one begins anew.
	idleTimeout = 2 * time.Minute
	// sayInterval is how often the other end hears that it goes on.
	sayInterval = 5 * time.Second
)

// Volume is what is copied, or filled.
type Volume struct {
	Root *os.Root
	// Claim is the UID of the logical claim whose data these are, or are to be.
	Claim string
	// MaxBytes bounds the stream.
	MaxBytes int64
}

// Send serves the volume as a stream, to one connection at a time, until ctx ends.
func (v Volume) Send(ctx context.Context, listener net.Listener, report func(error)) error {
	return serve(ctx, listener, func(conn net.Conn) bool {
		if err := v.send(ctx, patient{conn}); err != nil {
			report(err)
		}
		return false
	})
}

func (v Volume) send(ctx context.Context, conn net.Conn) error {
	w := content.NewWriter(conn, v.MaxBytes)
	err := w.Begin(v.Claim)
	if err == nil {
		_, err = Read(ctx, v.Root, w)
	}
	if err != nil {
		err = errors.Join(err, w.Fail(err.Error()))
	}
	_, ended := io.Copy(io.Discard, conn) // until the other side has all, and goes
	return errors.Join(err, ended)
}

// Receive fills the volume by the first connection that brings all of a stream: one at a time,
// each from the beginning. It returns what the volume has then: it was read again.
func (v Volume) Receive(ctx context.Context, listener net.Listener, report func(error)) (sum content.Sum, err error) {
	err = serve(ctx, listener, func(conn net.Conn) bool {
		says := &speaker{conn: patient{conn}, state: content.Ready}
		var failed error
		if sum, failed = v.receive(ctx, conn, says); failed != nil {
			report(failed)
			says.say(content.Said{State: content.Failed, Message: failed.Error()})
			return false
		}
		says.say(content.Said{State: content.Done, Sum: &sum})
		return true
	})
	return sum, err
}

func (v Volume) receive(ctx context.Context, conn net.Conn, says *speaker) (content.Sum, error) {
	defer says.repeat(ctx)()
	r := content.NewReader(patient{conn}, v.MaxBytes)
	if err := r.Begin(v.Claim); err != nil {
		return content.Sum{}, err
	}
	says.is(content.Filling)
	if err := Clear(v.Root); err != nil {
		return content.Sum{}, err
	}
	sent, err := Write(ctx, v.Root, r)
	if err != nil {
		return content.Sum{}, err
	}
	says.is(content.Verifying)
	has, err := sumOf(ctx, v.Root, v.MaxBytes)
	if err != nil {
		return content.Sum{}, fmt.Errorf("reading again what was written: %w", err)
	}
	has.Omitted = sent.Omitted
	if has != sent {
		return content.Sum{}, errors.New("what was written is not what was sent: the file system keeps owners, modes or names in another way")
	}
	return has, nil
}

// serve calls f for one connection after the other, until it says that this was the last one.
func serve(ctx context.Context, listener net.Listener, f func(net.Conn) (last bool)) error {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("waiting for connections: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		last := f(conn)
		stop()
		conn.Close()
		if last {
			return nil
		}
	}
}

// patient is a connection whose every read and write has to come within a time.
type patient struct{ net.Conn }

// Read implements net.Conn.
func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// Write implements net.Conn.
func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// speaker says how far it is, when that changes and every few seconds.
type speaker struct {
	conn  io.Writer
	mu    sync.Mutex
	state content.State
}

func (s *speaker) say(what content.Said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = content.Say(s.conn, what) // who does not listen ends the connection
}

func (s *speaker) is(state content.State) {
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	s.say(content.Said{State: state})
}

// repeat says it at once and again, until the result is called.
func (s *speaker) repeat(ctx context.Context) (stop func()) {
	s.is(s.state)
	ctx, cancel := context.WithCancel(ctx)
	var saying sync.WaitGroup
	saying.Go(func() {
		again := time.NewTicker(sayInterval)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
				s.mu.Lock()
				state := s.state
				s.mu.Unlock()
				s.say(content.Said{State: state})
			}
		}
	})
	return func() { cancel(); saying.Wait() }
}
