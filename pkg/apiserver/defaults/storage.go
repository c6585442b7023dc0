package defaults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// Getter lays sets over the storage that delegate makes.
func Getter(delegate generic.RESTOptionsGetter, o Options, sets ...*Set) generic.RESTOptionsGetter {
	g := getter{delegate: delegate, options: o, sets: map[schema.GroupResource]*Set{}}
	for _, s := range sets {
		g.sets[s.resource] = s
	}
	return g
}

type getter struct {
	delegate generic.RESTOptionsGetter
	options  Options
	sets     map[schema.GroupResource]*Set
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g getter) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.delegate.GetRESTOptions(gr, example)
	set := g.sets[gr]
	if err != nil || set == nil {
		return o, err
	}
	next := o.Decorator
	o.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		below, destroy, err := next(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return nil, destroy, err
		}
		return &overlay{Interface: below, options: g.options, set: set, prefix: strings.TrimSuffix(prefix, "/")}, destroy, nil
	}
	return o, nil
}

// overlay is the storage of one resource with its defaults.
type overlay struct {
	storage.Interface
	options Options
	set     *Set
	prefix  string
}

// name is the last segment of the key of an object; empty for a list.
func (s *overlay) name(key string) string {
	return strings.Trim(strings.TrimPrefix(key, s.prefix), "/")
}

// cluster is the one logical cluster that ctx is about, if defaults exist there.
func (s *overlay) cluster(ctx context.Context) (logicalcluster.Name, bool) {
	where, ok := scope.From(ctx)
	return where.Cluster, ok && where.Target == "" && where.Cluster != scope.Wildcard
}

func (s *overlay) born(ctx context.Context, c logicalcluster.Name) metav1.Time {
	if s.options.Born == nil {
		return metav1.Time{}
	}
	return s.options.Born(ctx, c)
}

// defaultOf is the default of a key, whether or not something is stored there.
func (s *overlay) defaultOf(ctx context.Context, key string) runtime.Object {
	c, ok := s.cluster(ctx)
	name := s.name(key)
	if !ok || !s.set.has(name) {
		return nil
	}
	return s.set.in(c, name, s.born(ctx, c))
}

// Get implements storage.Interface.
func (s *overlay) Get(ctx context.Context, key string, o storage.GetOptions, out runtime.Object) error {
	if !s.set.has(s.name(key)) {
		return s.Interface.Get(ctx, key, o, out)
	}
	strict := o
	strict.IgnoreNotFound = false
	err := s.Interface.Get(ctx, key, strict, out)
	if !storage.IsNotFound(err) {
		return err
	}
	if obj := s.defaultOf(ctx, key); obj != nil {
		return assign(out, obj)
	}
	return s.Interface.Get(ctx, key, o, out)
}

// Create implements storage.Interface: a default exists already.
func (s *overlay) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if s.defaultOf(ctx, key) != nil {
		return storage.NewKeyExistsError(key, 0)
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface: what is not stored cannot be deleted.
func (s *overlay) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions, validate storage.ValidateObjectFunc, cached runtime.Object, o storage.DeleteOptions) error {
	if s.defaultOf(ctx, key) == nil {
		return s.Interface.Delete(ctx, key, out, pre, validate, cached, o)
	}
	// What was read before may be the default, which is not below.
	err := s.Interface.Delete(ctx, key, out, pre, validate, nil, o)
	if storage.IsNotFound(err) {
		return s.indelible(key)
	}
	return err
}

func (s *overlay) indelible(key string) error {
	return apierrors.NewForbidden(s.set.resource, s.name(key),
		errors.New("every logical cluster has it by default; it can be changed, and deleting the changed one brings the default back"))
}

// GuaranteedUpdate implements storage.Interface: the first change of a default
// is stored as a new object that keeps the default's UID.
func (s *overlay) GuaranteedUpdate(ctx context.Context, key string, dest runtime.Object, ignoreNotFound bool, pre *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	if s.defaultOf(ctx, key) == nil {
		return s.Interface.GuaranteedUpdate(ctx, key, dest, ignoreNotFound, pre, update, cached)
	}
	for {
		err := s.Interface.GuaranteedUpdate(ctx, key, dest, false, pre, update, nil)
		if !storage.IsNotFound(err) {
			return err
		}
		err = s.override(ctx, key, dest, pre, update)
		if !storage.IsExist(err) { // else somebody else was first
			return err
		}
	}
}

func (s *overlay) override(ctx context.Context, key string, dest runtime.Object, pre *storage.Preconditions, update storage.UpdateFunc) error {
	before := s.defaultOf(ctx, key)
	if err := pre.Check(key, before); err != nil {
		return err
	}
	after, _, err := update(before.DeepCopyObject(), storage.ResponseMeta{ResourceVersion: resourceVersion})
	if err != nil {
		return err
	}
	if apiequality.Semantic.DeepEqual(before, after) {
		return assign(dest, before)
	}
	m, err := meta.Accessor(after)
	if err != nil {
		return fmt.Errorf("reading an object of %s: %w", s.set.resource, err)
	}
	if m.GetDeletionTimestamp() != nil {
		return s.indelible(key)
	}
	m.SetResourceVersion("")
	return s.Interface.Create(ctx, key, after, dest, 0)
}

// GetList implements storage.Interface. The storage below is read whole, whatever
// page is asked for: there are never many of such objects.
func (s *overlay) GetList(ctx context.Context, key string, o storage.ListOptions, list runtime.Object) error {
	c, ok := s.cluster(ctx)
	if !ok || s.raw(ctx) {
		return s.Interface.GetList(ctx, key, o, list)
	}
	after, wide, err := position(o)
	if err != nil {
		return err
	}
	if err := s.Interface.GetList(ctx, key, wide, list); err != nil {
		return expired(err, after)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading a list of %s: %w", s.set.resource, err)
	}
	stored := map[string]bool{}
	for _, item := range items {
		stored[nameOf(item)] = true
	}
	born := s.born(ctx, c)
	for _, name := range s.under(key) {
		if !stored[name] {
			items = append(items, s.set.in(c, name, born))
		}
	}
	matching := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		match, err := o.Predicate.Matches(item)
		if err != nil {
			return fmt.Errorf("selecting objects of %s: %w", s.set.resource, err)
		}
		if match {
			matching = append(matching, item)
		}
	}
	slices.SortFunc(matching, func(a, b runtime.Object) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	if err := fill(list, matching, after, o); err != nil {
		return fmt.Errorf("making a list of %s: %w", s.set.resource, err)
	}
	return nil
}

// under are the names of the defaults that a list or watch of key is about.
func (s *overlay) under(key string) []string {
	name := s.name(key)
	switch {
	case name == "":
		return s.set.names
	case s.set.has(name):
		return []string{name}
	default:
		return nil
	}
}

func (s *overlay) raw(ctx context.Context) bool { return s.options.Raw != nil && s.options.Raw(ctx) }

// everything is the predicate without what it selects by and which page it asks for.
func everything(p storage.SelectionPredicate) storage.SelectionPredicate {
	p.Label, p.Field = labels.Everything(), fields.Everything()
	p.IndexLabels, p.IndexFields = nil, nil
	p.Limit, p.Continue = 0, ""
	return p
}

func nameOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetName()
}

func assign(out, obj runtime.Object) error {
	v, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("filling a reply: %w", err)
	}
	from, err := conversion.EnforcePtr(obj)
	if err != nil {
		return fmt.Errorf("filling a reply: %w", err)
	}
	v.Set(from)
	return nil
}
