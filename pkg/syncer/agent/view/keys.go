package view

import (
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ObjectKey names a logical object that has a copy here.
type ObjectKey struct {
	Resource schema.GroupVersionResource
	Request  controller.Request
}

// String is for logs.
func (k ObjectKey) String() string {
	return k.Resource.GroupResource().String() + " " + k.Request.String()
}

// LogicalCluster makes the queue loop reconcile in the scope of the object's
// logical cluster.
func (k ObjectKey) LogicalCluster() logicalcluster.Name { return k.Request.Cluster }

// Ref names the object for package syncer.
func (k ObjectKey) Ref(kind workload.Kind) syncer.Ref {
	return syncer.Ref{Kind: kind, Cluster: k.Request.Cluster, Namespace: k.Request.Namespace, Name: k.Request.Name}
}

// MirrorKey names an object that controllers below made, by its UID there.
type MirrorKey struct {
	Resource schema.GroupVersionResource
	UID      types.UID
}

// String is for logs.
func (k MirrorKey) String() string {
	return k.Resource.GroupResource().String() + " " + string(k.UID)
}

// KeyOf names an object of the control plane.
func KeyOf(kind workload.Kind, obj *unstructured.Unstructured) ObjectKey {
	return ObjectKey{Resource: kind.GroupVersionResource(), Request: controller.RequestFor(obj)}
}

// KeyOfMark is the object whose copy carries the mark.
func KeyOfMark(kind workload.Kind, m syncer.Mark) ObjectKey {
	r := controller.Request{Cluster: m.Cluster, Namespace: m.Namespace, Name: m.Name}
	if kind.Role == workload.Container {
		r.Namespace = ""
	}
	return ObjectKey{Resource: kind.GroupVersionResource(), Request: r}
}

// KeyOfNamespace is the Namespace of a logical namespace.
func KeyOfNamespace(c logicalcluster.Name, name string) ObjectKey {
	return ObjectKey{Resource: Namespaces, Request: controller.Request{Cluster: c, Name: name}}
}

// Namespaces is the resource.
var Pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// Namespaces is their resource.
var Namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
