package syncer

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// maxCarriedConditions is how many conditions of what is carried go up.
const maxCarriedConditions = 16

// CarriedBy is the object that a Manifest carries; nil if there is none.
func CarriedBy(manifest *unstructured.Unstructured) *unstructured.Unstructured {
	if manifest == nil {
		return nil
	}
	object := descend(manifest.Object, []string{"spec", "object"})
	if object == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: object}
}

// CarriedName is how what a Manifest carries is named, of which the resource may not be known; empty if
// nothing says it.
func CarriedName(in Input) placementv1alpha1.CarriedObject {
	if object := CarriedBy(in.Logical); object != nil {
		gvk := object.GroupVersionKind()
		return placementv1alpha1.CarriedObject{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	}
	if in.Copy != nil {
		return in.Copy.Status.Carried
	}
	return placementv1alpha1.CarriedObject{}
}

// Carried completes the name of what a Manifest carries with how the API server of the target serves its
// kind.
func Carried(c placementv1alpha1.CarriedObject, resource string, namespaced bool) (placementv1alpha1.CarriedObject, *Failure) {
	c.Resource = resource
	switch {
	case namespaced && c.Namespace == "":
		return c, &Failure{Reason: fleetv1alpha1.ReasonNoNamespace, Message: c.Kind + " is a kind in namespaces there: name one in spec.object.metadata.namespace"}
	case !namespaced && c.Namespace != "":
		return c, &Failure{Reason: fleetv1alpha1.ReasonClusterScoped, Message: c.Kind + " is a kind in no namespace there: leave out spec.object.metadata.namespace"}
	}
	return c, nil
}

// Locate is in with what a Manifest is on the target, whose API server serves its kind so. Where the kind
// has another scope than what is recorded, it was defined anew, and nothing of the name can be: that is
// proof for who leaves.
func Locate(in Input, resource string, namespaced bool) Input {
	carried, failure := Carried(CarriedName(in), resource, namespaced)
	switch {
	case failure == nil:
		in.Carried = &carried
	case Leaves(in):
		in.NothingCarried = true
	default:
		in.Failure = failure
	}
	return in
}

// NotCarried are those of some kinds that no Manifest carries, and no Copy records.
func NotCarried(kinds []schema.GroupVersionKind, manifests []*unstructured.Unstructured, copies []*placementv1alpha1.Copy) []schema.GroupVersionKind {
	carried := map[schema.GroupKind]bool{}
	for _, m := range manifests {
		if object := CarriedBy(m); object != nil {
			carried[object.GroupVersionKind().GroupKind()] = true
		}
	}
	for _, c := range copies {
		if c.Status.State != placementv1alpha1.CopyRemoved {
			carried[schema.GroupKind{Group: c.Status.Carried.Group, Kind: c.Status.Carried.Kind}] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k schema.GroupVersionKind) bool { return carried[k.GroupKind()] })
}

// BringsKinds says that what a Manifest carries makes room for what others carry: kinds, or a namespace.
func BringsKinds(object *unstructured.Unstructured) bool {
	switch object.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: definitionsGroup, Kind: "CustomResourceDefinition"}, schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"},
		schema.GroupKind{Kind: "Namespace"}:
		return true
	}
	return false
}

// heldKinds are those of which an object takes along, when it goes, what others have in it.
var heldKinds = []schema.GroupKind{
	corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(),
	corev1.SchemeGroupVersion.WithKind("PersistentVolume").GroupKind(),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim").GroupKind(),
	{Group: definitionsGroup, Kind: "CustomResourceDefinition"},
}

const definitionsGroup = "apiextensions.k8s.io"

// TakesAlong says that others lose what they have in an object of a kind when it goes.
func TakesAlong(kind schema.GroupKind) bool { return slices.Contains(heldKinds, kind) }

// carries says that the copy is what the object carries.
func (p planner) carries() bool { return p.Ref.Kind.Carries }

// holds says that the object is a Namespace of root, of which nothing is made: it is there for the
// Manifests in it.
func (p planner) holds() bool { return p.Ref.IsNamespace() && p.Ref.Cluster == scope.Root }

// holder says what to do about a Namespace of root. That it is removed says that nothing in it has a
// copy any more.
//
//	the Namespace  its Copy  then
//	live           any       Synced
//	going          any       Removed
//	absent         none      nothing
//	absent         any       AskServer; gone, and nothing in it keeps it: Removed
func (p planner) holder() []Action {
	switch p.logical {
	case logicalLive:
		if p.copy == copyStale {
			return p.finishStale()
		}
		if p.copy == copyNone {
			return p.write(p.status(placementv1alpha1.CopyPending, ReasonNew, ""), p.Logical.GetUID())
		}
		status := p.status(placementv1alpha1.CopySynced, "", "")
		status.AppliedGeneration, status.ObservedGeneration = p.Logical.GetGeneration(), p.Logical.GetGeneration()
		return p.write(status, p.Logical.GetUID())
	case logicalGoing:
		if p.copy == copyStale {
			return p.finishStale()
		}
		return p.remove(p.Logical.GetUID(), reasonRemoving)
	}
	return p.absent()
}

// unrecorded says that the Copy does not say yet where what is made will be: nothing is made before.
func (p planner) unrecorded() bool {
	if p.carries() {
		return p.Copy.Status.Carried == (placementv1alpha1.CarriedObject{}) && p.Carried != nil
	}
	return p.Copy.Status.PhysicalNamespace == ""
}

// adopts says that an object which belongs to nobody is taken over, as the Manifest says. One that goes
// takes nothing over any more: it would delete what was never its own.
func adopts(in Input) bool {
	if !in.Ref.Kind.Carries || in.Physical == nil || classifyLogical(in) != logicalLive {
		return false
	}
	_, carried := in.Physical.GetLabels()[placementv1alpha1.CarriedByLabel]
	adopt, _, _ := unstructured.NestedBool(in.Logical.Object, "spec", "adopt")
	return adopt && !carried && !othersMark(in)
}

// othersMark says that what a Manifest would be is of a logical cluster, or carried by another control
// plane.
func othersMark(in Input) bool {
	labels := in.Physical.GetLabels()
	_, managed := labels[placementv1alpha1.ManagedByLabel]
	by, carried := labels[placementv1alpha1.CarriedByLabel]
	return managed || carried && by != in.ControlPlane
}

// unreachable says that it is not known whether a copy, or what a Manifest carries, is there: it cannot be
// said to be gone. What was never recorded was never made.
func (p planner) unreachable() bool {
	return p.Unproven || p.carries() && p.Carried == nil && !p.NothingCarried && (p.Copy == nil || p.Copy.Status.Carried != (placementv1alpha1.CarriedObject{}))
}

// notKnown is why it is not.
func (p planner) notKnown() Failure {
	if p.Failure != nil {
		return *p.Failure
	}
	return Failure{Reason: fleetv1alpha1.ReasonKindsNotKnown, Message: "the physical cluster did not say what it has of the kind"}
}

// Leaves says that nothing of an object, or of the one before of its name, is to be on the target any
// more.
func Leaves(in Input) bool {
	l := classifyLogical(in)
	return l == logicalGoing || l == logicalAbsent || classifyCopy(in) == copyStale
}

// keepsBelow says that what a Manifest carries stays where the Manifest is not any more. Of one that is
// gone nobody knows, and nothing is deleted.
func (p planner) keepsBelow() bool {
	if !p.carries() {
		return false
	}
	if p.Logical == nil {
		return true
	}
	removal, _, _ := unstructured.NestedString(p.Logical.Object, "spec", "removal")
	return removal != string(fleetv1alpha1.RemovalDelete)
}

// unmark takes our marks off what stays, see keepsBelow; nil if it has none.
func (p planner) unmark() []Action {
	metadata := map[string]any{}
	if _, ok := p.Physical.GetLabels()[placementv1alpha1.CarriedByLabel]; ok {
		metadata["labels"] = map[string]any{placementv1alpha1.CarriedByLabel: nil}
	}
	annotations := map[string]any{}
	for key := range p.Physical.GetAnnotations() {
		if placementv1alpha1.IsSystemKey(key) {
			annotations[key] = nil
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if len(metadata) == 0 {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = string(p.Physical.GetUID()), p.Physical.GetResourceVersion()
	return []Action{{Verb: Unmark, Object: &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}, UID: p.Physical.GetUID(), Why: "Keep"}}
}

// carriedBelow is what is applied of a Manifest: its object as it is, with our marks.
func carriedBelow(manifest *unstructured.Unstructured, p Placing) *unstructured.Unstructured {
	object := CarriedBy(manifest)
	if object == nil {
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	content := deepCopy(object.Object).(map[string]any)
	delete(content, "status")
	labels, annotations := map[string]any{}, map[string]any{}
	for k, v := range object.GetLabels() {
		if !placementv1alpha1.IsSystemKey(k) {
			labels[k] = v
		}
	}
	for k, v := range object.GetAnnotations() {
		if !placementv1alpha1.IsSystemKey(k) && k != corev1.LastAppliedConfigAnnotation {
			annotations[k] = v
		}
	}
	metadata := map[string]any{"name": object.GetName(), "labels": labels, "annotations": annotations}
	if namespace := object.GetNamespace(); namespace != "" {
		metadata["namespace"] = namespace
	}
	content["metadata"] = metadata
	markFor(p.ControlPlane, p.Ref, manifest.GetUID()).put(p.Ref.Kind.GroupResource(), labels, annotations)
	out := &unstructured.Unstructured{Object: content}
	annotations[CarriedAnnotation] = identity(out)
	annotations[AppliedAnnotation] = digest(out)
	return out
}

// carriedStatus is what goes up of the status of what is carried: its conditions, and which generation
// they are of.
func carriedStatus(physical *unstructured.Unstructured) *runtime.RawExtension {
	status := field(physical.Object, "status")
	out := map[string]any{}
	if n, ok := integer(status, "observedGeneration"); ok {
		out["observedGeneration"] = n
	}
	if conditions := carriedConditions(list(status, "conditions")); len(conditions) > 0 {
		out["conditions"] = conditions
	}
	if len(out) == 0 {
		return nil
	}
	return rawStatus(map[string]any{"status": out})
}

// carriedConditions are the first conditions that are any, with the fields of one, bounded, and one of
// each type: a server would not store others, and nothing else of the status either.
func carriedConditions(all []map[string]any) []any {
	var out []any
	seen := map[any]bool{fleetv1alpha1.ConditionApplied: true} // ours
	for _, c := range all {
		kept := map[string]any{}
		for _, name := range []string{"type", "status", "reason", "message", "lastTransitionTime"} {
			if text, ok := c[name].(string); ok && text != "" {
				kept[name] = bounded(text)
			}
		}
		if at, ok := kept["lastTransitionTime"].(string); ok {
			if _, err := time.Parse(time.RFC3339, at); err != nil {
				delete(kept, "lastTransitionTime")
			}
		}
		switch {
		case kept["type"] == nil || seen[kept["type"]] || !slices.Contains([]any{"True", "False", "Unknown"}, kept["status"]):
		case len(out) < maxCarriedConditions:
			out, seen[kept["type"]] = append(out, kept), true
		}
	}
	return out
}

// manifestStatus is the status of a Manifest: the conditions of what it carries, as they are merged, and
// whether all of its targets have that.
func manifestStatus(manifest *unstructured.Unstructured, merged map[string]any, copies []*placementv1alpha1.Copy) map[string]any {
	status := map[string]any{}
	if n, ok := integer(merged, "observedGeneration"); ok && n > 0 {
		status["observedGeneration"] = n
	}
	conditions := carriedConditions(list(merged, "conditions"))
	if applied := appliedCondition(manifest, copies, nil); applied != nil {
		conditions = append([]any{applied}, conditions...)
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	return status
}

// WithOldSyncers is the status of a Manifest, as Summarize makes it, by what is known of the syncers of its
// targets: lacks says that one does not see Manifests. What it once reported may not be so any more.
func WithOldSyncers(manifest *unstructured.Unstructured, status map[string]any, copies []*placementv1alpha1.Copy, lacks func(target string) bool) map[string]any {
	applied := appliedCondition(manifest, copies, lacks)
	conditions, _ := status["conditions"].([]any)
	for i, c := range conditions {
		if c, _ := c.(map[string]any); applied != nil && c["type"] == fleetv1alpha1.ConditionApplied {
			conditions[i] = applied
		}
	}
	return status
}

// appliedCondition says whether all targets that keep a copy have the Manifest as it is now; nil if there
// are none. Nobody knows of those whose syncers lack Manifests: where all others have it, that is Unknown.
func appliedCondition(manifest *unstructured.Unstructured, copies []*placementv1alpha1.Copy, lacksManifests func(target string) bool) map[string]any {
	byTarget := map[string]*placementv1alpha1.Copy{}
	for _, c := range copies {
		if c.Spec.Object.UID == manifest.GetUID() {
			byTarget[c.Spec.PhysicalCluster] = c
		}
	}
	var keep int
	var lacks, old []string
	reason := fleetv1alpha1.ReasonNotApplied
	targets := stamp.TargetsOf(manifest.GetAnnotations())
	for _, name := range targets.Names() {
		if !targets[name].Keeps() {
			continue
		}
		keep++
		switch c := byTarget[name]; {
		case lacksManifests != nil && lacksManifests(name):
			old = append(old, name+": its syncer does not know of Manifests, upgrade the syncer of physical cluster "+name)
		case c == nil:
			lacks = append(lacks, name+": it is on its way")
		case c.Status.State != placementv1alpha1.CopySynced:
			said := strings.TrimSuffix(c.Status.Reason+": "+c.Status.Message, ": ")
			lacks = append(lacks, name+": "+said)
			if c.Status.State == placementv1alpha1.CopyFailed && c.Status.Reason != "" {
				reason = c.Status.Reason
			}
		case c.Status.AppliedGeneration < manifest.GetGeneration() || stamp.Staged(manifest) && c.Status.Revision != stamp.Revision(manifest):
			lacks = append(lacks, name+": it has what was before")
		}
	}
	switch {
	case keep == 0:
		return nil
	case len(lacks) > 0:
		return map[string]any{"type": fleetv1alpha1.ConditionApplied, "status": "False", "reason": reason, "message": bounded(strings.Join(append(old, lacks...), "; "))}
	case len(old) > 0:
		return map[string]any{"type": fleetv1alpha1.ConditionApplied, "status": "Unknown", "reason": fleetv1alpha1.ReasonSyncerTooOld, "message": bounded(strings.Join(old, "; "))}
	}
	return map[string]any{"type": fleetv1alpha1.ConditionApplied, "status": "True", "reason": fleetv1alpha1.ReasonApplied}
}

// marking is the label by which copies of a resource are found below.
func marking(gr schema.GroupResource) string {
	if gr == manifests {
		return placementv1alpha1.CarriedByLabel
	}
	return placementv1alpha1.ManagedByLabel
}

var manifests = fleetv1alpha1.Resource("manifests")

// IsManifests says that a resource is that of Manifests.
func IsManifests(gr schema.GroupResource) bool { return gr == manifests }
