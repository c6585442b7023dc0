package syncer

import (
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Keys on copies that only this package reads; the others are with the API
// types.
const (
	// ObjectAnnotation names the object that this one is the copy of, as
	// <resource>.<group>/<name>. Controllers copy annotations from owners to
	// what they make (a ReplicaSet has those of its Deployment): an object whose
	// annotation names another one is no copy.
	ObjectAnnotation = "atoll.dev/object"
	// CarriedAnnotation says which object a Manifest carries: one that has it, and is another, got it
	// from its owner.
	CarriedAnnotation = "atoll.dev/carried"
	// AppliedAnnotation is the digest of what was applied last.
	AppliedAnnotation = "atoll.dev/applied"
)

// Ref names a logical object.
type Ref struct {
	Kind      workload.Kind
	Cluster   logicalcluster.Name
	Namespace string // empty for a Namespace
	Name      string
}

// IsNamespace says that the object is a Namespace.
func (r Ref) IsNamespace() bool { return r.Kind.Role == workload.Container }

// LogicalNamespace is the namespace of the object, which for a Namespace is
// itself. Copies are there.
func (r Ref) LogicalNamespace() string {
	if r.IsNamespace() {
		return r.Name
	}
	return r.Namespace
}

// CopyName is the name of the Copy for a target.
func (r Ref) CopyName(target string) string {
	return CopyName(r.Kind.GroupResource(), r.Name, target)
}

// Mark is what a copy says about itself: whose it is. Invariant 9 rests on it.
type Mark struct {
	ControlPlane string
	Cluster      logicalcluster.Name
	Namespace    string // the logical one
	Name         string // of the logical object
	UID          types.UID
}

// MarkOf reads the mark of an object of a physical cluster; ok is false if it
// is no copy: it carries no complete mark, or one that came with the labels and
// annotations of its owner.
func MarkOf(gr schema.GroupResource, obj metav1.Object) (m Mark, ok bool) {
	a := obj.GetAnnotations()
	name, isObject := cutObject(a[ObjectAnnotation], gr)
	m = Mark{
		ControlPlane: obj.GetLabels()[marking(gr)],
		Cluster:      logicalcluster.Name(a[placementv1alpha1.LogicalClusterAnnotation]),
		Namespace:    a[placementv1alpha1.NamespaceAnnotation],
		Name:         name,
		UID:          types.UID(a[placementv1alpha1.UIDAnnotation]),
	}
	complete := isObject && m.ControlPlane != "" && m.Cluster != "" && m.Namespace != "" && m.UID != ""
	named := m.Name == obj.GetName()
	if gr == manifests { // what it carries has another name, and passes its annotations on as an owner may
		named = a[CarriedAnnotation] != "" && a[CarriedAnnotation] == identity(obj)
	}
	if !complete || gr.Resource != "namespaces" && !named {
		return Mark{}, false
	}
	return m, true
}

// identity is how an object is named that a Manifest carries: <kind>.<group>/<namespace>/<name>. It is empty if
// the kind is not known.
func identity(obj metav1.Object) string {
	o, ok := obj.(runtime.Object)
	if !ok || o.GetObjectKind().GroupVersionKind().Kind == "" {
		return ""
	}
	return o.GetObjectKind().GroupVersionKind().GroupKind().String() + "/" + obj.GetNamespace() + "/" + obj.GetName()
}

// markFor is the mark of the copies of ref.
func markFor(controlPlane string, ref Ref, uid types.UID) Mark {
	return Mark{ControlPlane: controlPlane, Cluster: ref.Cluster, Namespace: ref.LogicalNamespace(), Name: ref.Name, UID: uid}
}

// sameObject says that both marks name the same object, in any incarnation.
func (m Mark) sameObject(other Mark) bool {
	m.UID, other.UID = "", ""
	return m == other
}

// put writes the mark into labels and annotations.
func (m Mark) put(gr schema.GroupResource, labels, annotations map[string]any) {
	labels[marking(gr)] = m.ControlPlane
	annotations[placementv1alpha1.LogicalClusterAnnotation] = m.Cluster.String()
	annotations[placementv1alpha1.NamespaceAnnotation] = m.Namespace
	annotations[placementv1alpha1.UIDAnnotation] = string(m.UID)
	annotations[ObjectAnnotation] = gr.String() + "/" + m.Name
}

func cutObject(value string, gr schema.GroupResource) (name string, ok bool) {
	prefix := gr.String() + "/"
	if len(value) <= len(prefix) || value[:len(prefix)] != prefix {
		return "", false
	}
	return value[len(prefix):], true
}
