package workload

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalog is the kinds that there are: a value that does not change. Two catalogs are
// equal if they are the same one. The zero Catalog has no kinds.
//
// It is passed to who works with kinds; nobody has one of his own, see Source.
type Catalog struct{ *tables }

type tables struct {
	copied, observed []Kind
	container        Kind
	byResource       map[schema.GroupResource]int // places in all
	byKind           map[schema.GroupKind]int
	numbering        map[schema.GroupResource]int
	all              []Kind
	// base is the catalog without what is declared; nil if that is itself.
	base *tables
}

// New makes a catalog of kinds in the order in which their objects are made below:
// what others need comes first. An error names the kind and the field.
func New(kinds ...Kind) (Catalog, error) {
	t := &tables{byResource: map[schema.GroupResource]int{}, byKind: map[schema.GroupKind]int{}, all: slices.Clone(kinds)}
	var errs []error
	for i, k := range t.all {
		if _, ok := t.byKind[k.GroupKind()]; ok {
			errs = append(errs, fmt.Errorf("kind %s: there are two of it", k.GroupKind()))
		}
		if _, ok := t.byResource[k.GroupResource()]; ok {
			errs = append(errs, fmt.Errorf("kind %s: resource: another kind has %s, too", k.GroupKind(), k.GroupResource()))
		}
		t.byKind[k.GroupKind()], t.byResource[k.GroupResource()] = i, i
		if k.Copied() {
			t.copied = append(t.copied, k)
		}
		if k.Observed {
			t.observed = append(t.observed, k)
		}
		if k.Role == Container {
			t.container = k
		}
	}
	if err := errors.Join(append(errs, t.validate()...)...); err != nil {
		return Catalog{}, err
	}
	t.numbering = map[schema.GroupResource]int{}
	for i, k := range t.all {
		if !k.Numbers.Empty() {
			t.numbering[t.all[t.byKind[k.Numbers]].GroupResource()] = i
		}
	}
	t.copied, t.observed, t.all = slices.Clip(t.copied), slices.Clip(t.observed), slices.Clip(t.all)
	return Catalog{t}, nil
}

// All returns all kinds, in the order in which their objects are made. The caller
// must not change them, nor those that the other methods return.
func (c Catalog) All() []Kind {
	if c.tables == nil {
		return nil
	}
	return c.all
}

// Kinds returns the kinds of which objects may have copies, in order.
func (c Catalog) Kinds() []Kind {
	if c.tables == nil {
		return nil
	}
	return c.copied
}

// Observed returns the kinds of which objects are mirrored from below, owners
// first.
func (c Catalog) Observed() []Kind {
	if c.tables == nil {
		return nil
	}
	return c.observed
}

// Container returns the kind of the namespaces.
func (c Catalog) Container() Kind {
	if c.tables == nil {
		return Kind{}
	}
	return c.container
}

// ByResource finds the kind of a resource, in any version, if objects may have
// copies.
func (c Catalog) ByResource(gr schema.GroupResource) (Kind, bool) {
	k, ok := c.Find(gr)
	if !ok || !k.Copied() {
		return Kind{}, false
	}
	return k, true
}

// ObservedByResource finds the kind of a resource, in any version, if objects are
// mirrored.
func (c Catalog) ObservedByResource(gr schema.GroupResource) (Kind, bool) {
	k, ok := c.Find(gr)
	if !ok || !k.Observed {
		return Kind{}, false
	}
	return k, true
}

// Find finds the kind of a resource, in any version.
func (c Catalog) Find(gr schema.GroupResource) (Kind, bool) {
	if c.tables == nil {
		return Kind{}, false
	}
	i, ok := c.byResource[gr]
	if !ok {
		return Kind{}, false
	}
	return c.all[i], true
}

// ByKind finds the kind of a group and kind, in any version, if objects may have
// copies.
func (c Catalog) ByKind(gk schema.GroupKind) (Kind, bool) {
	if c.tables == nil {
		return Kind{}, false
	}
	i, ok := c.byKind[gk]
	if !ok || !c.all[i].Copied() {
		return Kind{}, false
	}
	return c.all[i], true
}

// NumberingOf finds the kind whose objects number those of a resource: ReplicaSets
// for Deployments.
func (c Catalog) NumberingOf(gr schema.GroupResource) (Kind, bool) {
	if c.tables == nil {
		return Kind{}, false
	}
	i, ok := c.numbering[gr]
	if !ok {
		return Kind{}, false
	}
	return c.all[i], true
}

// Since says what came and what went since another catalog. A kind whose declaration
// is another is both.
func (c Catalog) Since(before Catalog) (came, gone []Kind) {
	if c == before {
		return nil, nil
	}
	return c.without(before), before.without(c)
}

// without are the kinds that another catalog does not have, or not as they are.
func (c Catalog) without(other Catalog) []Kind {
	var out []Kind
	for _, k := range c.All() {
		if same, ok := other.Find(k.GroupResource()); !ok || !reflect.DeepEqual(k, same) {
			out = append(out, k)
		}
	}
	return out
}

// With is the catalog with more kinds that are placed, after those that it has.
func (c Catalog) With(more ...Kind) (Catalog, error) {
	if len(more) == 0 {
		return c, nil
	}
	kinds := c.All()
	end := slices.IndexFunc(kinds, func(k Kind) bool { return k.Role == Mirrored })
	if end < 0 {
		end = len(kinds)
	}
	next, err := New(slices.Concat(kinds[:end], more, kinds[end:])...)
	if err != nil {
		return Catalog{}, err
	}
	next.base = c.Undeclared().tables
	return next, nil
}

// Undeclared is the catalog without the kinds that With added.
func (c Catalog) Undeclared() Catalog {
	if c.tables == nil || c.base == nil {
		return c
	}
	return Catalog{c.base}
}

// Declared are the kinds that With added.
func (c Catalog) Declared() []Kind {
	if c.Undeclared() == c {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.copied), func(k Kind) bool { return !k.Declared })
}

// Source is where the parts of a running program get the catalog. A Catalog is one
// that never changes; controller.Variable is one that does.
type Source interface {
	// Current returns the catalog of now. Who decides takes it once and decides
	// with that.
	Current() Catalog
	// Changed is closed once there is another catalog than the given one.
	Changed(than Catalog) <-chan struct{}
}

// Local is a Source that knows which kinds there are in a logical cluster: declared ones
// are only where the logical cluster serves them.
type Local interface {
	Source
	In(cluster logicalcluster.Name) Catalog
	// Places says whether objects of a declared kind are placed in a logical cluster. Those
	// that have targets are handled whether they are or not.
	Places(cluster logicalcluster.Name, kind Kind) bool
}

// Places says whether objects of a kind are placed in a logical cluster.
func Places(s Source, cluster logicalcluster.Name, kind Kind) bool {
	local, ok := s.(Local)
	return !ok || !kind.Declared || local.Places(cluster, kind)
}

// In is the catalog of a logical cluster.
func In(s Source, cluster logicalcluster.Name) Catalog {
	if local, ok := s.(Local); ok {
		return local.In(cluster)
	}
	return s.Current()
}

// Current implements Source.
func (c Catalog) Current() Catalog { return c }

// Changed implements Source: it never is.
func (c Catalog) Changed(Catalog) <-chan struct{} { return nil }
