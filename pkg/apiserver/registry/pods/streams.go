package pods

import (
	"context"
	"fmt"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxOfCluster is how many streams a logical cluster has at a time, maxStreams how many
	// there are in all: each is two connections and two goroutines.
	maxOfCluster = 100
	maxStreams   = 1000
	// maxConnections is how many connections the server itself has into pods of a logical
	// cluster, maxAllConnections how many there are in all.
	maxConnections    = 50
	maxAllConnections = 500
	// retrySeconds is when to try again if there are too many.
	retrySeconds = 5
)

// Streams counts the streams into pods and ends them: those of users, and the connections
// of the server itself. Neither takes the room of the other.
type Streams struct {
	mu     sync.Mutex
	closed bool
	open   map[*opened]struct{}
	// users and own are how many of them there are, by who asked.
	users, own counts
	// freed is closed when a connection of the server ends.
	freed chan struct{}
}

// counts are how many of a logical cluster there are, and in all.
type counts struct {
	of  map[logicalcluster.Name]int
	all int
}

func (c *counts) add(name logicalcluster.Name, n int) {
	c.all += n
	if c.of[name] += n; c.of[name] == 0 {
		delete(c.of, name)
	}
}

type opened struct {
	cluster logicalcluster.Name
	target  string
	cancel  context.CancelFunc
	// counts is where it counts; closeIdle closes it and its like, if they are idle. It is
	// nil for streams of users.
	counts    *counts
	closeIdle func()
}

// NewStreams has none.
func NewStreams() *Streams {
	s := &Streams{open: map[*opened]struct{}{}, freed: make(chan struct{})}
	s.users.of, s.own.of = map[logicalcluster.Name]int{}, map[logicalcluster.Name]int{}
	return s
}

// begin counts a stream; its context ends when the stream has to. The result ends it.
func (s *Streams) begin(ctx context.Context, c logicalcluster.Name, target string) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, errShutdown
	case s.users.of[c] >= maxOfCluster:
		return nil, nil, apierrors.NewTooManyRequests(fmt.Sprintf("the logical cluster has %d streams into pods (logs -f, exec, attach, port-forward) at this server already", maxOfCluster), retrySeconds)
	case s.users.all >= maxStreams:
		return nil, nil, apierrors.NewTooManyRequests("the server has as many streams into pods as it can", retrySeconds)
	}
	ctx, end := s.add(ctx, &opened{cluster: c, target: target, counts: &s.users})
	return ctx, end, nil
}

// connect counts a connection of the server itself, as begin does. Where there are too many
// it closes those that are idle, and waits for as long as ctx lasts.
func (s *Streams) connect(ctx, during context.Context, c logicalcluster.Name, target string, closeIdle func()) (context.Context, func(), error) {
	for first := true; ; first = false {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, nil, errShutdown
		case s.own.of[c] < maxConnections && s.own.all < maxAllConnections:
			ctx, end := s.add(during, &opened{cluster: c, target: target, counts: &s.own, closeIdle: closeIdle})
			s.mu.Unlock()
			return ctx, end, nil
		}
		var idle []func()
		for o := range s.open {
			if first && o.closeIdle != nil && (o.cluster == c || s.own.of[c] < maxConnections) {
				idle = append(idle, o.closeIdle)
			}
		}
		freed := s.freed
		s.mu.Unlock()
		for _, closeIdle := range idle {
			closeIdle()
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, nil, apierrors.NewTooManyRequests(fmt.Sprintf("the server has as many connections into pods for webhooks and aggregated APIs as it may: %d of a logical cluster, %d in all", maxConnections, maxAllConnections), retrySeconds)
		}
	}
}

var errShutdown = apierrors.NewServiceUnavailable("the server is shutting down")

// add is called with the lock.
func (s *Streams) add(ctx context.Context, o *opened) (context.Context, func()) {
	ctx, o.cancel = context.WithCancel(ctx)
	s.open[o] = struct{}{}
	o.counts.add(o.cluster, 1)
	return ctx, func() { s.end(o) }
}

func (s *Streams) end(o *opened) {
	o.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[o]; !ok {
		return
	}
	delete(s.open, o)
	o.counts.add(o.cluster, -1)
	if o.closeIdle != nil {
		close(s.freed)
		s.freed = make(chan struct{})
	}
}

// EndOn ends the streams into a physical cluster.
func (s *Streams) EndOn(target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.open {
		if o.target == target {
			o.cancel()
		}
	}
}

// Close ends all streams, and lets none begin.
func (s *Streams) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for o := range s.open {
		o.cancel()
	}
}

// Open is how many there are.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
