package defaults

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/apiserver/selecting"
)

// Watch implements storage.Interface. The storage below is watched without
// selectors, since a stored object that they do not select hides a default that
// they may select; they are applied here. What is stored becomes what is seen:
//
//	stored     default  seen
//	added      yes      modified
//	deleted    yes      modified: the default is back
//	any        no       the same
func (s *overlay) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	c, ok := s.cluster(ctx)
	if !ok || len(s.under(key)) == 0 || s.raw(ctx) {
		return s.Interface.Watch(ctx, key, o)
	}
	wide := o
	wide.Predicate = everything(o.Predicate)
	below, err := s.Interface.Watch(ctx, key, wide)
	if err != nil {
		return nil, err
	}
	seen := func(e watch.Event) watch.Event {
		obj := s.set.in(c, nameOf(e.Object), s.born(ctx, c))
		switch {
		case obj == nil:
		case e.Type == watch.Added:
			e.Type = watch.Modified
		case e.Type == watch.Deleted:
			e = watch.Event{Type: watch.Modified, Object: obj}
		}
		return e
	}
	var first []watch.Event
	if wantsInitialEvents(o) {
		for _, name := range s.under(key) {
			first = append(first, watch.Event{Type: watch.Added, Object: s.set.in(c, name, s.born(ctx, c))})
		}
	}
	return selecting.Watch(below, o.Predicate, first, seen), nil
}

// wantsInitialEvents says whether a watch begins with what is there already.
func wantsInitialEvents(o storage.ListOptions) bool {
	if o.SendInitialEvents != nil {
		return *o.SendInitialEvents
	}
	return o.ResourceVersion == "" || o.ResourceVersion == "0"
}
