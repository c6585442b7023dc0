package simulation

import (
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// converged checks a world that came to rest.
func (w *World) converged() {
	w.say("--- at rest")
	for _, gr := range copied {
		for _, obj := range w.api.List(gr) {
			w.objectConverged(w.api.KeyOf(gr, obj), cast(obj))
		}
	}
	w.bindingsConverged()
	for _, obj := range w.api.List(copies) {
		w.recordConverged(obj.(*placementv1alpha1.Copy))
	}
	for _, p := range w.clusters {
		if p.dead {
			continue
		}
		for _, gr := range copied {
			for _, obj := range p.api.List(gr) {
				w.belowConverged(p, p.api.KeyOf(gr, obj), cast(obj))
			}
		}
		w.isolated(p)
		w.admitted(p)
		w.led(p)
		w.frontsConverged(p)
		w.volumesConverged(p)
		w.keptConverged(p)
		w.besideConverged(p)
		w.noneCarried(p)
	}
	w.dataConverged()
}

// objectConverged: a logical object is not on its way out, has its targets, and on
// each of them the copy that it shall have.
func (w *World) objectConverged(key kube.Key, obj *unstructured.Unstructured) {
	switch {
	case obj.GetDeletionTimestamp() != nil && w.inUse(key):
		return
	case obj.GetDeletionTimestamp() != nil:
		w.fail(Converges, "%s is still being deleted: finalizers %v, targets %s", key, obj.GetFinalizers(), targetsText(obj))
		return
	case key.Cluster == scope.Root:
		w.carriedConverged(key, obj)
		return
	case isObserved(obj):
		w.mirrorConverged(key, obj)
		return
	}
	w.budgetConverged(key, obj)
	namespace := w.api.Find(namespaceOf(key))
	targets := targetsOf(obj)
	in := w.placementsOf(key, obj, namespace)
	decision := decidedAll(in)
	if len(targets) == 0 && isPlaced(key) && len(decision) > 0 && !w.withdrawn(obj) {
		w.fail(Converges, "%s has no targets, but its unit goes to %v", key, decision)
	}
	whole := len(targets) > 0
	for _, name := range targets.Names() {
		if slices.ContainsFunc(in, w.waitsToMove) || keptBack(in, obj) {
			whole = false
			continue
		}
		// What ran to its end in another unit has no copy that a unit without a place could move.
		ended := targets[name].State == placementv1alpha1.TargetStateFinished && len(decision) == 0
		if !slices.Contains(decision, name) && !w.cluster(name).dead && isPlaced(key) && !ended {
			w.fail(Converges, "%s is on %s, but its unit goes to %v: %s", key, name, decision, movingOf(in))
		}
		switch {
		case targets[name].State == placementv1alpha1.TargetStateFinished:
			whole = false
			continue
		case w.awaitsVolume(key, obj, name), w.keptForOrphans(key, obj, name):
			whole = false
			continue
		case targets[name].State != placementv1alpha1.TargetSync:
			w.fail(Converges, "%s is still %s on %s: %s", key, targets[name].State, name, movingOf(in))
		}
		w.overridesConverged(key, obj, name, in)
		whole = w.copyConverged(key, obj, w.cluster(name)) && whole
	}
	if whole && key.Resource != namespaces {
		w.statusConverged(key, obj)
		w.sharesConverged(key, obj, in)
	}
}

// movingOf is what is said about the transitions of units.
func movingOf(in []*placementv1alpha1.Placement) string {
	out := "it has no placement"
	for i, p := range in {
		if i == 0 {
			out = ""
		}
		c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
		if c == nil {
			out += fmt.Sprintf("%s does not move, transition %v; ", p.Name, p.Spec.Transition)
			continue
		}
		out += fmt.Sprintf("%s: %s %s: %s; ", p.Name, c.Status, c.Reason, c.Message)
	}
	return out
}

// waitsToMove: a unit that shall move stays while its copies are refused elsewhere,
// and says so; or while the other place, or the one that it leaves, is gone for good.
func (w *World) waitsToMove(p *placementv1alpha1.Placement) bool {
	key := kube.Key{Cluster: logicalcluster.From(p), Name: p.Namespace}
	if p.Spec.Transition == nil {
		return false
	}
	for _, name := range append(decided(p), p.Spec.Transition.From...) {
		if w.cluster(name).dead {
			return true
		}
	}
	if w.volumesWait(key.Cluster, key.Name) || w.claimsLack(key.Cluster, key.Name) || w.letGo(key.Cluster, key.Name, p.Spec.Transition.From) {
		return true
	}
	if w.keepDataApart(p, key) || w.adoptedOnOne(p, key) {
		return true
	}
	if slices.ContainsFunc(p.Spec.Transition.From, func(name string) bool {
		return slices.ContainsFunc(w.orphansOf(w.cluster(name)), func(o *fleetv1alpha1.Orphan) bool {
			return o.Spec.Claim.LogicalCluster == key.Cluster.String() && o.Spec.Claim.Namespace == key.Name && o.Spec.Object.Kind == "StatefulSet"
		})
	}) {
		return true // its pods may mount the claims that move, which Moving says, and an admin decides
	}
	if len(decided(p)) > 1 && len(w.api.ListNamespace(claims, key.Cluster, key.Name)) > 0 {
		return true // it says which claim has one volume, and does not go to several
	}
	namespace := w.api.Find(kube.Key{Resource: namespaces, Cluster: key.Cluster, Name: key.Name})
	if namespace != nil && slices.ContainsFunc(p.Spec.Transition.From, func(name string) bool { return w.runsIn(namespace, name) }) {
		return true
	}
	return meta.IsStatusConditionTrue(p.Status.Conditions, placementv1alpha1.ConditionMoving) &&
		slices.ContainsFunc(w.api.List(copies), func(obj kube.Object) bool {
			c, k := obj.(*placementv1alpha1.Copy), w.api.KeyOf(copies, obj)
			return k.Cluster == key.Cluster && k.Namespace == key.Name && slices.Contains(decided(p), c.Spec.PhysicalCluster) && c.Status.State == placementv1alpha1.CopyFailed
		})
}

// adoptedOnOne says that a Deployment has taken a ReplicaSet over, and scaled it to nothing, where a unit goes, and not where
// it leaves: controllers here let it be there, see adoptable, which real ones do not.
func (w *World) adoptedOnOne(p *placementv1alpha1.Placement, in kube.Key) bool {
	return slices.ContainsFunc(w.api.ListNamespace(replicaSets, in.Cluster, in.Name), func(obj kube.Object) bool {
		controlled := func(name string) bool {
			return slices.ContainsFunc(w.cluster(name).api.List(replicaSets), func(below kube.Object) bool {
				m, ok := syncer.MarkOf(replicaSets, below)
				return ok && m.UID == obj.GetUID() && metav1.GetControllerOfNoCopy(below) != nil
			})
		}
		return slices.ContainsFunc(decided(p), controlled) && slices.ContainsFunc(p.Spec.Transition.From, func(name string) bool { return !controlled(name) })
	})
}

// letGo says that something runs on physical clusters which a unit leaves that nothing above controls any more: it begins
// nowhere else, and would end with its namespace there. People decide about that.
func (w *World) letGo(cluster logicalcluster.Name, namespace string, from []string) bool {
	return slices.ContainsFunc([]schema.GroupResource{replicaSets, jobs, pods}, func(gr schema.GroupResource) bool {
		return slices.ContainsFunc(w.api.ListNamespace(gr, cluster, namespace), func(obj kube.Object) bool {
			return stamp.Mirrored(obj) && len(obj.GetOwnerReferences()) == 0 &&
				slices.ContainsFunc(from, func(name string) bool { _, there := targetsOf(obj)[name]; return there })
		})
	})
}

// runsIn says that a pod or a Job of a namespace runs to its end on a physical cluster.
func (w *World) runsIn(namespace kube.Object, name string) bool {
	key := w.api.KeyOf(namespaces, namespace)
	return slices.ContainsFunc([]schema.GroupResource{jobs, pods}, func(gr schema.GroupResource) bool {
		return slices.ContainsFunc(w.api.ListNamespace(gr, key.Cluster, key.Name), func(obj kube.Object) bool {
			t, ok := targetsOf(obj)[name]
			return ok && t.Keeps()
		})
	})
}

// withdrawn: somebody took it off its last target.
func (w *World) withdrawn(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(w.ledger.versions[obj.GetUID()], func(v *unstructured.Unstructured) bool { return targetsText(v) != "" })
}

// copyConverged checks the copy on one target, and reports whether it is there.
func (w *World) copyConverged(key kube.Key, obj *unstructured.Unstructured, p *physical) bool {
	if p.dead {
		return false
	}
	namespace := w.api.Find(namespaceOf(key))
	physicalName := namespace.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]
	below := kube.Key{Resource: key.Resource, Namespace: physicalName, Name: key.Name}
	if key.Resource == namespaces {
		below = kube.Key{Resource: namespaces, Name: physicalName}
	}
	c, _ := w.api.Find(kube.Key{
		Resource: copies, Cluster: key.Cluster, Namespace: namespaceOf(key).Name, Name: syncer.CopyName(key.Resource, key.Name, p.name),
	}).(*placementv1alpha1.Copy)
	physical := cast(p.api.Find(below))
	if c != nil && key.Resource == claims && w.usedOn(p, c.Spec.Object.UID) {
		return false // as the one before it
	}
	if c == nil || c.Spec.Object.UID != obj.GetUID() {
		w.fail(Converges, "%s %s has no Copy for %s: %v", key, obj.GetUID(), p.name, c)
		return false
	}
	home := p.api.Find(kube.Key{Resource: namespaces, Name: physicalName})
	taken := home != nil && !w.ledger.recognizable(kube.Key{Resource: namespaces}, home, namespace.GetUID())
	if physical != nil {
		taken = !w.ledger.recognizable(below, physical, obj.GetUID())
	}
	if taken {
		if c.Status.State != placementv1alpha1.CopyFailed && c.Status.Reason != "Finished" {
			w.fail(Converges, "the place of %s on %s is taken, but its Copy is %s", key, p.name, c.Status.State)
		}
		return false
	}
	if w.waitsForPeople(p, obj, physical, c) {
		return false
	}
	if physical != nil && key.Resource == claims && physical.GetDeletionTimestamp() != nil && p.used(below.Namespace, below.Name) {
		return false // somebody deleted it there, and pods mount it: it is made anew once they do not
	}
	if c.Status.State != placementv1alpha1.CopySynced || c.Status.AppliedGeneration != obj.GetGeneration() {
		w.fail(Converges, "the Copy of %s (generation %d) on %s is %s: %s %s, generation %d", key, obj.GetGeneration(), p.name,
			c.Status.State, c.Status.Reason, c.Status.Message, c.Status.AppliedGeneration)
		return false
	}
	if physical == nil {
		if c.Status.Reason != "Finished" {
			w.fail(Converges, "%s has no copy on %s", key, p.name)
		}
		return false
	}
	if ref := metav1.GetControllerOfNoCopy(physical); ref != nil {
		_, controller := p.api.ByUID(ref.UID)
		if m, ok := syncer.MarkOf(resourceOf(cast(controller)), controller); ok {
			if above := cast(w.api.Find(keyOfMark(resourceOf(cast(controller)), m))); above != nil && above.GetUID() == m.UID &&
				syncer.Adopts(kindOf(resourceOf(above)), above, kindOf(key.Resource), obj, p.name) {
				w.fail(Converges, "%s was adopted on %s by %s, and nothing above says so", key, p.name, m.Name)
			}
		}
		return true // with several targets, what it has of the controllers stays below
	}
	w.contentConverged(key, obj, p, physical)
	return true
}

// waitsForPeople: an orphan has the place of the copy, the copy is controlled, or scaled, by what
// nothing above knows of, or the physical cluster lacks what it needs. The Copy says so.
func (w *World) waitsForPeople(p *physical, obj, physical *unstructured.Unstructured, c *placementv1alpha1.Copy) bool {
	if c.Status.State != placementv1alpha1.CopyFailed {
		return false
	}
	switch c.Status.Reason {
	case syncer.ReasonOrphanInTheWay:
		return physical != nil && w.orphan(p, physical.GetUID()) != nil
	case syncer.ReasonControlledByOther:
		return physical != nil && w.controlledByOther(p, physical)
	case syncer.ReasonChangedByOther: // an autoscaler that a restored backup does not know
		return slices.ContainsFunc(w.orphansOf(p), func(o *fleetv1alpha1.Orphan) bool { return o.Spec.Object.Kind == kindOf(autoscalers).Kind })
	case "ClaimGone":
		return p.rewound || w.meddledWith(obj.GetUID())
	case "NoRuntimeClass":
		return p.classOf(syncer.RuntimeHandler(obj)) == ""
	}
	return false
}

// controlledByOther says that a copy has a controller that belongs to nothing above.
func (w *World) controlledByOther(p *physical, physical *unstructured.Unstructured) bool {
	ref := metav1.GetControllerOfNoCopy(physical)
	if ref == nil {
		return false
	}
	_, controller := p.api.ByUID(ref.UID)
	return controller == nil || !w.livesAbove(p, cast(controller))
}

// contentConverged: everything that the object says is below.
func (w *World) contentConverged(key kube.Key, obj *unstructured.Unstructured, p *physical, physical *unstructured.Unstructured) {
	want, _ := syncer.Transform(obj, syncer.Placing{
		Ref:          syncer.Ref{Kind: kindOf(key.Resource), Cluster: key.Cluster, Namespace: key.Namespace, Name: key.Name},
		ControlPlane: controlPlane, Namespace: physical.GetNamespace(), Target: targetsOf(obj)[p.name],
		RuntimeClass: p.classOf(syncer.RuntimeHandler(obj)),
	})
	if key.Resource == namespaces {
		want.SetName(physical.GetName())
	}
	if w.isScaled(key, obj, p) {
		unstructured.RemoveNestedField(want.Object, "spec", "replicas") // the autoscaler's
	}
	if !contains(physical.Object, want.Object) {
		w.fail(Converges, "%s on %s is %v, not %v", key, p.name, physical.Object, want.Object)
	}
}

func contains(have, want any) bool {
	m, ok := want.(map[string]any)
	if !ok {
		return equality.Semantic.DeepEqual(have, want)
	}
	h, _ := have.(map[string]any)
	for name, value := range m {
		if name == AppliedAnnotation {
			continue // depends on the version of the namespace
		}
		if !contains(h[name], value) {
			return false
		}
	}
	return true
}

// AppliedAnnotation is compared by what it means.
const AppliedAnnotation = syncer.AppliedAnnotation

// statusConverged compares the status with what there is below, computed in
// another way than the summarizer does.
func (w *World) statusConverged(key kube.Key, obj *unstructured.Unstructured) {
	if !syncer.HasStatus(kindOf(key.Resource)) {
		return
	}
	below := w.physicalNamespace(Happening{Cluster: key.Cluster, Namespace: key.Namespace})
	var statuses []map[string]any
	for _, name := range targetsOf(obj).Names() {
		copied := w.cluster(name).api.Find(kube.Key{Resource: key.Resource, Namespace: below, Name: key.Name})
		statuses = append(statuses, part(copied, "status"))
	}
	sum := func(name string) (n int64) {
		for _, s := range statuses {
			v, _ := s[name].(int64)
			n += v
		}
		return n
	}
	equal := func(name string, want int64) {
		if have := number(obj, "status", name); have != want {
			w.fail(Converges, "%s has %s %d, not %d: %v, below %v", key, name, have, want, obj.Object["status"], statuses)
		}
	}
	switch key.Resource {
	case deployments:
		equal("observedGeneration", obj.GetGeneration())
		equal("replicas", sum("replicas"))
		equal("readyReplicas", sum("readyReplicas"))
	case statefulSets:
		equal("replicas", sum("replicas"))
		equal("readyReplicas", sum("readyReplicas"))
	case cronJobs:
		w.runsConverged(key, obj)
	case jobs: // what was counted stays, also of copies that went
		// A Job that has ended does not go on when it gets one more target.
		if have := number(obj, "status", "succeeded"); have < sum("succeeded") && text(obj, "status", "completionTime") == "" {
			w.fail(Converges, "%s has succeeded %d times, below %d times", key, have, sum("succeeded"))
		}
	case services:
		var behind []string
		if text(obj, "spec", "type") == string(corev1.ServiceTypeLoadBalancer) {
			behind = []string{key.Name}
		}
		w.addressesConverged(key, obj, below, behind)
	case ingresses:
		w.addressesConverged(key, obj, below, behindOf(obj))
	}
}

// keptForOrphans says of a Namespace that leaves that the physical one stays for what nothing above knows, as of a restored backup, or what
// somebody made there.
func (w *World) keptForOrphans(key kube.Key, namespace kube.Object, name string) bool {
	p := w.cluster(name)
	if key.Resource != namespaces || targetsOf(namespace)[name].State != placementv1alpha1.TargetStateRemoving {
		return false
	}
	return w.hasOrphans(p, syncer.PhysicalName(cast(namespace)))
}

// hasOrphans says that orphans are listed in a physical namespace.
func (w *World) hasOrphans(p *physical, namespace string) bool {
	return slices.ContainsFunc(w.orphansOf(p), func(o *fleetv1alpha1.Orphan) bool {
		return o.Spec.Object.Namespace == namespace
	})
}

// recordConverged: a Copy is about something that exists.
func (w *World) recordConverged(c *placementv1alpha1.Copy) {
	obj := w.api.Find(objectOf(c))
	gone := obj == nil || obj.GetUID() != c.Spec.Object.UID
	if gone && objectOf(c).Resource == claims && w.usedOn(w.cluster(c.Spec.PhysicalCluster), c.Spec.Object.UID) {
		return // an admin forced it
	}
	if gone {
		w.fail(Converges, "the Copy of %s %s on %s (%s) is left", objectOf(c), c.Spec.Object.UID, c.Spec.PhysicalCluster, c.Status.State)
		return
	}
	if obj.GetDeletionTimestamp() != nil && w.inUse(objectOf(c)) {
		return // it goes with the last one
	}
	if t, ok := targetsOf(obj)[c.Spec.PhysicalCluster]; !ok || t.State == placementv1alpha1.TargetObserved {
		w.fail(Converges, "the Copy of %s on %s (%s) is left, where it is nobody's copy", objectOf(c), c.Spec.PhysicalCluster, c.Status.State)
	}
}
