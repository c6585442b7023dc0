package simulation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// unitID is a unit of a namespace.
type unitID struct {
	namespace types.UID
	name      string
}

// tier is the label by which policies of a world select objects.
const tier = "tier"

func policyOf(h Happening) kube.Key {
	return kube.Key{Resource: namespacePolicies, Cluster: h.Cluster, Namespace: h.Namespace, Name: []string{"back", "front"}[h.N%2]}
}

// selectObjects: a user makes a policy that selects what has a label, on a physical
// cluster or anywhere, or changes where it wants that.
func (w *World) selectObjects(h Happening) {
	key := policyOf(h)
	pin := func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[placementv1alpha1.PhysicalClusterAnnotation] = h.Physical; h.N%3 == 0 {
			delete(annotations, placementv1alpha1.PhysicalClusterAnnotation)
		}
		u.SetAnnotations(annotations)
	}
	if w.api.Find(key) != nil {
		w.update(w.people, key, func(u *unstructured.Unstructured) bool { pin(u); return true })
		return
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": placementv1alpha1.SchemeGroupVersion.String(), "kind": "PlacementPolicy",
		"metadata": map[string]any{"name": key.Name, "namespace": key.Namespace},
		"spec":     map[string]any{"objects": map[string]any{"labelSelector": map[string]any{"matchLabels": map[string]any{tier: key.Name}}}},
	}}
	pin(u)
	w.create(key, u, nil)
}

// unselectObjects: a user takes a policy back.
func (w *World) unselectObjects(h Happening) {
	if key := policyOf(h); w.api.Find(key) != nil {
		w.remove(key, 3)
	}
}

// relabel: a user puts an object into the reach of another policy, or of none.
func (w *World) relabel(h Happening) {
	w.update(w.people, h.key(), func(u *unstructured.Unstructured) bool {
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		if labels[tier] = []string{"back", "front"}[h.N%2]; h.N%5 == 0 {
			delete(labels, tier)
		}
		u.SetLabels(labels)
		return true
	})
}

// serve: a user has a Service lead to the pods of a Deployment. One that leads to divided
// pods waits for their endpoints when it moves, and there are no EndpointSlices here.
func (w *World) serve(h Happening) {
	if w.divides {
		return
	}
	h.Resource = services
	selector := map[string]any{"app": []string{"a", "b"}[h.N%2]}
	if w.api.Find(h.key()) == nil {
		u := example(services, h.Namespace, h.Name, h.N)
		_ = unstructured.SetNestedMap(u.Object, selector, "spec", "selector") // a path of maps
		w.create(h.key(), u, nil)
		return
	}
	w.update(w.people, h.key(), func(u *unstructured.Unstructured) bool {
		_ = unstructured.SetNestedMap(u.Object, selector, "spec", "selector") // a path of maps
		return true
	})
}

// placementsIn are the placements of the units of a Namespace.
func (w *World) placementsIn(namespace kube.Object) []*placementv1alpha1.Placement {
	if namespace == nil {
		return nil
	}
	key := w.api.KeyOf(namespaces, namespace)
	var out []*placementv1alpha1.Placement
	for _, obj := range w.api.ListNamespace(placements, key.Cluster, key.Name) {
		if p := obj.(*placementv1alpha1.Placement); belongsTo(p, namespace.GetUID()) {
			out = append(out, p)
		}
	}
	return out
}

// placementsOf are those of the units that an object is in.
func (w *World) placementsOf(key kube.Key, obj *unstructured.Unstructured, namespace kube.Object) []*placementv1alpha1.Placement {
	all := w.placementsIn(namespace)
	names := w.unitsOf(key, obj)
	if names == nil {
		return all
	}
	return slices.DeleteFunc(all, func(p *placementv1alpha1.Placement) bool { return !slices.Contains(names, p.Name) })
}

// unitsOf are the units of an object; nil: all of its namespace.
func (w *World) unitsOf(key kube.Key, obj *unstructured.Unstructured) []string {
	if kindOf(key.Resource).Role != workload.Placed {
		return nil
	}
	var own []*placementv1alpha1.PlacementPolicy
	for _, p := range w.api.ListNamespace(namespacePolicies, key.Cluster, key.Namespace) {
		own = append(own, p.(*placementv1alpha1.PlacementPolicy))
	}
	var objects []units.Object
	for _, gr := range content {
		if kindOf(gr).Role != workload.Placed {
			continue
		}
		for _, other := range w.api.ListNamespace(gr, key.Cluster, key.Namespace) {
			objects = append(objects, units.Object{Kind: kindOf(gr), Unstructured: cast(other)})
		}
	}
	return units.Divide(units.Selectors(own), objects).Of(units.Object{Kind: kindOf(key.Resource), Unstructured: obj})
}

// decidedAll are the physical clusters of some units.
func decidedAll(list []*placementv1alpha1.Placement) []string {
	var out []string
	for _, p := range list {
		out = append(out, decided(p)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// keptBack: what cannot leave another unit's place says so in the condition of its own.
func keptBack(list []*placementv1alpha1.Placement, obj metav1.Object) bool {
	return slices.ContainsFunc(list, func(p *placementv1alpha1.Placement) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == placementv1alpha1.ConditionMoving && c.Status == metav1.ConditionFalse && c.Reason == "Blocked"
		})
	})
}
