package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	namespacePoliciesResource = placementv1alpha1.Resource("placementpolicies")
	clusterPoliciesResource   = placementv1alpha1.Resource("clusterplacementpolicies")
)

// writtenTTL is how long policies are read from the server after a write of one was admitted
// here: by then webhooks have answered, it is stored, and the informer has it.
const writtenTTL = time.Minute

// belongings says to which units of its namespace an object belongs. In a namespace
// without a policy that selects objects it asks nobody.
type belongings struct {
	policies *controller.Informer[*placementv1alpha1.PlacementPolicy]
	lookup   *lookup
	clock    clock.PassiveClock
	// whole is the answer in a namespace that is one unit, all that for what is in all
	// units of one.
	whole, all *belonging

	mu sync.Mutex
	// written has the namespaces of which a policy was written lately: whoever writes it
	// and applies what it selects next is answered by it.
	written map[namespaceKey]time.Time
}

// belonging is the answer.
type belonging struct {
	// units are the names of the Placements; nil: all of the namespace.
	units []string
	// divided says that policies of the namespace select objects.
	divided bool
	// also are other policies that select the object.
	also []string
	// waits says that it does not come into these units yet, see units.Waits.
	waits bool
}

func newBelongings(config Config, lookup *lookup) *belongings {
	return &belongings{
		policies: config.NamespacePolicies, lookup: lookup, clock: config.Clock, written: map[namespaceKey]time.Time{},
		whole: &belonging{units: []string{placementv1alpha1.NamespaceUnit}}, all: &belonging{},
	}
}

// note remembers that a policy is written.
func (b *belongings) note(r *request) {
	if r.groupResource() != namespacePoliciesResource {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	for key, at := range b.written {
		if now.Sub(at) > writtenTTL {
			delete(b.written, key)
		}
	}
	b.written[namespaceKey{r.cluster, r.GetNamespace()}] = now
}

func (b *belongings) lately(r *request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.written[namespaceKey{r.cluster, r.GetNamespace()}]
	return ok && b.clock.Now().Sub(at) <= writtenTTL
}

// selectors are those of the policies of the namespace of a request.
func (b *belongings) selectors(ctx context.Context, r *request) ([]units.Selector, error) {
	if b.lately(r) {
		own, err := b.lookup.ownPolicies(ctx, r.cluster, r.GetNamespace())
		return units.Selectors(own), err
	}
	if !b.policies.HasNamespace(r.cluster, r.GetNamespace()) {
		return nil, nil
	}
	return units.Selectors(b.policies.ListNamespace(r.cluster, r.GetNamespace())), nil
}

// of says to which units the object of a request belongs, as it will be stored.
func (b *belongings) of(ctx context.Context, r *request, kind workload.Kind) (*belonging, error) {
	if r.belongs != nil {
		return r.belongs, nil
	}
	if kind.Role != workload.Placed {
		r.belongs = b.all
		return r.belongs, nil
	}
	selectors, err := b.selectors(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(selectors) == 0 {
		r.belongs = b.whole
		return r.belongs, nil
	}
	out := &belonging{divided: true, units: b.whole.units}
	switch {
	case stamp.Mirrored(r.obj):
	case !kind.Follows():
		var unit string
		unit, out.also = units.Selected(selectors, kind, r.obj)
		out.units = []string{unit}
	default:
		if out.units, err = b.following(ctx, r, kind, selectors); err != nil {
			return nil, fmt.Errorf("looking for what %s %s is about: %w", kind.Kind, r.GetName(), err)
		}
	}
	r.belongs = out
	return out, nil
}

// following are the units of an object that follows others. Those are read as fresh as the
// request wants: what was not seen yet brings the controller here once more.
func (b *belongings) following(ctx context.Context, r *request, kind workload.Kind, selectors []units.Selector) ([]string, error) {
	if b.lookup.dynamic == nil {
		return nil, errors.New("there is no client")
	}
	content, err := external(kind, r.GetObject())
	if err != nil {
		return nil, err
	}
	asks := units.Object{Kind: kind, Unstructured: &unstructured.Unstructured{Object: content}}
	var objects []units.Object
	for _, other := range r.kinds.Kinds() {
		if other.PodTemplate == nil && (len(kind.Leads) == 0 || other.Semantics != workload.ServiceSemantics) {
			continue
		}
		list, err := b.lookup.dynamic.Resource(other.GroupVersionResource()).Namespace(r.GetNamespace()).
			List(at(ctx, r.cluster), r.freshness())
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", other.Resource, err)
		}
		for i := range list.Items {
			objects = append(objects, units.Object{Kind: other, Unstructured: &list.Items[i]})
		}
	}
	return units.Divide(selectors, objects).Of(asks), nil
}

// otherUnit is returned where the policies that were read put an object into another unit
// than those that were known.
type otherUnit struct{ name string }

func (o otherUnit) Error() string { return "it is of the unit " + o.name }

// belongsElsewhere returns otherUnit if the one who asks is of another one. What follows
// others was put by what it is about.
func (q question) belongsElsewhere(selectors []units.Selector) error {
	obj, ok := q.object.(metav1.Object)
	if !ok || q.kind.Follows() {
		return nil
	}
	if unit, _ := units.Selected(selectors, q.kind, obj); unit != q.unit {
		return otherUnit{unit}
	}
	return nil
}

// reviewed finds the unit that a review is about.
func (d *decider) reviewed(ctx context.Context, q *question, spec *placementv1alpha1.PlacementReviewSpec) error {
	q.unit = placementv1alpha1.NamespaceUnit
	if spec.Unit == q.unit || spec.Unit == "" && q.object == nil {
		return nil
	}
	own, err := d.lookup.ownPolicies(ctx, q.cluster, q.namespace.Name)
	if err != nil {
		return err
	}
	selectors := units.Selectors(own)
	if spec.Unit == "" {
		if len(selectors) == 0 {
			return nil
		}
		asks := units.Object{Kind: q.kind, Unstructured: q.object.(*unstructured.Unstructured)}
		objects := []units.Object{}
		if q.kind.Follows() {
			if err := d.eachPlaced(ctx, *q, func(kind workload.Kind, obj *unstructured.Unstructured) error {
				objects = append(objects, units.Object{Kind: kind, Unstructured: obj})
				return nil
			}); err != nil {
				return err
			}
		}
		q.unit = units.Divide(selectors, objects).Of(asks)[0]
		return nil
	}
	q.unit = spec.Unit
	for _, s := range selectors {
		if s.Unit == spec.Unit {
			return nil
		}
	}
	if spec.Policy != nil {
		return nil // it would make the unit
	}
	if stored, err := d.stored(ctx, *q); err != nil || stored.UID != "" {
		return err
	}
	return errors.New("there is no PlacementPolicy of the name that selects objects; leave it out for the namespace")
}

// hasOtherUnits says that the namespace of a question has other units, as the informer has it.
func (l *lookup) hasOtherUnits(q question) bool {
	return slices.ContainsFunc(l.placements.ListNamespace(q.cluster, q.namespace.Name), q.isOther)
}

// isOther says that a Placement is that of another unit of the namespace.
func (q question) isOther(p *placementv1alpha1.Placement) bool {
	return p.Name != q.unit && stamp.BelongsTo(p, q.namespace.UID)
}

// otherUnits are the other units of the namespace of a question, as the informer has them, and
// what changes of copies by them and its own.
func (l *lookup) otherUnits(q question, own []placementv1alpha1.DecidedOverride) ([]stamp.Unit, []placementv1alpha1.DecidedOverride) {
	var out []stamp.Unit
	overrides := map[string][]placementv1alpha1.DecidedOverride{q.unit: own}
	for _, p := range l.placements.ListNamespace(q.cluster, q.namespace.Name) {
		if q.isOther(p) {
			out = append(out, stamp.UnitOf(p))
			overrides[p.Name] = stamp.OverridesOf(p)
		}
	}
	var ordered [][]placementv1alpha1.DecidedOverride
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		ordered = append(ordered, overrides[name])
	}
	return out, stamp.MergeOverrides(ordered...)
}
