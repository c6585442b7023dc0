package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// include adds to the needs of a unit those of an object of a kind.
func include(n *placement.Needs, kind workload.Kind, obj map[string]any) error {
	requests, err := workload.Requests(kind, obj)
	if err != nil {
		return err
	}
	n.Include(placement.Needs{
		Requests: requests, APIs: kind.APIs(), StorageClasses: workload.StorageClasses(kind, obj),
		RuntimeHandlers: handlers(kind, obj), IngressClasses: workload.IngressClasses(kind, obj),
	})
	return nil
}

// handlers are what runtimeHandler noted on an object with pods.
func handlers(kind workload.Kind, obj map[string]any) []string {
	handler := syncer.RuntimeHandler(&unstructured.Unstructured{Object: obj})
	if handler == "" || len(workload.PodTemplates(kind, obj)) == 0 {
		return nil
	}
	return []string{handler}
}

// restrict adds to a unit which physical clusters do not permit an object, and what they make of its priority
// classes.
func restrict(u *placement.Unit, s placement.Snapshot, kind workload.Kind, obj map[string]any) {
	selects := func(o *placementv1alpha1.ObjectSelection) bool {
		return stamp.ReadSelection(o).Selects(kind, &unstructured.Unstructured{Object: obj})
	}
	priorities, refused := workload.PriorityClasses(kind, obj), refusals(kind, obj)
	for _, c := range s.PhysicalClusters {
		permits := placement.PermitsOn(s, *u, c, selects)
		for _, name := range priorities {
			if class := permits.PriorityClass(name); class != "" {
				u.Prioritize(name, c.Name, class)
			}
		}
		if why := refused(permits); why != "" {
			if u.NotPermitted == nil {
				u.NotPermitted = map[string]string{}
			}
			u.NotPermitted[c.Name] = why
		}
	}
}

// refusals says of permits what of an object is refused, empty if nothing is. Of a large fleet most physical clusters
// permit the same: the object is filtered once for all of those.
func refusals(kind workload.Kind, obj map[string]any) func(boundary.Permits) string {
	type answer struct {
		permits boundary.Permits
		why     string
	}
	var known []answer
	return func(permits boundary.Permits) string {
		if i := slices.IndexFunc(known, func(a answer) bool { return equality.Semantic.DeepEqual(a.permits, permits) }); i >= 0 {
			return known[i].why
		}
		findings := boundary.Filter(kind, runtime.DeepCopyJSON(obj), boundary.Passage{Permits: permits, Notes: notesOf(obj)})
		a := answer{permits: permits}
		if refused := boundary.Refusals(findings); len(refused) > 0 {
			a.why = refused[0].String()
		}
		known = append(known, a)
		return a.why
	}
}

// includeWaiting adds to a unit what the other objects need that wait for the same
// decision: it must fit all of them. Each object that waits has left an undecided
// placement, so a namespace without one has none.
func (d *decider) includeWaiting(ctx context.Context, q question, read snapshot, u *placement.Unit) error {
	include, err := q.including(read, u)
	if err != nil {
		return err
	}
	return d.eachMember(ctx, q, read.selectors, include)
}

// including adds to a unit what other objects of it need than the one that is asked about. What cannot be read, as a
// template with a bad quantity, was refused when it was written.
func (q question) including(read snapshot, u *placement.Unit) (func(workload.Kind, *unstructured.Unstructured) error, error) {
	asker := ""
	if q.object != nil {
		named, err := meta.Accessor(q.object)
		if err != nil {
			return nil, err
		}
		asker = named.GetName()
	}
	return func(kind workload.Kind, other *unstructured.Unstructured) error {
		if kind.GroupKind() == q.kind.GroupKind() && other.GetName() == asker || other.GetDeletionTimestamp() != nil ||
			stamp.Mirrored(other) || !stamp.GoesDown(kind, q.cluster, other) {
			return nil
		}
		written := stamp.Written(kind, other)
		restrict(u, read.Snapshot, kind, written)
		return include(&u.Needs, kind, written)
	}, nil
}

// eachMember reads the objects of the unit of a question.
func (d *decider) eachMember(ctx context.Context, q question, selectors []units.Selector, do func(workload.Kind, *unstructured.Unstructured) error) error {
	if len(selectors) == 0 && q.unit == placementv1alpha1.NamespaceUnit {
		return d.eachPlaced(ctx, q, do)
	}
	var objects []units.Object
	err := d.eachPlaced(ctx, q, func(kind workload.Kind, obj *unstructured.Unstructured) error {
		objects = append(objects, units.Object{Kind: kind, Unstructured: obj})
		return nil
	})
	if err != nil {
		return err
	}
	division := units.Divide(selectors, objects)
	for _, o := range objects {
		if of := division.Of(o); of != nil && !slices.Contains(of, q.unit) {
			continue
		}
		if err := do(o.Kind, o.Unstructured); err != nil {
			return err
		}
	}
	return nil
}

// eachPlaced reads the objects of placed kinds in a namespace, page by page.
func (d *decider) eachPlaced(ctx context.Context, q question, do func(workload.Kind, *unstructured.Unstructured) error) error {
	if d.lookup.dynamic == nil {
		return errors.New("there is no client")
	}
	for _, kind := range q.kinds.Kinds() {
		if kind.Role != workload.Placed {
			continue
		}
		client := d.lookup.dynamic.Resource(kind.GroupVersionResource()).Namespace(q.namespace.Name)
		pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) })
		err := pages.EachListItem(at(ctx, q.cluster), metav1.ListOptions{}, func(obj runtime.Object) error {
			u, ok := obj.(*unstructured.Unstructured)
			if !ok || !stamp.HasTargets(u) && !workload.Places(d.lookup.kinds, q.cluster, kind) {
				return nil
			}
			return do(kind, u)
		})
		if err != nil {
			return fmt.Errorf("reading %s: %w", kind.Resource, err)
		}
	}
	return nil
}
