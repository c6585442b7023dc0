// Package selecting turns a watch of one thing into a watch of another, and
// applies selectors to the result: for objects that are not what is stored.
package selecting

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// Watch sends first and then what seen makes of the events of below about
// objects, as far as predicate selects them: as added, modified or deleted by
// what the watcher was shown before. What it was shown before this watch is not
// known; then an object that is not selected is reported as deleted, which is
// harmless. The objects have names but no namespaces.
func Watch(below watch.Interface, predicate storage.SelectionPredicate, first []watch.Event, seen func(watch.Event) watch.Event) watch.Interface {
	w := &selected{Interface: below, out: make(chan watch.Event), done: make(chan struct{}), predicate: predicate, shown: map[string]bool{}}
	go w.run(first, seen)
	return w
}

type selected struct {
	watch.Interface
	out       chan watch.Event
	done      chan struct{}
	once      sync.Once
	predicate storage.SelectionPredicate
	// shown says, by name, whether the watcher has the object; no entry: unknown.
	shown map[string]bool
}

// ResultChan implements watch.Interface.
func (w *selected) ResultChan() <-chan watch.Event { return w.out }

// Stop implements watch.Interface.
func (w *selected) Stop() {
	w.once.Do(func() { close(w.done) })
	w.Interface.Stop()
}

func (w *selected) run(first []watch.Event, seen func(watch.Event) watch.Event) {
	defer close(w.out)
	defer w.Interface.Stop()
	for _, e := range first {
		if !w.send(e) {
			return
		}
	}
	for e := range w.Interface.ResultChan() {
		if e.Type != watch.Error {
			e = seen(e)
		}
		if !w.send(e) {
			return
		}
	}
}

// send selects and delivers; false says that nobody listens any more.
func (w *selected) send(e watch.Event) bool {
	if e.Type == watch.Added || e.Type == watch.Modified || e.Type == watch.Deleted {
		var send bool
		if e, send = w.choose(e); !send {
			return true
		}
	}
	select {
	case w.out <- e:
		return true
	case <-w.done:
		return false
	}
}

func (w *selected) choose(e watch.Event) (watch.Event, bool) {
	if w.predicate.Empty() {
		return e, true
	}
	match, err := w.predicate.Matches(Object(e.Object))
	if err != nil {
		return failed(fmt.Errorf("selecting: %w", err)), true
	}
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return failed(fmt.Errorf("selecting: %w", err)), true
	}
	shown, known := w.shown[m.GetName()]
	isDeleted, maybe := e.Type == watch.Deleted, !known && e.Type != watch.Added
	w.shown[m.GetName()] = match && !isDeleted
	switch {
	case isDeleted || !match:
		e.Type = watch.Deleted
		return e, shown || maybe
	case known && !shown:
		e.Type = watch.Added
	case known && shown:
		e.Type = watch.Modified
	}
	return e, true
}

// Object is obj itself, where the watch cache hands out one that remembers how it
// is encoded.
func Object(obj runtime.Object) runtime.Object {
	if cached, ok := obj.(runtime.CacheableObject); ok {
		return cached.GetObject()
	}
	return obj
}

func failed(err error) watch.Event {
	status := apierrors.NewInternalError(err).Status()
	return watch.Event{Type: watch.Error, Object: &status}
}
