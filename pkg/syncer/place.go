package syncer

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Place is the physical namespace of an object, by its record: invariant 10.
type Place struct {
	// Name is empty as long as none is recorded.
	Name string
	// UID is that of the Namespace which the physical one has to be the copy of; empty if
	// that is not known.
	UID types.UID
	// Disputed says that the Namespace of the object that the Copy is about names another
	// one: the three are watched one by one, and one is older than a restored backup.
	Disputed bool
}

// PlaceOf finds where the copy of an object is, or goes. namespace is the Namespace of the
// object, made the physical object with the UID that the Copy records; each is nil if it is
// not seen.
//
//	made   the Copy     the Namespace  the name is that of
//	seen   any          any            made: nothing ever moves
//	not    with a name  any            the Copy
//	not    without      any            the Namespace
//
// Nothing is made before the Copy has the name, which the server accepts if the Namespace
// has it, and never changes: so nothing that was made for the object is elsewhere, wherever
// the Namespace points by now. That is what an acknowledgement rests on.
func PlaceOf(in Input, namespace, made *unstructured.Unstructured) Place {
	var place Place
	if namespace != nil {
		place = Place{Name: PhysicalName(namespace), UID: namespace.GetUID()}
	}
	named := place.Name
	switch {
	case made != nil:
		place.Name = PhysicalNamespaceOf(made)
	case in.Copy != nil && in.Copy.Status.PhysicalNamespace != "":
		place.Name = in.Copy.Status.PhysicalNamespace
	}
	current := in.Logical != nil && in.Copy != nil && in.Copy.Spec.Object.UID == in.Logical.GetUID()
	place.Disputed = current && named != "" && named != place.Name
	return place
}

// In says what is known of the place: below is what is known under the copy of the
// Namespace, nil if that is nothing.
//
//	the place  below                      then
//	disputed   any                        Disputed
//	else       nothing, or another name   Absent
//	           being deleted              Terminating
//	           marked with another UID    NotOurs
//	           else                       Ready
func (p Place) In(below *unstructured.Unstructured) Namespace {
	state := NamespaceReady
	switch {
	case p.Disputed:
		state = NamespaceDisputed
	case below == nil || below.GetName() != p.Name:
		state = NamespaceAbsent
	case below.GetDeletionTimestamp() != nil:
		state = NamespaceTerminating
	case p.UID != "" && below.GetAnnotations()[placementv1alpha1.UIDAnnotation] != string(p.UID):
		state = NamespaceNotOurs
	}
	return Namespace{Name: p.Name, State: state}
}

// PlaceOfMirror is the physical namespace in which what is mirrored is to be looked for;
// empty if it may be in any. namespace is nil if it is not seen.
//
//	the Namespace                  where
//	is not seen, or without name   anywhere
//	is no older than the mirror    anywhere: that was made in one before it, which a backup
//	                               may have brought back
//	else                           in the one that it names
func PlaceOfMirror(mirror, namespace *unstructured.Unstructured) string {
	if namespace == nil || !namespace.GetCreationTimestamp().Time.Before(mirror.GetCreationTimestamp().Time) {
		return ""
	}
	return PhysicalName(namespace)
}

// KeepsNamespace says that a Copy of something in a namespace keeps the physical one with a
// name: its object may still be there, or be made there.
func KeepsNamespace(c *placementv1alpha1.Copy, name string) bool {
	s := c.Status
	return s.State != placementv1alpha1.CopyRemoved && (s.PhysicalNamespace == "" || s.PhysicalNamespace == name)
}

// NamespaceFailed is why an object cannot be put into a namespace whose copy is c; nil if
// that did not fail.
func NamespaceFailed(c *placementv1alpha1.Copy) *Failure {
	if c.Status.State != placementv1alpha1.CopyFailed {
		return nil
	}
	return &Failure{Reason: "Namespace" + c.Status.Reason, Message: "the physical namespace: " + c.Status.Message}
}

// HasNamespace says that a Copy records that a namespace is on the physical cluster, of
// which there should be one that answers. One that is being deleted there may be gone at any
// moment, also where it is to come back: that says nothing of the physical cluster.
func HasNamespace(c *placementv1alpha1.Copy) bool {
	s := c.Status
	return ofNamespace(c) && s.PhysicalUID != "" && s.Reason != placementv1alpha1.ReasonTerminating &&
		s.State != placementv1alpha1.CopyRemoving && s.State != placementv1alpha1.CopyRemoved
}

// ofNamespace says that a Copy is that of a Namespace.
func ofNamespace(c *placementv1alpha1.Copy) bool {
	return c.Spec.Object.Group == "" && c.Spec.Object.Resource == "namespaces"
}

// Scaled says that one of the autoscalers of an object is on the target, too.
func Scaled(target string, scalers []*unstructured.Unstructured) bool {
	for _, scaler := range scalers {
		entry, ok := stamp.TargetsOf(scaler.GetAnnotations())[target]
		if ok && entry.Keeps() && scaler.GetDeletionTimestamp() == nil {
			return true
		}
	}
	return false
}

// ScalesFromNothing says that one of the autoscalers of an object makes replicas of it where it wants none.
func ScalesFromNothing(scalers []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(scalers, func(scaler *unstructured.Unstructured) bool {
		return scaler.GetDeletionTimestamp() == nil && workload.ScalesFromNothing(scaler.GroupVersionKind().GroupKind(), scaler.Object)
	})
}

// ScalerWaits says that one of the autoscalers of an object is to come to the target.
func ScalerWaits(target string, scalers []*unstructured.Unstructured) bool {
	for _, scaler := range scalers {
		entry, ok := stamp.TargetsOf(scaler.GetAnnotations())[target]
		if ok && !entry.Keeps() && scaler.GetDeletionTimestamp() == nil {
			return true
		}
	}
	return false
}
