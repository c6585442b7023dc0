package storage

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// sees reports whether obj is visible to target.
func (r *resource) sees(target string, obj runtime.Object) bool {
	return slices.Contains(r.targets(obj), target)
}

// invisible is the error for an object that exists, but not in the view.
func invisible(key string) error { return storage.NewKeyNotFoundError(key, 0) }

// getVisible ends a Get: out becomes empty if it is not visible to target.
func (s *store) getVisible(target, key string, o storage.GetOptions, out runtime.Object) error {
	if s.sees(target, out) {
		return nil
	}
	if err := runtime.SetZeroValue(out); err != nil {
		return err
	}
	if o.IgnoreNotFound {
		return nil
	}
	return invisible(key)
}

// updateVisible refuses to update what is not visible to target: the reply
// would show it.
func (s *store) updateVisible(target, key string, update storage.UpdateFunc) storage.UpdateFunc {
	return func(in runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if meta.ResourceVersion != 0 && !s.sees(target, in) {
			return nil, nil, invisible(key)
		}
		return update(in, meta)
	}
}

// deleteVisible refuses to delete what is not visible to target.
func (s *store) deleteVisible(target, key string, validate storage.ValidateObjectFunc) storage.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if !s.sees(target, obj) {
			return invisible(key)
		}
		return validate(ctx, obj)
	}
}

// listView lists what is visible to target. The watch cache finds it through
// its index if the list spans all logical clusters.
func (s *store) listView(ctx context.Context, target, key string, o storage.ListOptions, list runtime.Object) error {
	if s.hub == nil {
		return apierrors.NewMethodNotSupported(s.gr, "list")
	}
	// A watch from the version of this list must find the hub running.
	if err := s.hub.ready(ctx); err != nil {
		return err
	}
	c, _ := scope.ClusterFrom(ctx)
	o.Predicate = s.visibleTo(o.Predicate, target, c == scope.Wildcard)
	return s.Interface.GetList(ctx, key, o, list)
}

// watchView watches what is visible to target.
func (s *store) watchView(ctx context.Context, target, key string, o storage.ListOptions) (watch.Interface, error) {
	if s.hub == nil {
		return nil, apierrors.NewMethodNotSupported(s.gr, "watch")
	}
	rv, err := s.Versioner().ParseResourceVersion(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	prepared, err := storage.PrepareKey(s.keys.prefix, key, o.Recursive)
	if err != nil {
		return nil, err
	}
	if err := s.hub.ready(ctx); err != nil {
		return nil, err
	}
	var initial []watch.Event
	switch {
	case wantsInitialEvents(o):
		c, _ := scope.ClusterFrom(ctx)
		visible := o
		visible.Predicate = s.visibleTo(o.Predicate, target, c == scope.Wildcard)
		if initial, rv, err = s.initialEvents(ctx, key, visible); err != nil {
			return failed(err)
		}
	case o.ResourceVersion == "":
		if rv, err = s.GetCurrentResourceVersion(ctx); err != nil {
			return failed(err)
		}
	}
	w := newViewWatch(s.hub, target, prepared, o.Predicate)
	if err := s.hub.add(w, rv); err != nil {
		return failed(err)
	}
	go w.run(ctx, initial)
	return w, nil
}
