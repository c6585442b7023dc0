package storage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

const (
	// pastKept is how many events a watch cache keeps however old they are, upstream's
	// defaultLowerBoundCapacity: each holds an object as it was before and as it was then.
	pastKept = 100
	// pastBytes is how much must have been read from the database for a resource, in values
	// of at least largeValue, until its old events are worth to be forgotten.
	pastBytes  = 4 << 20
	largeValue = 16 << 10
	// askTimeout bounds how long etcd is asked for a bookmark.
	askTimeout = 5 * time.Second
	// mostNothing is how many events that say nothing come at a time: upstream's watch caches keep twice that
	// at most, after more than three hundred events a second for more than a minute.
	mostNothing = 52_000
)

// amount is what was read from the database for a resource, since old events were forgotten.
type amount struct {
	// large are the bytes of large values, and values is how many there were of any size: no more
	// events than that came, whether or not they were seen.
	large, values atomic.Int64
}

// past is what the watch cache of a resource keeps of events, which it forgets by their number alone: who
// deletes a hundred objects of a megabyte leaves twice as much behind, until somebody changes a
// hundred others.
type past struct {
	window time.Duration
	read   *amount
	// events are those since all were forgotten, the last one at so much time.
	events int
	last   time.Time
}

func (p *past) add(at time.Time) {
	p.events++
	p.last = at
}

// forget is how many events must come for all to be forgotten: as many as a watch cache keeps, which
// doubles what it keeps in a storm, whatever is large in it. Zero while the last one is younger than the window, and where it is not worth it.
func (p *past) forget(now time.Time) int {
	if p.events == 0 || p.read.large.Load() < pastBytes || now.Sub(p.last) < p.window {
		return 0
	}
	n := min(pastKept+2*max(p.events, int(p.read.values.Load())), mostNothing)
	p.events = 0
	p.read.large.Store(0)
	p.read.values.Store(0)
	return n
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
	newFunc         func() runtime.Object
	passage         *passage // of the reader; nil while it has the channel that events come from
}

// passage is where events pass through until what was large is forgotten.
type passage struct {
	events chan watch.Event
	last   string        // version of the last event, or at least that
	over   atomic.Bool   // nothing more comes, but to wake the reader
	left   chan struct{} // closed by the reader when it knows
}

func newForgetting(from watch.Interface, window time.Duration, read *amount, ask func(context.Context) error, newFunc func() runtime.Object) *forgetting {
	f := &forgetting{Interface: from, done: make(chan struct{}), past: past{window: window, read: read}, ask: ask, newFunc: newFunc}
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
			return p.events
		}
		close(p.left)
		f.passage = nil
	}
	if f.past.read.large.Load() < pastBytes {
		return f.Interface.ResultChan()
	}
	f.past.add(time.Now()) // there was one, nobody knows when
	f.passage = &passage{events: make(chan watch.Event), left: make(chan struct{})}
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
	old := time.NewTimer(f.past.window)
	defer old.Stop()
	next := func() (e watch.Event, ok bool) {
		for {
			select {
			case e, ok = <-f.Interface.ResultChan():
				return e, ok
			case <-old.C:
				go f.asked() // etcd may be slow, and events come
				old.Reset(f.past.window)
			}
		}
	}
	for e, ok := next(); ok; e, ok = next() {
		if !f.send(p, e) {
			break
		}
		switch e.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			f.past.add(recorded(e.Object))
			p.last = ofObject(e.Object)
			old.Reset(time.Until(f.past.last.Add(f.past.window)))
		case watch.Bookmark:
			at := ofObject(e.Object)
			if p.last == "" {
				p.last = at // no event was later
			}
			if n := f.due(p, at); n > 0 && f.forget(p, n, at) {
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

// due is how many events are to come after the bookmark of a version.
func (f *forgetting) due(p *passage, at string) int {
	if at == "" || at == p.last {
		return 0
	}
	return f.past.forget(time.Now())
}

// forget sends n events that say nothing, and reports whether there is still a reader.
func (f *forgetting) forget(p *passage, n int, at string) bool {
	nothing := f.newFunc()
	m, err := meta.Accessor(nothing)
	if err != nil {
		return false
	}
	m.SetName(nowhere)
	m.SetNamespace(nowhere)
	m.SetAnnotations(map[string]string{logicalcluster.AnnotationKey: nowhere})
	m.SetResourceVersion(at)
	for range n / 2 {
		if !f.send(p, watch.Event{Type: watch.Added, Object: nothing}) || !f.send(p, watch.Event{Type: watch.Deleted, Object: nothing}) {
			return false
		}
	}
	return true
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
	read *amount
}

// weighed is config with a count of what is read for r.
func (r *resource) weighed(config *storagebackend.ConfigForResource) *storagebackend.ConfigForResource {
	c := *config
	if c.Transformer == nil {
		c.Transformer = identity.NewEncryptCheckTransformer()
	}
	c.Transformer = weighing{c.Transformer, &r.read}
	return &c
}

// TransformFromStorage implements value.Read.
func (w weighing) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	w.read.values.Add(1)
	if len(data) >= largeValue {
		w.read.large.Add(int64(len(data)))
	}
	return w.Transformer.TransformFromStorage(ctx, data, dataCtx) //nolint:wrapcheck // it is that of upstream
}
