package simulation

import (
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// AsTheyWere: at rest volumes have the reclaim policy that they were made with, and what that says has
// happened to those whose claims are gone.
const AsTheyWere = "volumes end as their reclaim policy says"

// volumesConverged: each volume of a physical cluster belongs to a claim, or is kept by its class.
func (w *World) volumesConverged(p *physical) {
	if !w.volumes || w.ledger.turnedBack > 0 || p.rewound {
		return
	}
	for _, obj := range p.api.List(persistentVolumes) {
		s := w.stored[handleOf(obj)]
		if s == nil || s.meddled || s.keeps || w.ledger.forced[s.claim] { // without finalizers nobody is the last that has it
			continue
		}
		_, logical := w.api.ByUID(s.claim)
		policy := corev1.PersistentVolumeReclaimPolicy(text(obj, "spec", "persistentVolumeReclaimPolicy"))
		was := obj.GetAnnotations()[syncer.ReclaimPolicyAnnotation]
		switch {
		case p.holder(obj) == nil && logical != nil && logical.GetDeletionTimestamp() == nil:
			w.fail(AsTheyWere, "%s is left on %s, and its claim %s is %s", obj.GetName(), p.name, s.claim, targetsText(logical))
		case p.holder(obj) == nil && logical == nil && !w.lostOne() && s.policy != corev1.PersistentVolumeReclaimRetain:
			w.fail(AsTheyWere, "%s (%s, was %q) is left on %s, and its claim %s is gone", obj.GetName(), policy, was, p.name, s.claim)
		case p.holder(obj) == nil || logical == nil:
		case len(stamp.Alike(targetsOf(logical), p.name)) == 0 && !stamp.AwaitsVolume(logical) && len(targetsOf(logical)) == 1 && (policy != s.policy || was != ""):
			w.fail(AsTheyWere, "%s on %s has the policy %s (was %q), and was made with %s: %s", obj.GetName(), p.name, policy, was, s.policy, targetsText(logical))
		}
	}
}

// dataConverged: what is in the backend belongs to a claim, or is kept by its class.
func (w *World) dataConverged() {
	if w.ledger.turnedBack > 0 || w.lostOne() || slices.ContainsFunc(w.clusters, func(p *physical) bool { return p.rewound }) {
		return
	}
	for handle, s := range w.stored {
		if _, logical := w.api.ByUID(s.claim); logical == nil && s.claim != "" && !s.gone && !s.meddled && !s.keeps && !w.ledger.forced[s.claim] && s.policy == corev1.PersistentVolumeReclaimDelete {
			w.fail(AsTheyWere, "the data of %s are left of the claim %s, which is gone", handle, s.claim)
		}
	}
}

// lostOne says that a physical cluster is gone for good, perhaps with the last copy of a claim.
func (w *World) lostOne() bool {
	return slices.ContainsFunc(w.clusters, func(p *physical) bool { return p.dead })
}

// inUse says that pods of a physical cluster mount a claim, or one in a namespace: what is deleted stays until
// they are gone, also those that people made.
func (w *World) inUse(key kube.Key) bool {
	namespace := namespaceOf(key).Name
	return slices.ContainsFunc(w.api.ListNamespace(claims, key.Cluster, namespace), func(claim kube.Object) bool {
		return (key.Resource == namespaces || w.api.KeyOf(claims, claim) == key) && slices.ContainsFunc(w.clusters, func(p *physical) bool { return w.usedOn(p, claim.GetUID()) })
	})
}

func (w *World) usedOn(p *physical, claim types.UID) bool {
	c := w.claimBelow(p, claim)
	return c != nil && !p.dead && p.used(c.GetNamespace(), c.GetName())
}

// claimBelow is the copy of a claim, or what it mirrors, or did; nil if there is none.
func (w *World) claimBelow(p *physical, claim types.UID) *unstructured.Unstructured {
	if c := p.copyOfClaim(claim); c != nil {
		return c
	}
	if _, logical := w.api.ByUID(claim); logical != nil {
		_, below := p.api.ByUID(targetsOf(logical)[p.name].UID)
		return cast(below)
	}
	return nil
}

// usedByNobody says that pods mount a claim which nothing controls: who deleted that left them behind.
func (p *physical) usedByNobody(claim kube.Object) bool {
	return slices.ContainsFunc(p.api.ListNamespace(pods, "", claim.GetNamespace()), func(pod kube.Object) bool {
		return mounts(pod, claim.GetName()) && len(pod.GetOwnerReferences()) == 0
	})
}

// volumesWait says that a claim of a namespace has no volume where it has a copy, or one of its own on each of several
// physical clusters: a move waits for that, or for people.
func (w *World) volumesWait(cluster logicalcluster.Name, namespace string) bool {
	return slices.ContainsFunc(w.api.ListNamespace(claims, cluster, namespace), func(obj kube.Object) bool {
		return slices.ContainsFunc(targetsOf(obj).Names(), func(name string) bool {
			c := w.cluster(name).copyOfClaim(obj.GetUID())
			return targetsOf(obj)[name].Keeps() && (c == nil || w.cluster(name).volumeOf(c) == nil || c.GetDeletionTimestamp() != nil || w.cluster(name).usedByNobody(c))
		})
	})
}

// keepDataApart says that a unit which is to be on one physical cluster, after it was divided, has a claim with data of
// its own on each: Moving says so, and people decide which of them are meant.
func (w *World) keepDataApart(p *placementv1alpha1.Placement, in kube.Key) bool {
	moving := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
	if moving == nil {
		return false
	}
	handle := func(physical string, claim types.UID) string {
		c := w.claimBelow(w.cluster(physical), claim)
		if c == nil {
			return ""
		}
		return handleOf(w.cluster(physical).volumeOf(c))
	}
	return slices.ContainsFunc(decided(p), func(to string) bool {
		return strings.Contains(moving.Message, transition.HasItsOwn(to)) && slices.ContainsFunc(w.api.ListNamespace(claims, in.Cluster, in.Name), func(claim kube.Object) bool {
			there := handle(to, claim.GetUID())
			return there != "" && slices.ContainsFunc(p.Spec.Transition.From, func(from string) bool {
				here := handle(from, claim.GetUID())
				return here != "" && here != there
			})
		})
	})
}

// claimsLack says that something in a namespace has pods that mount a claim which is not there, or is being deleted:
// they wait, and with them whatever waits for them.
func (w *World) claimsLack(cluster logicalcluster.Name, namespace string) bool {
	return slices.ContainsFunc(copied, func(gr schema.GroupResource) bool {
		return slices.ContainsFunc(w.api.ListNamespace(gr, cluster, namespace), func(obj kube.Object) bool {
			mounted, _ := workload.ClaimsOf(kindOf(gr), cast(obj).Object)
			return slices.ContainsFunc(mounted, func(name string) bool {
				claim := w.api.Find(kube.Key{Resource: claims, Cluster: cluster, Namespace: namespace, Name: name})
				return claim == nil || claim.GetDeletionTimestamp() != nil
			})
		})
	})
}
