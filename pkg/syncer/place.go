package syncer

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Place is the physical namespace of an object, by its record: invariant 10.
type Place struct {
	// Name is empty as long as none is recorded.
	Name string
	// UID is that of the Namespace which the physical one has to be the copy of; empty if
	// that is not known.
	UID types.UID
}

// PlaceOf finds the recorded name: for an object that shall be here on its Namespace,
// for one that was here in its Copy. namespace is nil if it is not seen.
//
//	Copy                            Namespace   the name is that of
//	of the object, with a name      has a name  the Namespace
//	of another one, with a name     any         the Copy
//	with a name, and no object      any         the Copy
//	any, with a name                has none    the Copy
//	none, or without a name         any         the Namespace
func PlaceOf(in Input, namespace *unstructured.Unstructured) Place {
	var place Place
	if namespace != nil {
		place = Place{Name: PhysicalName(namespace), UID: namespace.GetUID()}
	}
	current := in.Logical != nil && in.Copy != nil && in.Copy.Spec.Object.UID == in.Logical.GetUID()
	if in.Copy != nil && in.Copy.Status.PhysicalNamespace != "" && (!current || place.Name == "") {
		place.Name = in.Copy.Status.PhysicalNamespace
	}
	return place
}

// In says what is known of the place: below is what is known under the copy of the
// Namespace, nil if that is nothing.
//
//	below                      then
//	nothing, or another name   Absent
//	being deleted              Terminating
//	marked with another UID    NotOurs
//	else                       Ready
func (p Place) In(below *unstructured.Unstructured) Namespace {
	state := NamespaceReady
	switch {
	case below == nil || below.GetName() != p.Name:
		state = NamespaceAbsent
	case below.GetDeletionTimestamp() != nil:
		state = NamespaceTerminating
	case p.UID != "" && below.GetAnnotations()[placementv1alpha1.UIDAnnotation] != string(p.UID):
		state = NamespaceNotOurs
	}
	return Namespace{Name: p.Name, State: state}
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
// which there should be one that answers.
func HasNamespace(c *placementv1alpha1.Copy) bool {
	s := c.Status
	return ofNamespace(c) && s.PhysicalUID != "" &&
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
		if ok && entry.State == placementv1alpha1.TargetSync && scaler.GetDeletionTimestamp() == nil {
			return true
		}
	}
	return false
}
