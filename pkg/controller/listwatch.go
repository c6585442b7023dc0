package controller

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// ListWatch is where an Informer gets its objects from: see Lists.
type ListWatch struct {
	List  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Lists makes a ListWatch of a typed, dynamic or metadata client.
func Lists[L runtime.Object](c interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) ListWatch {
	return ListWatch{
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := c.List(ctx, o)
			if err != nil {
				return nil, err // not a typed nil in an interface
			}
			return list, nil
		},
		Watch: c.Watch,
	}
}

// source is the ListWatch that the reflector sees.
type source struct {
	lw       ListWatch
	unscoped bool
	tweak    func(*metav1.ListOptions)
	seen     *seen

	// reconnected, if not nil, is asked before a watch that goes on from a version is
	// believed; after says that attempts to watch failed before it.
	reconnected func(ctx context.Context, after bool) error

	mu sync.Mutex
	// asked is what had been seen when the list that is on its way was asked for.
	asked mark
	// anew: the next list is of the state itself and not from a version.
	anew bool
	// begun is the version of the last list: a watch from there is its first.
	begun string
	// failing: the last attempt to watch failed.
	failing bool
	outage  Outage
}

// IsWatchListSemanticsUnSupported keeps the reflector from streaming the
// initial list: it would collect it in a store keyed by namespace and name and
// lose equally named objects of different logical clusters.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

func (s *source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	if s.anew && o.Continue == "" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	if o.Continue == "" {
		s.asked = s.seen.mark()
	}
	s.mu.Unlock()
	list, err := s.lw.List(s.prepare(ctx, &o), o)
	if err == nil || ctx.Err() == nil {
		s.answered(err, false)
	}
	return list, err
}

// WatchWithContext asks whether the server went back after the watch has begun: one
// that goes back later ends it.
func (s *source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	version := o.ResourceVersion
	prepared := s.prepare(ctx, &o)
	w, err := s.lw.Watch(prepared, o)
	if err != nil && ctx.Err() != nil {
		return stopped{}, nil // whoever ended it needs no line in the log for each informer
	}
	s.answered(err, true)
	first, after := s.attempt(version, err)
	if err != nil || first || s.reconnected == nil {
		return w, err
	}
	if err := s.reconnected(ctx, after); err != nil {
		w.Stop()
		return nil, err
	}
	return w, nil
}

// stopped is a watch without events, of a context that has ended.
type stopped struct{}

// ResultChan implements watch.Interface.
func (stopped) ResultChan() <-chan watch.Event { return nil }

// Stop implements watch.Interface.
func (stopped) Stop() {}

// attempt notes how an attempt to watch went: whether it is the first after a list,
// and whether the one before it failed.
func (s *source) attempt(version string, err error) (first, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, after = version == s.begun && !s.failing, s.failing
	s.failing = err != nil
	if err == nil {
		s.begun = ""
	}
	return first, after
}

// listed ends a list.
func (s *source) listed(version string) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.anew, s.begun, s.failing = false, version, false
	return s.asked
}

func (s *source) relist() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.anew = true
}

// List and Watch complete cache.ListerWatcher; the reflector never calls them.
func (s *source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.TODO(), o)
}

func (s *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.TODO(), o)
}

func (s *source) prepare(ctx context.Context, o *metav1.ListOptions) context.Context {
	if s.tweak != nil {
		s.tweak(o)
	}
	return s.scoped(ctx)
}

func (s *source) scoped(ctx context.Context) context.Context {
	if s.unscoped {
		return ctx
	}
	return scope.WithCluster(ctx, scope.Wildcard)
}
