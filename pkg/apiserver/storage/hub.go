package storage

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

const (
	// historyWindow is for how long a hub remembers changes: longer than the minute
	// between two bookmarks, by which a quiet view learns of newer versions, and some
	// for whoever was disconnected. As in the watch cache.
	historyWindow = 2 * time.Minute
	// historyKept is how many changes of a resource a hub remembers at least when there
	// are too many in that time.
	historyKept = 2048
	// maxPending is how many changes may wait for the reader of one view.
	maxPending = 8192
	// startTimeout is how long a request waits for the hub; as in the watch cache.
	startTimeout = 3 * time.Second
	// minBackoff and maxBackoff are between attempts to follow the watch cache.
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// hub feeds the watches of all views of one resource from one watch of the
// watch cache. It holds the objects that are visible to any target, by key, and
// finds the watches that an event concerns by the targets of the object before
// and after it: what an event costs depends on the number of its targets, not
// on how many targets or logical clusters there are.
//
// The hub keeps no lists: lists and initial events of a view come from the watch
// cache, which is never behind the hub. A watch that continues from the resource
// version of such a list is exact, whether the hub has seen that version yet or
// is past it (history), so no request ever waits for the hub to catch up.
type hub struct {
	*resource
	source    storage.Interface
	versioner storage.Versioner
	recent    *recentObjects
	pending   int
	now       func() time.Time

	// stop ends run, stopped is closed when it has ended.
	start   sync.Once
	stop    context.CancelFunc
	ctx     context.Context //nolint:containedctx // the life of the store, not a request
	stopped chan struct{}

	mu sync.Mutex
	// loaded is closed when the state below is complete; a new one is made when
	// it is lost.
	loaded  chan struct{}
	rv      uint64
	entries map[string]*entry
	history history
	watches map[string]map[*viewWatch]struct{}
}

func newHub(r *resource, source storage.Interface, seen *recentObjects) *hub {
	h := &hub{
		resource:  r,
		source:    source,
		versioner: storage.APIObjectVersioner{},
		recent:    seen,
		pending:   maxPending,
		history:   history{keep: historyKept, window: historyWindow},
		now:       time.Now,
		stopped:   make(chan struct{}),
		loaded:    make(chan struct{}),
		watches:   map[string]map[*viewWatch]struct{}{},
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// ready starts the hub, if it has not been, and waits until it has its state.
func (h *hub) ready(ctx context.Context) error {
	h.start.Do(func() {
		h.recent.on.Store(true)
		go h.run()
	})
	h.mu.Lock()
	loaded := h.loaded
	h.mu.Unlock()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-loaded:
		return nil
	case <-h.ctx.Done():
		return apierrors.NewServiceUnavailable("the storage has been closed")
	case <-ctx.Done():
		return fmt.Errorf("waiting for the views of %s: %w", h.gr, ctx.Err())
	case <-timeout.C:
		return apierrors.NewTooManyRequests(fmt.Sprintf("the views of %s are being loaded", h.gr), 1)
	}
}

// close ends the hub and every watch that it feeds.
func (h *hub) close() {
	h.stop()
	h.start.Do(func() { close(h.stopped) }) // it never ran
	<-h.stopped
}

func (h *hub) run() {
	defer close(h.stopped)
	defer h.lose(nil)
	backoff := minBackoff
	for h.ctx.Err() == nil {
		before := h.version()
		err := h.follow()
		switch {
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			h.lose(err)
		case err != nil && !apierrors.IsTooManyRequests(err) && h.ctx.Err() == nil:
			klog.ErrorS(err, "Following the watch cache failed, trying again", "resource", h.gr)
		}
		if h.version() > before {
			backoff = minBackoff
		}
		select {
		case <-h.ctx.Done():
		case <-time.After(backoff):
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// follow loads the state, if there is none, and applies events until the watch
// ends. The next call continues where this one ended, unless it says Expired.
func (h *hub) follow() error {
	if h.version() == 0 {
		if err := h.load(); err != nil {
			return err
		}
	}
	everything := storage.Everything
	everything.AllowWatchBookmarks = true
	w, err := h.source.Watch(h.ctx, h.keys.prefix, storage.ListOptions{
		ResourceVersion: fmt.Sprint(h.version()),
		Recursive:       true,
		Predicate:       everything,
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", h.gr, err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		if err := h.apply(e); err != nil {
			return err
		}
	}
	return nil
}

// load reads everything that is visible to any target from the watch cache.
func (h *hub) load() error {
	if l, ok := h.source.(*lazy); ok {
		if _, err := l.needed(h.ctx); err != nil { // its objects are to be those of the watch cache
			return err
		}
	}
	list := h.newListFunc()
	err := h.source.GetList(h.ctx, h.keys.prefix, storage.ListOptions{
		ResourceVersion: "0", // any state will do: lists of views come from the same cache, later
		Recursive:       true,
		Predicate:       h.visibleTo(storage.Everything, "", false),
	}, list)
	if err != nil {
		return fmt.Errorf("listing %s: %w", h.gr, err)
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	rv, err := h.versioner.ParseResourceVersion(l.GetResourceVersion())
	if err != nil {
		return err
	}
	entries := make(map[string]*entry, meta.LenList(list))
	if err := meta.EachListItemWithAlloc(list, func(obj runtime.Object) error {
		key, err := h.key(obj)
		if err == nil {
			entries[key] = &entry{key: key, obj: obj, targets: h.targets(obj)}
		}
		return err
	}); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rv, h.entries = rv, entries
	h.history = history{keep: h.history.keep, window: h.history.window, floor: rv}
	close(h.loaded)
	return nil
}

// lose drops the state and ends all watches: with an error, after which clients
// list again, or without one when the store is closed.
func (h *hub) lose(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ws := range h.watches {
		for w := range ws {
			w.end(err)
		}
	}
	clear(h.watches)
	if h.rv != 0 {
		h.rv, h.entries, h.loaded = 0, nil, make(chan struct{})
	}
}

func (h *hub) version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rv
}
