package storage

import (
	"maps"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// WithIndexes has the watch caches of what delegate makes keep indexes, by names that are no fields: of an object, the
// values under which it is found. A value begins with the logical cluster, or is of all. Lists
// use them with the predicate of Indexed.
func WithIndexes(delegate generic.RESTOptionsGetter, more map[string]func(runtime.Object) []string) generic.RESTOptionsGetter {
	indexers := cache.Indexers{}
	for field, values := range more {
		indexers[storage.FieldIndex(field)] = func(obj any) ([]string, error) {
			o, ok := obj.(runtime.Object)
			if !ok {
				return nil, nil
			}
			return values(o), nil
		}
	}
	return indexing{delegate, indexers}
}

type indexing struct {
	generic.RESTOptionsGetter
	more cache.Indexers
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g indexing) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(gr, example)
	if err != nil {
		return o, err //nolint:wrapcheck // of the same interface
	}
	decorate := o.Decorator
	o.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, given *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		all := maps.Clone(g.more)
		if given != nil {
			maps.Copy(all, *given)
		}
		return decorate(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, &all)
	}
	return o, nil
}

// Indexed selects what an index has under a value. What has no index, as etcd has none, gives more, so that who
// lists holds each object against the value.
func Indexed(field, value string, attrs storage.AttrFunc) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: labels.Everything(), Field: indexed{field, value}, GetAttrs: attrs, IndexFields: []string{field}}
}

type indexed struct{ field, value string }

var _ fields.Selector = indexed{}

// Matches implements fields.Selector.
func (indexed) Matches(fields.Fields) bool { return true }

// Empty implements fields.Selector.
func (indexed) Empty() bool { return false }

// RequiresExactMatch implements fields.Selector.
func (i indexed) RequiresExactMatch(field string) (string, bool) { return i.value, field == i.field }

// Transform implements fields.Selector.
func (i indexed) Transform(fields.TransformFunc) (fields.Selector, error) { return i, nil }

// Requirements implements fields.Selector.
func (indexed) Requirements() fields.Requirements { return nil }

// String implements fields.Selector.
func (i indexed) String() string { return i.field + "=" + i.value }

// DeepCopySelector implements fields.Selector.
func (i indexed) DeepCopySelector() fields.Selector { return i }
