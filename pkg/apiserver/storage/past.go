package storage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

const (
	// pastKept is how many events a watch cache keeps at least, however old they are, upstream's
	// defaultLowerBoundCapacity: each holds an object as it was before and as it was then.
	pastKept = 100
	// pastBytes is how much must have been read from the database for a resource, in values
	// of at least largeValue, until its old events are worth to be forgotten.
	pastBytes  = 4 << 20
	largeValue = 16 << 10
	// askTimeout bounds how long etcd is asked for a bookmark.
	askTimeout = 5 * time.Second
)

// past is what the watch cache of a resource keeps of events, which it forgets by their number alone: who
// deletes a hundred objects of a megabyte leaves twice as much behind, until somebody changes a
// hundred others.
type past struct {
	window time.Duration // for how long the watch cache keeps events at least
	// large are the bytes of large values that were read for the resource since all was forgotten.
	large *atomic.Int64
	// last is when the last event was; zero: none was since then.
	last time.Time
}

// age is how much later than the last event those that say nothing are recorded. The watch cache keeps twice as
// many when it is full of events of less than its window, so these have to be later than the others by more than it,
// and what comes next later than these by as much: they are sent after twice their age.
func (p *past) age() time.Duration { return p.window + time.Second }

// quiet is for how long nothing happens until all is forgotten.
func (p *past) quiet() time.Duration { return 2 * p.age() }

// forget says that all events are to be forgotten, once, and when those that say nothing are recorded: nothing
// has happened for long enough, and it is worth it.
func (p *past) forget(now time.Time) (at time.Time, ok bool) {
	if p.last.IsZero() || p.large.Load() < pastBytes || now.Sub(p.last) < p.quiet() {
		return time.Time{}, false
	}
	at = p.last.Add(p.age())
	p.last = time.Time{}
	p.large.Store(0)
	return at, true
}

// forgetting is a watch below a watch cache. With the bookmark of a quiet minute, for which it asks when what is old
// may go, come events that say nothing, by which the watch cache forgets its old ones: an object comes and goes whose key is below no
// resource, so that no watch and no list has it, at the version of the bookmark. That is later than the last
// event, so whoever continues from before gets 410, and misses nothing.
//
// Events pass through it only while there is something large to be forgotten: until then, and again afterwards, the
// reader has the channel that they come from, which it asks for anew before each event.
type forgetting struct {
	watch.Interface // where events come from
	done            chan struct{}
	stop            func()
	past            past
	ask             func(context.Context) error // for a bookmark
	kept            func() int                  // how many events the watch cache keeps; for the reader only
	newFunc         func() runtime.Object
	passage         *passage // of the reader; nil while it has the channel that events come from
}

// passage is where events pass through until what was large is forgotten.
type passage struct {
	events chan watch.Event
	last   string        // version of the last event, or at least that
	kept   atomic.Int64  // how many events the watch cache keeps, as the reader says when it asks for the next one
	over   atomic.Bool   // nothing more comes, but to wake the reader
	left   chan struct{} // closed by the reader when it knows
}

func newForgetting(from watch.Interface, window time.Duration, large *atomic.Int64, ask func(context.Context) error, kept func() int, newFunc func() runtime.Object) *forgetting {
	f := &forgetting{Interface: from, done: make(chan struct{}), past: past{window: window, large: large}, ask: ask, kept: kept, newFunc: newFunc}
	f.stop = sync.OnceFunc(func() { close(f.done) })
	return f
}

// Stop implements watch.Interface.
func (f *forgetting) Stop() {
	f.stop()
	f.Interface.Stop()
}

// ResultChan implements watch.Interface, for one reader.
func (f *forgetting) ResultChan() <-chan watch.Event {
	if p := f.passage; p != nil {
		if !p.over.Load() {
			p.kept.Store(int64(f.kept()))
			return p.events
		}
		close(p.left)
		f.passage = nil
	}
	if f.past.large.Load() < pastBytes {
		return f.Interface.ResultChan()
	}
	f.past.last = time.Now() // there was one, nobody knows when
	f.passage = &passage{events: make(chan watch.Event), left: make(chan struct{})}
	f.passage.kept.Store(int64(f.kept()))
	go f.pass(f.passage)
	return f.passage.events
}

func (f *forgetting) send(p *passage, e watch.Event) bool {
	select {
	case p.events <- e:
		return true
	case <-f.done:
		return false
	}
}

// pass sends events until all that is old is forgotten.
func (f *forgetting) pass(p *passage) {
	old := time.NewTimer(f.past.quiet())
	defer old.Stop()
	next := func() (e watch.Event, ok bool) {
		for {
			select {
			case e, ok = <-f.Interface.ResultChan():
				return e, ok
			case <-old.C:
				go f.asked() // etcd may be slow, and events come
				old.Reset(f.past.quiet())
			}
		}
	}
	for e, ok := next(); ok; e, ok = next() {
		if !f.send(p, e) {
			break
		}
		switch e.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			f.past.last = recorded(e.Object)
			p.last = ofObject(e.Object)
			old.Reset(time.Until(f.past.last.Add(f.past.quiet())))
		case watch.Bookmark:
			at := ofObject(e.Object)
			if p.last == "" {
				p.last = at // no event was later
			}
			then, due := f.due(p, at)
			if due && f.forget(p, at, then) {
				p.over.Store(true)
				select { // it may wait for an event here
				case p.events <- e:
				case <-p.left:
				case <-f.done:
				}
				return
			}
		case watch.Error:
		}
	}
	close(p.events)
}

// asked asks for a bookmark. If it fails there is one after a minute.
func (f *forgetting) asked() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	_ = f.ask(ctx)
}

// due says whether the bookmark of a version is the moment to forget, and when events that say nothing are recorded.
func (f *forgetting) due(p *passage, at string) (recorded time.Time, ok bool) {
	if at == "" || at == p.last {
		return time.Time{}, false
	}
	return f.past.forget(time.Now())
}

// forget sends events that say nothing, as many as the watch cache keeps, and reports whether there is still a
// reader. The watch cache that is full of old ones keeps half as many upon each of the first, and one that is full of
// these would keep twice as many upon one more: so what counts is what it keeps at the end.
func (f *forgetting) forget(p *passage, at string, recorded time.Time) bool {
	nothing := f.newFunc()
	m, err := meta.Accessor(nothing)
	if err != nil {
		return false
	}
	m.SetName(nowhere)
	m.SetNamespace(nowhere)
	m.SetAnnotations(map[string]string{logicalcluster.AnnotationKey: nowhere})
	m.SetResourceVersion(at)
	then := &recordedThen{nothing, recorded}
	for sent := int64(0); sent < p.kept.Load(); sent += 2 {
		if !f.send(p, watch.Event{Type: watch.Added, Object: then}) || !f.send(p, watch.Event{Type: watch.Deleted, Object: then}) {
			return false
		}
	}
	return true
}

// recordedThen is the object of an event that says nothing, with the time at which the watch cache records it.
type recordedThen struct {
	runtime.Object
	at time.Time
}

// RecordTime implements storage.WatchEventWithRecordTime.
func (o *recordedThen) RecordTime() time.Time { return o.at }

// Unwrap implements storage.WatchEventWithRecordTime.
func (o *recordedThen) Unwrap() runtime.Object { return o.Object }

// GetObjectMeta implements metav1.ObjectMetaAccessor, for the reflector, which reads the version of the event.
func (o *recordedThen) GetObjectMeta() metav1.Object {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return nil
	}
	return m
}

// nowhere is the name of an object that is in no logical cluster, and its key. No namespace and no logical
// cluster has such a name.
const nowhere = "_nowhere"

// isNowhere says that no database has obj.
func isNowhere(obj runtime.Object) bool {
	m, err := meta.Accessor(obj)
	return err == nil && m.GetUID() == "" && m.GetName() == nowhere && logicalcluster.From(m) == nowhere
}

// recorded is when the watch cache says that an event of an object was.
func recorded(obj runtime.Object) time.Time {
	if timed, ok := obj.(storage.WatchEventWithRecordTime); ok {
		return timed.RecordTime()
	}
	return time.Now()
}

// ofObject is the resource version of an object.
func ofObject(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}

// weighing counts what is read.
type weighing struct {
	value.Transformer
	large *atomic.Int64
}

// weighed is config with a count of what is read for r.
func (r *resource) weighed(config *storagebackend.ConfigForResource) *storagebackend.ConfigForResource {
	c := *config
	if c.Transformer == nil {
		c.Transformer = identity.NewEncryptCheckTransformer()
	}
	c.Transformer = weighing{c.Transformer, &r.large}
	return &c
}

// TransformFromStorage implements value.Read.
func (w weighing) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if len(data) >= largeValue {
		w.large.Add(int64(len(data)))
	}
	return w.Transformer.TransformFromStorage(ctx, data, dataCtx) //nolint:wrapcheck // it is that of upstream
}
