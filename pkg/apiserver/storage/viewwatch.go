package storage

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	cacherkey "k8s.io/apiserver/pkg/storage/cacher/key"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

// viewBuffer is how many events a watch prepares before its reader asks for them.
const viewBuffer = 16

// viewWatch is one watch of the view of one target.
type viewWatch struct {
	stream
	hub       *hub
	target    string
	key       string
	predicate storage.SelectionPredicate
	// after is the resource version that the reader has.
	after uint64

	mu sync.Mutex
	// queue waits for the reader; wake says that there is something to do.
	queue []pending
	wake  chan struct{}
	// ended says that nothing will be added to the queue; err is why, if the
	// reader has to know.
	ended bool
	err   error
}

// pending is a change, or a bookmark, that waits for the reader of a watch.
type pending struct {
	*change
	// live is the object as the watch cache hands it out: it remembers how it was
	// encoded, for all watches that send it. Nil for changes of the past.
	live runtime.Object
	// bookmark is a resource version.
	bookmark uint64
}

func newViewWatch(h *hub, target, key string, p storage.SelectionPredicate) *viewWatch {
	return &viewWatch{
		stream:    newStream(viewBuffer),
		hub:       h,
		target:    target,
		key:       key,
		predicate: p,
		wake:      make(chan struct{}, 1),
	}
}

// Stop implements watch.Interface.
func (w *viewWatch) Stop() {
	w.stop()
	w.hub.remove(w)
}

// offer appends to the queue and never blocks; false means that the reader is
// too slow and that the watch ends with what is queued. The reader goes on from
// the last version that it got.
func (w *viewWatch) offer(p pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) >= w.hub.pending {
		w.ended = true
	} else {
		w.queue = append(w.queue, p)
	}
	w.notify()
	return !w.ended
}

// end ends the watch after what is queued.
func (w *viewWatch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended, w.err = true, err
	w.notify()
}

func (w *viewWatch) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run sends the initial events, then what is offered, until the watch ends.
func (w *viewWatch) run(ctx context.Context, initial []watch.Event) {
	defer close(w.events)
	defer w.hub.remove(w)
	if !w.sendInitial(ctx, initial) {
		return
	}
	utilflowcontrol.WatchInitialized(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.done:
			return
		case <-w.wake:
		}
		w.mu.Lock()
		queue, ended, err := w.queue, w.ended, w.err
		w.queue = nil
		w.mu.Unlock()
		for _, p := range queue {
			if e, ok := w.event(p); ok && !w.send(ctx, e) {
				return
			}
		}
		if ended {
			if err != nil {
				w.send(ctx, watch.Event{Type: watch.Error, Object: statusOf(err)})
			}
			return
		}
	}
}

// concerns reports whether the target saw or sees the object of c.
func (w *viewWatch) concerns(c *change) bool {
	return c.old != nil && slices.Contains(c.old.targets, w.target) ||
		c.new != nil && slices.Contains(c.new.targets, w.target)
}

// sees reports whether e is in the view and selected.
func (w *viewWatch) sees(e *entry) bool {
	if e == nil || !slices.Contains(e.targets, w.target) || !cacherkey.HasPathPrefix(e.key, w.key) {
		return false
	}
	if w.predicate.Empty() {
		return true
	}
	ok, err := w.predicate.Matches(e.obj)
	return ok && err == nil
}

// event is what the reader gets of p; ok is false if that is nothing.
func (w *viewWatch) event(p pending) (e watch.Event, ok bool) {
	if p.change == nil {
		return w.bookmark(p.bookmark)
	}
	if p.rv <= w.after {
		return e, false
	}
	was, is := w.sees(p.old), w.sees(p.new)
	switch {
	case is && was:
		return watch.Event{Type: watch.Modified, Object: handOut(p.live, p.new.obj)}, true
	case is:
		return watch.Event{Type: watch.Added, Object: handOut(p.live, p.new.obj)}, true
	case was:
		// The last state that was visible, with the version of the event.
		obj := p.old.obj.DeepCopyObject()
		if err := w.hub.versioner.UpdateObject(obj, p.rv); err != nil {
			return e, false
		}
		return watch.Event{Type: watch.Deleted, Object: obj}, true
	}
	return e, false
}

func (w *viewWatch) bookmark(rv uint64) (e watch.Event, ok bool) {
	obj := w.hub.newFunc()
	if rv <= w.after || w.hub.versioner.UpdateObject(obj, rv) != nil {
		return e, false
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}, true
}

// handOut returns an object that a reader may change: live, if it copies itself
// on the first change, else a copy of obj.
func handOut(live, obj runtime.Object) runtime.Object {
	if _, ok := live.(runtime.CacheableObject); ok {
		return live
	}
	return obj.DeepCopyObject()
}
