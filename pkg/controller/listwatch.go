package controller

import (
	"context"

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
}

// IsWatchListSemanticsUnSupported keeps the reflector from streaming the
// initial list: it would collect it in a store keyed by namespace and name and
// lose equally named objects of different logical clusters.
func (s source) IsWatchListSemanticsUnSupported() bool { return true }

func (s source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx = s.prepare(ctx, &o)
	return s.lw.List(ctx, o)
}

func (s source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	ctx = s.prepare(ctx, &o)
	return s.lw.Watch(ctx, o)
}

// List and Watch complete cache.ListerWatcher; the reflector never calls them.
func (s source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.TODO(), o)
}

func (s source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.TODO(), o)
}

func (s source) prepare(ctx context.Context, o *metav1.ListOptions) context.Context {
	if s.tweak != nil {
		s.tweak(o)
	}
	if s.unscoped {
		return ctx
	}
	return scope.WithCluster(ctx, scope.Wildcard)
}
