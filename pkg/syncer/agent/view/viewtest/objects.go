package viewtest

import (
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Widgets are of a kind that the view does not have at the start; the servers do.
var Widgets = workload.Kind{
	GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"},
	Resource:         "widgets", Role: workload.Placed,
}

// Kind finds a kind; it panics for one that is neither placed nor observed.
func Kind(name string) workload.Kind {
	for _, k := range append([]workload.Kind{Widgets}, workload.Builtin().All()...) {
		if k.Kind == name {
			return k
		}
	}
	panic("no kind " + name)
}

// Object is a bare object.
func Object(kind, namespace, name string, uid types.UID) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(Kind(kind).GroupVersionKind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetUID(uid)
	return obj
}

// Logical is an object of the logical cluster with its targets.
func Logical(kind, namespace, name string, uid types.UID, targets string) *unstructured.Unstructured {
	obj := Object(kind, namespace, name, uid)
	obj.SetAnnotations(map[string]string{
		logicalcluster.AnnotationKey: Cluster.String(), placementv1alpha1.TargetsAnnotation: targets,
	})
	return obj
}

// Deleting marks an object as being deleted, kept by finalizers.
func Deleting(obj *unstructured.Unstructured, finalizers ...string) *unstructured.Unstructured {
	obj.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
	obj.SetFinalizers(finalizers)
	return obj
}

// Namespace is the Namespace web, which has its name below.
func Namespace() *unstructured.Unstructured {
	obj := Logical("Namespace", "", "web", "n", `{"east":{}}`)
	annotations := obj.GetAnnotations()
	annotations[placementv1alpha1.PhysicalNamespaceAnnotation] = PhysicalSpace
	obj.SetAnnotations(annotations)
	return obj
}

// CopyOf is what is applied for a logical object, with a UID.
func CopyOf(logical *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	obj, _ := syncer.Transform(logical, syncer.Placing{
		Ref: syncer.Ref{
			Kind: Kind(logical.GetKind()), Cluster: Cluster, Namespace: logical.GetNamespace(), Name: logical.GetName(),
		},
		ControlPlane: ControlPlane, Namespace: PhysicalSpace,
	})
	obj.SetUID(uid)
	return obj
}

// Made is what a controller below made for an owner.
func Made(kind, name string, uid, owner types.UID) *unstructured.Unstructured {
	obj := Object(kind, PhysicalSpace, name, uid)
	obj.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: ControlPlane})
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Owner", Name: "owner", UID: owner, Controller: ptr.To(true)}})
	return obj
}

// Mirror is a Pod in the logical cluster that mirrors one below.
func Mirror(name string, uid, below types.UID) *unstructured.Unstructured {
	return Logical("Pod", "web", name, uid, `{"east":{"state":"Observed","uid":"`+string(below)+`"}}`)
}

// Copy is the record of an object.
func Copy(logical *unstructured.Unstructured, status placementv1alpha1.CopyStatus) *placementv1alpha1.Copy {
	kind := Kind(logical.GetKind())
	ref := view.KeyOf(kind, logical).Ref(kind)
	c := &placementv1alpha1.Copy{Status: status}
	c.Namespace, c.Name, c.UID = ref.LogicalNamespace(), ref.CopyName(Target), "copy-"+logical.GetUID()
	c.Annotations = map[string]string{logicalcluster.AnnotationKey: Cluster.String()}
	c.Spec.PhysicalCluster = Target
	c.Spec.Object = placementv1alpha1.ObjectReference{
		Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Kind: kind.Kind, Name: logical.GetName(), UID: logical.GetUID(),
	}
	return c
}

// ManifestOf carries an object, of the name of it and in the namespace addons of root.
func ManifestOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	m := Logical("Manifest", "addons", object.GetName(), "m-"+types.UID(object.GetName()), `{"east":{}}`)
	annotations := m.GetAnnotations()
	annotations[logicalcluster.AnnotationKey] = scope.Root.String()
	m.SetAnnotations(annotations)
	m.Object["spec"] = map[string]any{"removal": "Delete", "object": object.DeepCopy().Object}
	return m
}

// Applied is what is below of a Manifest.
func Applied(manifest *unstructured.Unstructured) *unstructured.Unstructured {
	kind := Kind("Manifest")
	obj, _ := syncer.Transform(manifest, syncer.Placing{Ref: view.KeyOf(kind, manifest).Ref(kind), ControlPlane: ControlPlane})
	obj.SetUID("below-" + types.UID(obj.GetName()))
	return obj
}

// RecordOf is the Copy of a Manifest, of which the resource is known.
func RecordOf(manifest *unstructured.Unstructured, resource string) *placementv1alpha1.Copy {
	named := syncer.CarriedName(syncer.Input{Logical: manifest})
	named.Resource = resource
	c := Copy(manifest, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, Carried: named, PhysicalUID: "below-" + types.UID(named.Name)})
	c.Annotations[logicalcluster.AnnotationKey] = scope.Root.String()
	return c
}
