package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// readyInterval is how often a balancer asks its servers whether they are ready.
const readyInterval = 300 * time.Millisecond

// readyTimeout is how long a balancer waits for the answer.
const readyTimeout = 5 * time.Second

// balancer is a load balancer as simple as they come: connections go to the servers that
// said that they were ready when they were last asked, one after the other, and are not tried again.
type balancer struct {
	net.Listener
	servers []string
	ready   []atomic.Bool
	next    atomic.Uint64
}

// balance runs a balancer over the addresses of servers until the test ends.
func balance(t *testing.T, address string, servers ...string) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: listener, servers: servers, ready: make([]atomic.Bool, len(servers))}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range servers {
		running.Go(func() { b.ask(ctx, i) })
	}
	running.Go(func() { b.accept(ctx, &running) })
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
	return b
}

func (b *balancer) ask(ctx context.Context, i int) {
	client := &http.Client{Timeout: readyTimeout, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as balancers do that ask whether something is alive
	}}
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.servers[i]+"/readyz", nil)
		if err != nil {
			panic(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		b.ready[i].Store(err == nil && resp.StatusCode == http.StatusOK)
		select {
		case <-ctx.Done():
		case <-time.After(readyInterval):
		}
	}
}

func (b *balancer) accept(ctx context.Context, running *sync.WaitGroup) {
	for {
		conn, err := b.Accept()
		if err != nil {
			return
		}
		running.Go(func() { b.carry(ctx, conn) })
	}
}

func (b *balancer) carry(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// Counted once for each connection: if each try counted, those of connections beside it could
	// always be the ones that meet the server that is ready.
	first := int(b.next.Add(1))
	for try := range b.servers {
		i := (first + try) % len(b.servers)
		if !b.ready[i].Load() {
			continue
		}
		server, err := net.DialTimeout("tcp", b.servers[i], 5*time.Second)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, conn)
			_ = server.Close()
		}()
		_, _ = io.Copy(conn, server)
		return
	}
}
