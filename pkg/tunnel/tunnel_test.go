package tunnel

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

const timeout = 30 * time.Second

// world is a server with a pool, and agents.
type world struct {
	*httptest.Server
	pool *Pool
	path atomic.Pointer[string]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{pool: NewPool()}
	w.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		w.path.Store(&req.URL.Path)
		w.pool.Accept(rw, req, "east")
	}))
	t.Cleanup(w.Close)
	t.Cleanup(w.pool.Close)
	return w
}

// agent runs one until stop is called.
func (w *world) agent(t *testing.T, handle Handler) (stop func()) {
	t.Helper()
	a := &Agent{PhysicalCluster: "east", Handle: handle, Server: &rest.Config{Host: w.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw}),
	}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(timeout):
			t.Error("the agent does not end")
		}
	})
	t.Cleanup(stop)
	w.until(t, "there is a tunnel", func() bool { return w.pool.Tunnels("east") == 1 })
	return stop
}

func (w *world) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func (w *world) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := w.pool.Dial(t.Context(), "east")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func echo(_ context.Context, s io.ReadWriteCloser) {
	defer s.Close()
	_, _ = io.Copy(s, s)
}

// says sends text over a stream and wants it back.
func says(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("sent %q, got %q", text, got)
	}
	return nil
}

func within(t *testing.T, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(timeout):
		t.Fatalf("%s: not in time", what)
	}
}

func TestATunnelHasHundredsOfStreamsAtATime(t *testing.T) {
	w := newWorld(t)
	w.agent(t, echo)
	if got, want := *w.path.Load(), "/targets/east/clusters/root/tunnel"; got != want {
		t.Errorf("the agent asks for %s, want %s", got, want)
	}
	var conns []net.Conn
	for range maxStreams {
		conns = append(conns, w.dial(t))
	}
	if _, err := w.pool.Dial(t.Context(), "east"); !errors.Is(err, ErrFull) {
		t.Errorf("one stream more than a tunnel has: %v", err)
	}
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			if err := says(conn, strings.Repeat(fmt.Sprint("stream ", i), 1000)); err != nil {
				t.Error(err)
			}
		})
	}
	within(t, "all say something", func() error { all.Wait(); return nil })
	for _, conn := range conns {
		_ = conn.Close()
	}
	w.until(t, "a stream is free again", func() bool {
		conn, err := w.pool.Dial(t.Context(), "east")
		return err == nil && conn.Close() == nil
	})
}

// TestWhoDoesNotReadStopsNobody has so many readers that stall, at either end, that a
// window for the connection of the default size would be full.
func TestWhoDoesNotReadStopsNobody(t *testing.T) {
	w := newWorld(t)
	var sent atomic.Int64
	stalled := make(chan struct{})
	w.agent(t, func(ctx context.Context, s io.ReadWriteCloser) {
		defer s.Close()
		defer context.AfterFunc(ctx, func() { s.Close() })()
		kind := make([]byte, 1)
		if _, err := io.ReadFull(s, kind); err != nil {
			return
		}
		switch kind[0] {
		case 'f': // floods
			for data := make([]byte, 32<<10); ; {
				n, err := s.Write(data)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		case 's': // stalls
			select {
			case <-ctx.Done():
			case <-stalled:
			}
		default:
			_, _ = io.Copy(s, s)
		}
	})
	const many = 60
	var written atomic.Int64
	for range many {
		flood, stall := w.dial(t), w.dial(t)
		defer flood.Close()
		defer stall.Close()
		_, _ = flood.Write([]byte("f"))
		_, _ = stall.Write([]byte("s"))
		go func() { // ends with the stream
			for data := make([]byte, 32<<10); ; {
				n, err := stall.Write(data)
				written.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
	}
	const full = many * window * 9 / 10
	w.until(t, "all that stall are full", func() bool { return sent.Load() > full && written.Load() > full })
	for i := range 20 {
		within(t, "a stream beside those that stall", func() error {
			conn := w.dial(t)
			defer conn.Close()
			_, _ = conn.Write([]byte("e"))
			return says(conn, strings.Repeat(fmt.Sprint(i), 100<<10))
		})
	}
	if limit := int64(many) * (window + 1<<20); sent.Load() > limit || written.Load() > limit {
		t.Errorf("streams that stall hold %d and %d bytes, more than %d: there is no back-pressure", sent.Load(), written.Load(), limit)
	}
}

func TestATunnelThatIsCutIsMadeAgainAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	before := runtime.NumGoroutine()
	stop := w.agent(t, echo)
	for range 3 {
		var conns []net.Conn
		for range 50 {
			conn := w.dial(t)
			if err := says(conn, "hello"); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		w.pool.CloseTo("east")
		for _, conn := range conns {
			within(t, "a stream of a tunnel that was cut", func() error {
				if _, err := io.ReadAll(conn); err == nil {
					return errors.New("it ends as if all had been said")
				}
				return conn.Close()
			})
		}
		w.until(t, "there is another tunnel", func() bool { return w.pool.Tunnels("east") == 1 })
	}
	if ended := w.pool.Ended("east"); !ended.IsZero() {
		t.Errorf("the last tunnel ended at %v, and there is one", ended)
	}
	stopped := time.Now()
	stop()
	w.until(t, "the tunnel is gone", func() bool { return w.pool.Tunnels("east") == 0 })
	if _, err := w.pool.Dial(t.Context(), "east"); !errors.Is(err, ErrNone) {
		t.Errorf("a stream without a tunnel: %v", err)
	}
	if ended := w.pool.Ended("east"); ended.Before(stopped) || w.pool.Ended("west") != (time.Time{}) {
		t.Errorf("the last tunnel ended at %v, want after %v; of one that had none: %v", ended, stopped, w.pool.Ended("west"))
	}
	w.pool.CloseTo("east")
	if ended := w.pool.Ended("east"); !ended.IsZero() {
		t.Errorf("it is remembered when a tunnel of what is gone ended: %v", ended)
	}
	w.CloseClientConnections()
	w.until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestWhatWasSaidBeforeAStreamEndedArrives(t *testing.T) {
	w := newWorld(t)
	said := bytes.Repeat([]byte("0123456789"), 300<<10)
	w.agent(t, func(_ context.Context, s io.ReadWriteCloser) {
		_, _ = s.Write(said)
		_ = s.Close()
	})
	for range 20 {
		conn := w.dial(t)
		within(t, "reading what was said", func() error {
			got, err := io.ReadAll(conn)
			if !bytes.Equal(got, said) {
				return fmt.Errorf("%d of %d bytes arrived: %w", len(got), len(said), err)
			}
			return nil
		})
		_ = conn.Close()
	}
}

func TestAStreamThatIsClosedEndsAtTheOtherEnd(t *testing.T) {
	w := newWorld(t)
	ended := make(chan struct{}, 2)
	w.agent(t, func(_ context.Context, s io.ReadWriteCloser) {
		_, _ = io.Copy(io.Discard, s)
		ended <- struct{}{}
	})
	conn := w.dial(t)
	_, _ = conn.Write([]byte("x"))
	_ = conn.Close()
	select {
	case <-ended:
	case <-time.After(timeout):
		t.Error("the agent's end of a stream goes on")
	}
	if _, err := conn.Write([]byte("x")); err == nil {
		t.Error("a closed stream is written to")
	}
}

func TestAServerThatEndsTakesNoTunnels(t *testing.T) {
	w := newWorld(t)
	w.agent(t, echo)
	w.pool.Close()
	w.until(t, "the tunnel is gone", func() bool { return w.pool.Tunnels("east") == 0 })
	resp, err := w.Client().Get(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a request without an upgrade is answered %d", resp.StatusCode)
	}
}
