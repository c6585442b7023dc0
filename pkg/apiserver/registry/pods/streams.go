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
	// retrySeconds is when to try again if there are too many.
	retrySeconds = 5
)

// Streams counts the streams into pods and ends them.
type Streams struct {
	mu     sync.Mutex
	closed bool
	open   map[*opened]struct{}
	of     map[logicalcluster.Name]int
}

type opened struct {
	cluster logicalcluster.Name
	target  string
	cancel  context.CancelFunc
}

// NewStreams has none.
func NewStreams() *Streams {
	return &Streams{open: map[*opened]struct{}{}, of: map[logicalcluster.Name]int{}}
}

// begin counts a stream; its context ends when the stream has to. The result ends it.
func (s *Streams) begin(ctx context.Context, c logicalcluster.Name, target string) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, apierrors.NewServiceUnavailable("the server is shutting down")
	case s.of[c] >= maxOfCluster:
		return nil, nil, apierrors.NewTooManyRequests(fmt.Sprintf("the logical cluster has %d streams into pods (logs -f, exec, attach, port-forward) at this server already", maxOfCluster), retrySeconds)
	case len(s.open) >= maxStreams:
		return nil, nil, apierrors.NewTooManyRequests("the server has as many streams into pods as it can", retrySeconds)
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &opened{cluster: c, target: target, cancel: cancel}
	s.open[o] = struct{}{}
	s.of[c]++
	return ctx, func() { s.end(o) }, nil
}

func (s *Streams) end(o *opened) {
	o.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[o]; !ok {
		return
	}
	delete(s.open, o)
	if s.of[o.cluster]--; s.of[o.cluster] == 0 {
		delete(s.of, o.cluster)
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
