package agent

import (
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// objectKey names a logical object that has a copy here.
type objectKey struct {
	Resource schema.GroupVersionResource
	Request  controller.Request
}

// String is for logs.
func (k objectKey) String() string {
	return k.Resource.GroupResource().String() + " " + k.Request.String()
}

// LogicalCluster makes the queue loop reconcile in the scope of the object's
// logical cluster.
func (k objectKey) LogicalCluster() logicalcluster.Name { return k.Request.Cluster }

func (k objectKey) ref(kind workload.Kind) syncer.Ref {
	return syncer.Ref{Kind: kind, Cluster: k.Request.Cluster, Namespace: k.Request.Namespace, Name: k.Request.Name}
}

// observationKey names an object that controllers below made, by its UID there.
type observationKey struct {
	Resource schema.GroupVersionResource
	UID      types.UID
}

// String is for logs.
func (k observationKey) String() string {
	return k.Resource.GroupResource().String() + " " + string(k.UID)
}

func keyOf(kind workload.Kind, obj *unstructured.Unstructured) objectKey {
	return objectKey{Resource: kind.GroupVersionResource(), Request: controller.RequestFor(obj)}
}

func keyOfMark(kind workload.Kind, m syncer.Mark) objectKey {
	r := controller.Request{Cluster: m.Cluster, Namespace: m.Namespace, Name: m.Name}
	if kind.Role == workload.Container {
		r.Namespace = ""
	}
	return objectKey{Resource: kind.GroupVersionResource(), Request: r}
}

// keyOfCopy is the object of a Copy; ok is false if no kind of ours is meant.
func keyOfCopy(kinds workload.Catalog, c *placementv1alpha1.Copy) (objectKey, bool) {
	o := c.Spec.Object
	kind, ok := kinds.ByResource(schema.GroupResource{Group: o.Group, Resource: o.Resource})
	if !ok {
		return objectKey{}, false
	}
	r := controller.Request{Cluster: logicalcluster.From(c), Namespace: c.Namespace, Name: o.Name}
	if kind.Role == workload.Container {
		r.Namespace = ""
	}
	return objectKey{Resource: kind.GroupVersionResource(), Request: r}, true
}

// keyOfNamespace is the Namespace of a logical namespace.
func keyOfNamespace(c logicalcluster.Name, name string) objectKey {
	return objectKey{Resource: namespaces, Request: controller.Request{Cluster: c, Name: name}}
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
