package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// restrict makes a policy of a user, liftRestriction removes it.
func (w *World) restrict(h Happening) {
	h.Resource = netPolicies
	w.create(h.key(), example(netPolicies, h.Namespace, h.Name, h.N), nil)
}

func (w *World) liftRestriction(h Happening) {
	h.Resource = netPolicies
	w.remove(h.key(), h.N)
}

// isSupply says that an object below was made by a syncer and is nobody's copy.
func isSupply(obj kube.Object) bool {
	u, ok := obj.(*unstructured.Unstructured)
	return ok && u != nil && syncer.IsSupply(controlPlane, u)
}

// isolated: at rest each namespace of a logical cluster that is there to stay has the
// policies that keep others out, and no more of them.
func (w *World) isolated(p *physical) {
	pc, ok := w.api.Find(p.key()).(*fleetv1alpha1.PhysicalCluster)
	if !ok || !p.syncing() {
		return
	}
	for _, obj := range p.api.List(namespaces) {
		namespace := cast(obj)
		m, marked := syncer.MarkOf(namespaces, namespace)
		if !marked || !labelled(namespace) || namespace.GetDeletionTimestamp() != nil || !w.livesAbove(p, namespace) {
			continue
		}
		var present []*unstructured.Unstructured
		names := map[string]bool{}
		for _, obj := range p.api.ListNamespace(netPolicies, "", namespace.GetName()) {
			if u := cast(obj); labelled(u) {
				present = append(present, u)
				names[u.GetName()] = true
			}
		}
		in := syncer.Space{Cluster: m.Cluster, Namespace: m.Namespace, Physical: namespace.GetName()}
		wanted, _ := syncer.Isolation(controlPlane, in, pc.Permits(), present)
		for _, policy := range wanted {
			if !names[policy.GetName()] {
				w.fail(Converges, "%s on %s lacks the policy %s that keeps others out", namespace.GetName(), p.name, policy.GetName())
			}
		}
		for _, policy := range present {
			unwanted := !slices.ContainsFunc(wanted, func(u *unstructured.Unstructured) bool { return u.GetName() == policy.GetName() })
			if unwanted && syncer.IsIsolating(controlPlane, policy) {
				w.fail(Converges, "%s on %s has the policy %s, which permits what a user forbids", namespace.GetName(), p.name, policy.GetName())
			}
		}
	}
}
