package simulation

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// AsTheyWere: at rest volumes have the reclaim policy that they were made with, and what that says has
// happened to those whose claims are gone.
const AsTheyWere = "volumes end as their reclaim policy says"

// volumesConverged: each volume of a physical cluster belongs to a claim, or is kept by its class.
func (w *World) volumesConverged(p *physical) {
	if !w.volumes || w.ledger.turnedBack > 0 || p.backup != nil {
		return
	}
	for _, obj := range p.api.List(persistentVolumes) {
		s := w.stored[handleOf(obj)]
		if s == nil || s.meddled {
			continue
		}
		_, logical := w.api.ByUID(s.claim)
		policy := corev1.PersistentVolumeReclaimPolicy(text(obj, "spec", "persistentVolumeReclaimPolicy"))
		was := obj.GetAnnotations()[syncer.ReclaimPolicyAnnotation]
		switch {
		case p.holder(obj) == nil && logical != nil:
			w.fail(AsTheyWere, "%s is left on %s, and its claim %s is %s", obj.GetName(), p.name, s.claim, targetsText(logical))
		case p.holder(obj) == nil && !w.lostOne() && (s.policy != corev1.PersistentVolumeReclaimRetain || was != ""):
			w.fail(AsTheyWere, "%s (%s, was %q) is left on %s, and its claim %s is gone", obj.GetName(), policy, was, p.name, s.claim)
		case p.holder(obj) == nil || logical == nil:
		case len(stamp.Alike(targetsOf(logical), p.name)) == 0 && !stamp.AwaitsVolume(logical) && len(targetsOf(logical)) == 1 && (policy != s.policy || was != ""):
			w.fail(AsTheyWere, "%s on %s has the policy %s (was %q), and was made with %s: %s", obj.GetName(), p.name, policy, was, s.policy, targetsText(logical))
		}
	}
}

// dataConverged: what is in the backend belongs to a claim, or is kept by its class.
func (w *World) dataConverged() {
	if w.ledger.turnedBack > 0 || w.lostOne() || slices.ContainsFunc(w.clusters, func(p *physical) bool { return p.backup != nil || p.blanked }) {
		return
	}
	for handle, s := range w.stored {
		if _, logical := w.api.ByUID(s.claim); logical == nil && !s.gone && !s.meddled && !w.ledger.forced[s.claim] && s.policy == corev1.PersistentVolumeReclaimDelete {
			w.fail(AsTheyWere, "the data of %s are left of the claim %s, which is gone", handle, s.claim)
		}
	}
}

// lostOne says that a physical cluster is gone for good, perhaps with the last copy of a claim.
func (w *World) lostOne() bool {
	return slices.ContainsFunc(w.clusters, func(p *physical) bool { return p.dead })
}

// inUse says that pods of a physical cluster mount a claim that is deleted: it stays until they are gone.
func (w *World) inUse(claim *unstructured.Unstructured) bool {
	return slices.ContainsFunc(w.clusters, func(p *physical) bool {
		c := p.copyOfClaim(claim.GetUID())
		return c != nil && !p.dead && p.used(c.GetNamespace(), c.GetName())
	})
}

// unboundIn says that a claim of a namespace has no volume where it has a copy: a move waits for that.
func (w *World) unboundIn(cluster logicalcluster.Name, namespace string) bool {
	return slices.ContainsFunc(w.api.ListNamespace(claims, cluster, namespace), func(obj kube.Object) bool {
		return slices.ContainsFunc(targetsOf(obj).Names(), func(name string) bool {
			c := w.cluster(name).copyOfClaim(obj.GetUID())
			return targetsOf(obj)[name].Keeps() && (c == nil || w.cluster(name).volumeOf(c) == nil)
		})
	})
}
