package storage

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// stream is what our watches have in common: events for one reader, until it
// stops or its context ends.
type stream struct {
	events chan watch.Event
	done   chan struct{}
	stop   func()
}

func newStream(buffer int) stream {
	s := stream{events: make(chan watch.Event, buffer), done: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.done) })
	return s
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// send reports whether there is still a reader. Nothing is sent after it left.
func (s *stream) send(ctx context.Context, e watch.Event) bool {
	select {
	case <-s.done:
		return false
	case <-ctx.Done():
		return false
	default:
	}
	select {
	case s.events <- e:
		return true
	case <-s.done:
		return false
	case <-ctx.Done():
		return false
	}
}

// sendInitial sends the events that a watch begins with. Their objects come from
// a list, which shares them with the watch cache.
func (s *stream) sendInitial(ctx context.Context, initial []watch.Event) bool {
	for i, e := range initial {
		initial[i] = watch.Event{} // nothing holds what has been sent
		if e.Type == watch.Added {
			e.Object = e.Object.DeepCopyObject()
		}
		if !s.send(ctx, e) {
			return false
		}
	}
	return true
}
