package storage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

// watchCache is upstream's, with what ends it.
type watchCache struct {
	*cacher.CacheDelegator
	stop func()
	kept func() int // how many events it keeps, see beginning.kept
}

// lazy is a storage with a watch cache that begins when the resource may have objects,
// or somebody needs it before: a watch cache takes nine goroutines, and most resources
// are never used. Until then:
//
//	get, list                     etcd answers: one range, which is empty
//	create, update, delete        as with a watch cache that does not know the object
//	watch since the vacancy       waits for its end, and sees everything since
//	any other watch, views        the watch cache begins
//
// A watch cache that begins with the first object lists what there was before it, which is
// nothing, so that it has the events of all objects. It answers nothing before it has
// listed.
type lazy struct {
	storage.Interface // etcd
	*resource
	vacancy *vacancy // nil: the watch cache begins at once
	// make begins with the state of a revision; zero for that of now.
	make func(revision uint64) (*watchCache, error)

	mu     sync.Mutex
	closed bool
	cache  atomic.Pointer[watchCache]
	ready  atomic.Bool
	begun  func()
}

// newLazy makes the watch cache at once if v is nil.
func newLazy(r *resource, raw storage.Interface, v *vacancy, make func(revision uint64) (*watchCache, error)) (*lazy, error) {
	l := &lazy{Interface: raw, resource: r, vacancy: v, make: make}
	if v == nil {
		_, err := l.begin()
		return l, err
	}
	l.begun = func() { _, _ = l.begin() } // whoever needs it gets the error
	if !v.wait(&l.begun) {
		// Not known yet, or over: the vacancy tells when it is.
		go func() {
			if v.of(context.Background()) == 0 || !v.wait(&l.begun) {
				l.begun()
			}
		}()
	}
	return l, nil
}

// close ends the watch cache, and the watches that wait for it.
func (l *lazy) close() {
	l.mu.Lock()
	l.closed = true
	c := l.cache.Load()
	l.mu.Unlock()
	if l.vacancy != nil {
		l.vacancy.close()
	}
	if c != nil {
		c.stop()
	}
}

// begin makes the watch cache, once.
func (l *lazy) begin() (*watchCache, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.cache.Load(); c != nil {
		return c, nil
	}
	if l.closed {
		return nil, apierrors.NewServiceUnavailable("the storage has been closed")
	}
	var revision uint64
	if l.vacancy != nil {
		revision = l.vacancy.last()
	}
	c, err := l.make(revision)
	if err != nil {
		return nil, fmt.Errorf("creating the watch cache of %s: %w", l.gr, err)
	}
	l.cache.Store(c)
	return c, nil
}

// needed makes the watch cache and waits, not for long, until it has listed.
func (l *lazy) needed(ctx context.Context) (storage.Interface, error) {
	c, err := l.begin()
	if err != nil {
		return nil, err
	}
	if l.vacancy == nil || l.current() == storage.Interface(c) {
		return c, nil
	}
	// The watch cache itself says that it is not ready.
	_ = wait.PollUntilContextTimeout(ctx, 2*time.Millisecond, startTimeout, true, func(context.Context) (bool, error) {
		return l.current() == storage.Interface(c), nil
	})
	return c, nil
}

// current is who answers: the watch cache, once it has listed.
func (l *lazy) current() storage.Interface {
	c := l.cache.Load()
	switch {
	case c == nil:
		return l.Interface
	case l.vacancy == nil || l.ready.Load():
		return c
	case c.ReadinessCheck() != nil:
		return l.Interface
	}
	l.ready.Store(true)
	return c
}

// Get implements storage.Interface.
func (l *lazy) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	return l.current().Get(ctx, key, o, out)
}

// GetList implements storage.Interface.
func (l *lazy) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	return l.current().GetList(ctx, key, o, list)
}

// GuaranteedUpdate implements storage.Interface.
func (l *lazy) GuaranteedUpdate(ctx context.Context, key string, dest runtime.Object, ignoreNotFound bool, pre *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	// Upstream's watch cache gives the object that it has, or none.
	return l.current().GuaranteedUpdate(ctx, key, dest, ignoreNotFound, pre, update, nil)
}

// Delete implements storage.Interface.
func (l *lazy) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc, _ runtime.Object, o storage.DeleteOptions) error {
	return l.current().Delete(ctx, key, out, pre, validate, nil, o)
}

// ReadinessCheck implements storage.Interface.
func (l *lazy) ReadinessCheck() error { return l.current().ReadinessCheck() }

// CompactRevision implements storage.Interface.
func (l *lazy) CompactRevision() int64 { return l.current().CompactRevision() }

// Watch implements storage.Interface.
func (l *lazy) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	if l.vacancy != nil && l.cache.Load() == nil && o.SendInitialEvents == nil {
		since := l.vacancy.of(ctx)
		rv, err := l.Versioner().ParseResourceVersion(o.ResourceVersion)
		if err == nil && since != 0 && rv >= since {
			w := &awaiting{stream: newStream(prefixedBuffer), lazy: l, ctx: ctx, key: key, options: o, from: rv}
			if w.begin = w.run; l.vacancy.wait(&w.begin) {
				utilflowcontrol.WatchInitialized(ctx)
				return w, nil
			}
		}
	}
	c, err := l.needed(ctx)
	if err != nil {
		return nil, err
	}
	return c.Watch(ctx, key, o)
}

// awaiting is a watch of a resource that has no objects. It costs nothing until there
// are some.
type awaiting struct {
	stream
	lazy    *lazy
	ctx     context.Context //nolint:containedctx // of the request, for the goroutine that begins later
	key     string
	options storage.ListOptions
	from    uint64
	begin   func()
}

// Stop implements watch.Interface.
func (w *awaiting) Stop() {
	w.stop()
	if w.lazy.vacancy.forget(&w.begin) {
		close(w.events) // it never begins
	}
}

func (w *awaiting) run() {
	defer close(w.events)
	cached, err := w.lazy.needed(w.ctx)
	if err == nil {
		var rest watch.Interface
		if rest, err = cached.Watch(w.ctx, w.key, w.since()); err == nil {
			defer rest.Stop()
			w.copy(rest)
			return
		}
	}
	w.send(w.ctx, watch.Event{Type: watch.Error, Object: statusOf(err)})
}

// since are the options of the watch, from when it was asked for or, as nothing
// happened between, from where the watch cache began.
func (w *awaiting) since() storage.ListOptions {
	o := w.options
	o.ResourceVersion = fmt.Sprint(max(w.from, w.lazy.vacancy.last()))
	return o
}

func (w *awaiting) copy(from watch.Interface) {
	for {
		select {
		case e, ok := <-from.ResultChan():
			if !ok || !w.send(w.ctx, e) {
				return
			}
		case <-w.done:
			return
		}
	}
}
