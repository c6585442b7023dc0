package storage

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// wantsInitialEvents reports whether a watch begins with the current state: if
// it says so, or says neither that nor a resource version.
func wantsInitialEvents(o storage.ListOptions) bool {
	if o.SendInitialEvents != nil {
		return *o.SendInitialEvents
	}
	return o.ResourceVersion == "" || o.ResourceVersion == "0"
}

// initialEvents are the items of a list of key and, if o asks for it, the
// bookmark after them; a watch has to go on from rv. The watch cache would walk
// the whole resource for initial events; its lists walk what is below key.
func (s *store) initialEvents(ctx context.Context, key string, o storage.ListOptions) (events []watch.Event, rv uint64, err error) {
	if events, rv, err = added(ctx, s.resource, s.Interface, key, initialList(o)); err != nil {
		return nil, 0, err
	}
	if o.SendInitialEvents != nil && o.Predicate.AllowWatchBookmarks {
		end := s.newFunc()
		if err := s.Versioner().UpdateObject(end, rv); err != nil {
			return nil, 0, err
		}
		if err := storage.AnnotateInitialEventsEndBookmark(end); err != nil {
			return nil, 0, err
		}
		events = append(events, watch.Event{Type: watch.Bookmark, Object: end})
	}
	return events, rv, nil
}

// added are the items of a list as events, and the resource version of the list.
func added(ctx context.Context, r *resource, from storage.Interface, key string, o storage.ListOptions) (events []watch.Event, rv uint64, err error) {
	list := r.newListFunc()
	if err := from.GetList(ctx, key, o, list); err != nil {
		return nil, 0, err
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return nil, 0, err
	}
	if rv, err = from.Versioner().ParseResourceVersion(l.GetResourceVersion()); err != nil {
		return nil, 0, err
	}
	events = make([]watch.Event, 0, meta.LenList(list)+1)
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		events = append(events, watch.Event{Type: watch.Added, Object: obj})
		return nil
	})
	return events, rv, err
}

// listThenWatch is a watch of the logical cluster c that begins with its state.
func (s *store) listThenWatch(ctx context.Context, c logicalcluster.Name, key string, o storage.ListOptions) (watch.Interface, error) {
	initial, rv, err := s.initialEvents(ctx, key, o)
	if err != nil {
		return failed(err)
	}
	o.SendInitialEvents, o.ResourceVersion, o.ResourceVersionMatch = nil, strconv.FormatUint(rv, 10), ""
	o.Predicate = s.inCluster(o.Predicate, c)
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	return newPrefixed(ctx, initial, w), nil
}

// initialList is the list whose items a watch with o begins with.
func initialList(o storage.ListOptions) storage.ListOptions {
	l := storage.ListOptions{ResourceVersion: o.ResourceVersion, Recursive: o.Recursive, Predicate: o.Predicate}
	l.Predicate.Limit, l.Predicate.Continue = 0, ""
	switch {
	case o.ResourceVersion != "":
		l.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	case o.SendInitialEvents == nil:
		l.ResourceVersion = "0" // the oldest kind of watch takes any state
	}
	return l
}

// failed answers a watch request that is well-formed, but cannot be served, like
// the watch cache does: with an error event, or with 429 while it is not ready.
func failed(err error) (watch.Interface, error) {
	if apierrors.IsTooManyRequests(err) {
		return nil, err
	}
	w := &closed{events: make(chan watch.Event, 1)}
	w.events <- watch.Event{Type: watch.Error, Object: statusOf(err)}
	close(w.events)
	return w, nil
}

func statusOf(err error) *metav1.Status {
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		return &status.ErrStatus
	}
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Message: err.Error(),
		Reason:  metav1.StatusReasonInternalError,
		Code:    http.StatusInternalServerError,
	}
}

// closed is a watch that has ended.
type closed struct{ events chan watch.Event }

// ResultChan implements watch.Interface.
func (c *closed) ResultChan() <-chan watch.Event { return c.events }

// Stop implements watch.Interface.
func (*closed) Stop() {}

// prefixedBuffer is how many events a prefixed watch takes from the one below
// before its reader asks for them: the watch cache ends slow watchers, and its
// own buffers are small for watchers in a bucket.
const prefixedBuffer = 64

// prefixed delivers initial events, then those of another watch.
type prefixed struct {
	stream
	rest watch.Interface
}

func newPrefixed(ctx context.Context, initial []watch.Event, rest watch.Interface) *prefixed {
	p := &prefixed{stream: newStream(prefixedBuffer), rest: rest}
	go p.run(ctx, initial)
	return p
}

// Stop implements watch.Interface.
func (p *prefixed) Stop() {
	p.stop()
	p.rest.Stop()
}

func (p *prefixed) run(ctx context.Context, initial []watch.Event) {
	defer close(p.events)
	defer p.rest.Stop()
	if !p.sendInitial(ctx, initial) {
		return
	}
	for e := range p.rest.ResultChan() {
		if !p.send(ctx, e) {
			return
		}
	}
}
