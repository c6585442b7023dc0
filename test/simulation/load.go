package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

var autoscalers = schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}

// autoscaling is how often an autoscaler looks at the load.
const autoscaling = 15 * time.Second

// autoscale: a user has a Deployment scaled by its load, within other bounds, or no more.
func (w *World) autoscale(h Happening) {
	h.Resource = autoscalers
	spec := map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": h.Name},
		"minReplicas":    int64(1 + h.N%2), "maxReplicas": int64(2 + h.N%4),
	}
	w.writeSpec(h, spec)
	if h.Resource = deployments; w.api.Find(h.key()) == nil {
		w.create(h.key(), example(deployments, h.Namespace, h.Name, 1+h.N%2), nil)
	}
}

// load: so many pods of a Deployment are busy from now on.
func (w *World) load(h Happening) {
	h.Resource = deployments
	w.loads[h.key()] = int64(h.N % 7)
}

// autoscale has a Deployment follow the load that comes to this physical cluster. What is scaled to nothing is let be, as the
// real one does.
func (p *physical) autoscale(key kube.Key, scaler *unstructured.Unstructured) (time.Duration, error) {
	scaled := cast(p.api.Find(kube.Key{Resource: deployments, Namespace: key.Namespace, Name: scaledBy(scaler)}))
	if scaled == nil || scaled.GetDeletionTimestamp() != nil || scaler.GetDeletionTimestamp() != nil || number(scaled, "spec", "replicas") == 0 {
		return autoscaling, nil
	}
	want := min(max(p.loadOf(scaled), number(scaler, "spec", "minReplicas")), number(scaler, "spec", "maxReplicas"))
	if number(scaled, "spec", "replicas") != want {
		u := scaled.DeepCopy()
		_ = unstructured.SetNestedField(u.Object, want, "spec", "replicas") // a path of maps
		if _, err := p.api.Edit(controllers, deployments, u, "autoscaler"); err != nil {
			return 0, err
		}
	}
	return autoscaling, p.status(key, scaler, map[string]any{"currentReplicas": number(scaled, "status", "replicas"), "desiredReplicas": want})
}

// loadOf is the load of a copy: none where clients are not sent as yet, or any more.
func (p *physical) loadOf(copied *unstructured.Unstructured) int64 {
	m, ok := syncer.MarkOf(deployments, copied)
	if !ok {
		return 0
	}
	key := keyOfMark(deployments, m)
	above := cast(p.world.api.Find(key))
	if above == nil {
		return 0
	}
	for _, unit := range p.world.placementsOf(key, above, p.world.api.Find(namespaceOf(key))) {
		t := unit.Spec.Transition
		if t != nil && slices.Contains(map[bool][]string{true: t.To, false: t.From}[t.Phase == placementv1alpha1.TransitionStarting], p.name) {
			return 0
		}
	}
	return p.world.loads[key]
}

// isScaled says that an autoscaler scales the copy of a Deployment on a physical cluster.
func (w *World) isScaled(key kube.Key, obj *unstructured.Unstructured, p *physical) bool {
	if !w.scales || key.Resource != deployments || number(obj, "spec", "replicas") == 0 {
		return false
	}
	return slices.ContainsFunc(w.scalersOf(key), func(scaler kube.Object) bool {
		t, ok := targetsOf(scaler)[p.name]
		return ok && t.Keeps() && scaler.GetDeletionTimestamp() == nil
	})
}

// scalersOf are the autoscalers that name a Deployment.
func (w *World) scalersOf(key kube.Key) []kube.Object {
	return slices.DeleteFunc(w.api.ListNamespace(autoscalers, key.Cluster, key.Namespace), func(scaler kube.Object) bool {
		return key.Resource != deployments || scaledBy(scaler) != key.Name
	})
}

func scaledBy(scaler kube.Object) string { return text(scaler, "spec", "scaleTargetRef", "name") }

// ScaledFirst: an autoscaler comes to where its unit goes, and may scale down there, once as many run there as where it leaves.
const ScaledFirst = "an autoscaler comes once as many run"

// scaled checks the targets that an autoscaler gets.
func (l *ledger) scaled(e kube.Event, namespace types.UID, before placementv1alpha1.Targets) {
	if e.Key.Resource != autoscalers || e.Old == nil || e.New.GetDeletionTimestamp() != nil || l.world.withdraws || l.turnedBack > 0 {
		return
	}
	key := kube.Key{Resource: deployments, Cluster: e.Key.Cluster, Namespace: e.Key.Namespace, Name: scaledBy(e.New)}
	obj := cast(l.world.api.Find(key))
	if obj == nil || obj.GetDeletionTimestamp() != nil || number(obj, "spec", "replicas") == 0 || endsFirst(obj) || isDivided(targetsOf(obj)) || l.failing(obj) {
		return
	}
	unit := func(o kube.Object) string { return o.GetAnnotations()[placementv1alpha1.UnitAnnotation] }
	if unit(e.Old) != unit(e.New) || unit(e.Old) != unit(obj) {
		return // what comes into another unit begins there where it is
	}
	for name, t := range targetsOf(e.New) {
		if before[name].State != placementv1alpha1.TargetStateWaiting || !t.Keeps() || slices.ContainsFunc(l.versions[e.New.GetUID()], func(v *unstructured.Unstructured) bool {
			had, ok := targetsOf(v)[name]
			return ok && had.Keeps() && v.GetResourceVersion() != e.New.GetResourceVersion()
		}) {
			continue // or it has come before, and so has the traffic
		}
		for _, other := range before.Names() {
			p, was := l.world.cluster(other), before[other]
			if !was.Keeps() || !l.leaves(namespace, other) || p.dead || !p.syncing() {
				continue
			}
			if l.world.isBehind(key, obj, name) {
				continue // it was in place before it was written last, and traffic is none the worse
			}
			least, _ := l.available.since(l.world.now().Add(-deciding), obj.GetUID(), other)
			_, most := l.available.since(l.world.now().Add(-deciding), obj.GetUID(), name)
			had := min(l.world.availableOn(key, obj, other), least, number(e.New, "spec", "maxReplicas"), number(e.Old, "spec", "maxReplicas"))
			if most < had {
				l.world.fail(ScaledFirst, "%s comes to %s, where at most %d pods of %s are available, and %d are on %s", e.Key, name, most, key, had, other)
			}
		}
	}
}

// isBehind says that a copy is in place, and not as it was written last.
func (w *World) isBehind(key kube.Key, obj kube.Object, name string) bool {
	c, ok := w.api.Find(kube.Key{Resource: copies, Cluster: key.Cluster, Namespace: key.Namespace, Name: syncer.CopyName(key.Resource, key.Name, name)}).(*placementv1alpha1.Copy)
	return ok && c.Spec.Object.UID == obj.GetUID() && c.Status.PhysicalUID != "" && c.Status.AppliedGeneration < obj.GetGeneration()
}
