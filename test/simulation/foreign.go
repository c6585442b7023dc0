package simulation

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// TheirChoice: where another scheduler decides, a unit is where that one bound it, or
// stays where it is.
const TheirChoice = "another scheduler decides"

// foreign is that scheduler, delegated the policy by which users have it decide.
const (
	foreign   = "example.com"
	delegated = "delegated"
)

// delegate: a user leaves the decision for a namespace to another scheduler, or takes
// that back.
func (w *World) delegate(h Happening) {
	key := kube.Key{Resource: namespacePolicies, Cluster: h.Cluster, Namespace: h.Namespace, Name: delegated}
	if w.api.Find(key) != nil {
		w.remove(key, 3)
		return
	}
	w.create(key, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": placementv1alpha1.SchemeGroupVersion.String(), "kind": "PlacementPolicy",
		"metadata": map[string]any{"name": key.Name, "namespace": key.Namespace}, "spec": map[string]any{"schedulerName": foreign},
	}}, nil)
}

// bind: that scheduler wants a namespace on one physical cluster, or on two. It may be
// refused.
func (w *World) bind(h Happening) {
	key := kube.Key{Resource: placements, Cluster: h.Cluster, Namespace: h.Namespace, Name: placementv1alpha1.NamespaceUnit}
	on := boundOn(h)
	w.ask(func(ctx context.Context, c dynamic.Interface) error {
		ctx, client := at(ctx, c, key)
		binding := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": placementv1alpha1.SchemeGroupVersion.String(), "kind": "PlacementBinding",
			"metadata": map[string]any{"name": key.Name, "namespace": key.Namespace}, "schedulerName": foreign, "physicalClusters": on,
		}}
		_, err := client.Create(ctx, binding, metav1.CreateOptions{}, "binding")
		return err
	})
}

// boundOn are the physical clusters that it wants.
func boundOn(h Happening) []any {
	if other := []string{"east", "west", "north"}[h.N%3]; h.N%2 == 0 && other != h.Physical {
		return []any{h.Physical, other}
	}
	return []any{h.Physical}
}

// bindPlacement is the subresource binding of Placements.
func (s *server) bindPlacement(ctx context.Context, c *call) answer {
	var b placementv1alpha1.PlacementBinding
	if err := json.Unmarshal(c.req.body, &b); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if err := s.admission.Bind(ctx, c.req.namespace, &b, false); err != nil {
		return failure(err)
	}
	return ok(c.req.body, "bound")
}

// theirs checks a decision that is another scheduler's.
func (l *ledger) theirs(s placement.Snapshot, u placement.Unit, d placement.Decision) {
	asked := slices.ContainsFunc(s.Policies, func(p placement.Policy) bool {
		return p.Unit == "" && p.Rules != nil && p.Rules.SchedulerName == foreign
	})
	if !asked || u.Pin != "" || !d.Possible() || u.Name != placementv1alpha1.NamespaceUnit {
		return
	}
	want := u.Decided
	if u.BoundBy == foreign && len(u.Bound) > 0 {
		want = u.Bound
	}
	if !slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(d.PhysicalClusters))) {
		l.world.fail(TheirChoice, "%s|%s was decided for %v, it was %v and is bound to %v by %q", u.LogicalCluster, u.Namespace, d.PhysicalClusters, u.Decided, u.Bound, u.BoundBy)
	}
}

// bindingsConverged: what was bound is decided, or says what it waits for.
func (w *World) bindingsConverged() {
	for _, obj := range w.api.List(placements) {
		p := obj.(*placementv1alpha1.Placement)
		cluster := logicalcluster.From(p)
		namespace := w.api.Find(kube.Key{Resource: namespaces, Cluster: cluster, Name: p.Namespace})
		policy := w.api.Find(kube.Key{Resource: namespacePolicies, Cluster: cluster, Namespace: p.Namespace, Name: delegated})
		if p.Spec.Bound == nil || p.Name != placementv1alpha1.NamespaceUnit || namespace == nil || policy == nil || !belongsTo(p, namespace.GetUID()) ||
			namespace.GetAnnotations()[placementv1alpha1.PhysicalClusterAnnotation] != "" || slices.Equal(slices.Sorted(slices.Values(decided(p))), p.Spec.Bound.PhysicalClusters) {
			continue
		}
		waits := p.Spec.Transition != nil || meta.IsStatusConditionFalse(p.Status.Conditions, placementv1alpha1.ConditionScheduled) ||
			meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving) != nil
		// Without anything in it nothing has to be decided.
		if !waits && len(decided(p)) > 0 {
			w.fail(Converges, "%s|%s is bound to %v and decided for %v: %v", cluster, p.Namespace, p.Spec.Bound.PhysicalClusters, decided(p), p.Status.Conditions)
		}
	}
}
