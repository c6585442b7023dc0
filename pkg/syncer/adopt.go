package syncer

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// MayAdopt says that controllers of a kind adopt objects of another one.
func MayAdopt(adopting, kind workload.Kind) bool {
	return slices.Contains(adopting.Adopts, kind.GroupKind())
}

// Adopts says whether an object of the logical cluster gets controller as its
// owner because the controller below has made the copy its own. Syncer and server
// ask this with what each of them knows: the syncer stops putting the copy back,
// and the server, which need not believe it, makes sure that this is what the
// controller would do in a single cluster too.
//
//	obj         is not being deleted, nobody controls it, and the target is the only
//	            one that keeps a copy of it
//	controller  of a kind, adopting, that adopts such objects, in the same namespace,
//	            on the target, not being deleted; its selector matches obj
//
// With several targets each has a controller of its own to adopt and to scale:
// nothing is mirrored that all of them would agree on, so the copies stay copies.
func Adopts(adopting workload.Kind, controller *unstructured.Unstructured, kind workload.Kind, obj metav1.Object, target string) bool {
	if !Adoptable(obj, target) {
		return false
	}
	there, ok := stamp.TargetsOf(controller.GetAnnotations())[target]
	if !ok || there.State == placementv1alpha1.TargetStateRemoving || controller.GetDeletionTimestamp() != nil ||
		controller.GetNamespace() != obj.GetNamespace() || controller.GroupVersionKind().GroupKind() != adopting.GroupKind() || !MayAdopt(adopting, kind) {
		return false
	}
	selector, ok := selectorOf(adopting, controller)
	return ok && selector.Matches(labels.Set(obj.GetLabels()))
}

// Adoptable is the part of Adopts that is about the object alone.
func Adoptable(obj metav1.Object, target string) bool {
	targets := stamp.TargetsOf(obj.GetAnnotations())
	entry, ok := targets[target]
	return ok && len(targets) == 1 && entry.Keeps() &&
		obj.GetDeletionTimestamp() == nil && metav1.GetControllerOfNoCopy(obj) == nil
}

// AdoptionAccepted says that the server has accepted what a Copy says about a controller,
// and is about to write that on the object: until it has, or takes that back, nobody else
// decides about the copy.
func AdoptionAccepted(c *placementv1alpha1.Copy) bool {
	return c.Status.Controller != nil && c.Status.Reason == ReasonAdoptionAccepted
}

// selectorOf reads the selector of a controller; one that is empty or broken
// matches nothing.
func selectorOf(kind workload.Kind, controller *unstructured.Unstructured) (labels.Selector, bool) {
	content := field(field(controller.Object, "spec"), "selector")
	if len(content) == 0 {
		return nil, false
	}
	if kind.LabelsSelector {
		set, _, err := unstructured.NestedStringMap(controller.Object, "spec", "selector")
		return labels.SelectorFromSet(set), err == nil
	}
	var s metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s) != nil {
		return nil, false
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	return selector, err == nil && !selector.Empty()
}

// controlled says that a controller of ours has the copy, adopted or not: how many
// replicas it has is then the controller's business.
func (p planner) controlled() bool {
	if p.Physical == nil || p.Owner == nil {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(p.Physical)
	if ref == nil {
		return false
	}
	_, ok := p.Owner(ref.UID)
	return ok
}

// adopter is the logical object whose controller below has taken the copy over;
// nil if none has, or if that changes nothing above.
func (p planner) adopter() *unstructured.Unstructured {
	if p.physical != physicalOurs || p.Owner == nil {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(p.Physical)
	if ref == nil {
		return nil
	}
	owner, ok := p.Owner(ref.UID)
	if !ok {
		return nil
	}
	adopting, ok := p.Kinds.ByKind(owner.GroupVersionKind().GroupKind())
	if !ok || !Adopts(adopting, owner, p.Ref.Kind, p.Logical, p.Target) {
		return nil
	}
	return owner
}

// adopted asks the server to note the adoption. What is below stays as it is: from
// now on it is the controller's.
func (p planner) adopted(by *unstructured.Unstructured) []Action {
	s := p.status(placementv1alpha1.CopyPending, ReasonAdopted, "a controller of the physical cluster has taken it over: "+by.GetKind()+" "+by.GetName())
	gvk := by.GroupVersionKind()
	kind, _ := p.Kinds.ByKind(gvk.GroupKind())
	s.Controller = &placementv1alpha1.ObjectReference{
		Group: gvk.Group, Version: gvk.Version, Resource: kind.Resource, Kind: gvk.Kind, Name: by.GetName(), UID: by.GetUID(),
	}
	return p.write(s, p.Logical.GetUID())
}
