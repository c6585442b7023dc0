package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// store serves every logical cluster from one storage.Interface. Methods that
// are not about an object (Stats, ReadinessCheck, GetCurrentResourceVersion,
// ...) are those of the whole resource.
type store struct {
	storage.Interface
	*resource
	// hub feeds the views; nil says that Interface is no watch cache.
	hub *hub
	// raw is the storage below the watch cache; nil leaves all lists to the cache.
	raw storage.Interface
	// reached spares watches the question to etcd.
	reached reached
}

// Create implements storage.Interface.
func (s *store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	key, c, err := s.keys.one(ctx, key)
	if err != nil {
		return err
	}
	if err := stamp(obj, c); err != nil {
		return err
	}
	keepUID(ctx, s.gr, obj)
	return explain(s.Interface.Create(ctx, key, obj, out, ttl))
}

// Get implements storage.Interface.
func (s *store) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	key, _, err := s.keys.one(ctx, key)
	if err != nil {
		return err
	}
	if err := s.Interface.Get(ctx, key, o, out); err != nil {
		return explainRead(err)
	}
	if target, ok := scope.TargetFrom(ctx); ok {
		return s.getVisible(target, key, o, out)
	}
	return nil
}

// GuaranteedUpdate implements storage.Interface.
func (s *store) GuaranteedUpdate(ctx context.Context, key string, dest runtime.Object, ignoreNotFound bool, pre *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	key, c, err := s.keys.one(ctx, key)
	if err != nil {
		return err
	}
	if target, ok := scope.TargetFrom(ctx); ok {
		update = s.updateVisible(target, key, update)
	}
	return explain(s.Interface.GuaranteedUpdate(ctx, key, dest, ignoreNotFound, pre, stamped(update, c), cached))
}

// Delete implements storage.Interface.
func (s *store) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, o storage.DeleteOptions) error {
	key, _, err := s.keys.one(ctx, key)
	if err != nil {
		return err
	}
	if target, ok := scope.TargetFrom(ctx); ok {
		validate = s.deleteVisible(target, key, validate)
	}
	err = s.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	if err == nil {
		noteRemoved(ctx)
	}
	return explain(err)
}

// GetList implements storage.Interface.
func (s *store) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	key, c, err := s.keys.many(ctx, key, o.Recursive)
	if err != nil {
		return err
	}
	if target, ok := scope.TargetFrom(ctx); ok {
		return s.listView(ctx, target, key, o, list)
	}
	if done, err := s.listFresh(ctx, c, key, o, list); done || err != nil {
		return err
	}
	return explainRead(s.list(ctx, key, o, list))
}

// Watch implements storage.Interface.
func (s *store) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	key, c, err := s.keys.many(ctx, key, o.Recursive)
	if err != nil {
		return nil, err
	}
	if err := s.refuseFuture(ctx, o); err != nil {
		return failed(err)
	}
	if target, ok := scope.TargetFrom(ctx); ok {
		return s.watchView(ctx, target, key, o)
	}
	if s.hub == nil || c == scope.Wildcard {
		return s.Interface.Watch(ctx, key, o)
	}
	if wantsInitialEvents(o) && o.Recursive {
		return s.listThenWatch(ctx, c, key, o)
	}
	o.Predicate = s.inCluster(o.Predicate, c)
	return s.Interface.Watch(ctx, key, o)
}
