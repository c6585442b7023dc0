package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// withdraw takes an object off one target, as the references controller does and
// moves will.
func (w *World) withdraw(h Happening) {
	w.entry(h, func(t placementv1alpha1.Targets) {
		if e, ok := t[h.Physical]; ok && e.State == placementv1alpha1.TargetSync {
			t[h.Physical] = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		}
	})
}

// giveBack puts it back, once it is gone from there.
func (w *World) giveBack(h Happening) {
	w.entry(h, func(t placementv1alpha1.Targets) {
		namespace := w.api.Find(h.namespace())
		if _, ok := t[h.Physical]; !ok && slices.Contains(w.decisionOf(namespace), h.Physical) {
			t[h.Physical] = placementv1alpha1.Target{}
		}
	})
}

// pin: a user wants a namespace on a physical cluster, or anywhere again.
func (w *World) pin(h Happening) {
	w.update(w.people, h.namespace(), func(u *unstructured.Unstructured) bool {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[placementv1alpha1.PhysicalClusterAnnotation] = h.Physical; h.N%5 == 0 {
			delete(annotations, placementv1alpha1.PhysicalClusterAnnotation)
		}
		u.SetAnnotations(annotations)
		return true
	})
}

// drain: an admin wants everything off a physical cluster, or not any more.
func (w *World) drain(h Happening) {
	w.cluster(h.Physical).edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Drain.Requested = !pc.Spec.Drain.Requested })
}

// limitSilence: an admin lets namespaces leave physical clusters that do not answer, or
// not any more.
func (w *World) limitSilence(h Happening) {
	key := kube.Key{Resource: policies, Cluster: scope.Root, Name: "impatient"}
	if w.api.Find(key) != nil {
		if err := w.api.Delete(admin, key, kube.DeleteOptions{}); err != nil {
			w.say("%v", err)
		}
		return
	}
	policy := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Annotations: map[string]string{"kcp.io/cluster": "root"}}}
	policy.Spec.Tolerations = []corev1.Toleration{{
		Key: fleetv1alpha1.TaintUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(h.N % 4 * 10)),
	}}
	w.must(w.api.Create(admin, policies, policy))
}

// prefer: an admin prefers a physical cluster, to which units return that are elsewhere; or
// none any more. Some let moves go back that are stuck.
func (w *World) prefer(h Happening) {
	key := kube.Key{Resource: policies, Cluster: scope.Root, Name: "prefer"}
	if w.api.Find(key) != nil {
		if err := w.api.Delete(admin, key, kube.DeleteOptions{}); err != nil {
			w.say("%v", err)
		}
		return
	}
	policy := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Annotations: map[string]string{"kcp.io/cluster": "root"}}}
	policy.Spec.Preferences = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{nameLabel: h.Physical}}}
	policy.Spec.Move = &placementv1alpha1.MoveRules{Return: placementv1alpha1.ReturnWhenPreferred, ReturnAfterSeconds: ptr.To(int32(10))}
	if h.N%2 == 0 {
		policy.Spec.Move.IfStuck, policy.Spec.Move.StuckAfterSeconds = placementv1alpha1.IfStuckGoBack, ptr.To(int32(h.N%5+1))
	}
	w.must(w.api.Create(admin, policies, policy))
}

// decisionOf are the physical clusters of all units of a Namespace.
func (w *World) decisionOf(namespace kube.Object) []string {
	return decidedAll(w.placementsIn(namespace))
}

// entry changes the targets of an object, as the system does. ConfigMaps have a
// controller of their own.
func (w *World) entry(h Happening, change func(placementv1alpha1.Targets)) {
	if h.Resource == configMaps {
		return
	}
	w.update(w.movers, h.key(), func(u *unstructured.Unstructured) bool {
		if u.GetDeletionTimestamp() != nil || len(w.decisionOf(w.api.Find(h.namespace()))) == 0 {
			return false
		}
		targets := targetsOf(u)
		if targets == nil {
			targets = placementv1alpha1.Targets{}
		}
		change(targets)
		if targets.String() == targetsText(u) || len(targets) == 0 {
			return false
		}
		annotations := u.GetAnnotations()
		annotations[placementv1alpha1.TargetsAnnotation] = targets.String()
		u.SetAnnotations(annotations)
		if !slices.Contains(u.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
			u.SetFinalizers(append(u.GetFinalizers(), placementv1alpha1.CopiesFinalizer))
		}
		return true
	})
}
