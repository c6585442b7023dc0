package controller

import (
	"context"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// Indexes that every informer of Metadata has.
const (
	// OwnerIndex finds the dependents of an owner under UIDKey(cluster, owner).
	OwnerIndex = "atoll.owner"
	// UIDIndex finds an object under UIDKey(cluster, UID).
	UIDIndex = "atoll.uid"
)

// UIDKey is the value of OwnerIndex and UIDIndex: "cluster|uid".
func UIDKey(c logicalcluster.Name, uid types.UID) string { return c.String() + "|" + string(uid) }

// Metadata holds the metadata of all objects of some resources, over all
// logical clusters, without type, managedFields and the last applied
// configuration. The set of resources is fixed.
type Metadata struct {
	resources []schema.GroupVersionResource
	informers map[schema.GroupVersionResource]*Informer[*metav1.PartialObjectMetadata]
	// plain holds, for each logical cluster, the annotations of the many objects
	// that have no other than its name: one map for all of them.
	plain sync.Map
}

// NewMetadata makes one informer for each resource; the indexers are added to
// each.
func NewMetadata(client metadata.Interface, resources []schema.GroupVersionResource, indexers map[string]func(*metav1.PartialObjectMetadata) []string) *Metadata {
	m := &Metadata{
		resources: slices.Clone(resources),
		informers: make(map[schema.GroupVersionResource]*Informer[*metav1.PartialObjectMetadata], len(resources)),
	}
	all := map[string]func(*metav1.PartialObjectMetadata) []string{OwnerIndex: ownerUIDs, UIDIndex: ownUID}
	for name, f := range indexers {
		all[name] = f
	}
	for _, gvr := range resources {
		m.informers[gvr] = NewInformer("metadata/"+gvr.GroupResource().String(), &metav1.PartialObjectMetadata{},
			Lists(client.Resource(gvr)), InformerOptions[*metav1.PartialObjectMetadata]{Transform: m.trim, Indexers: all})
	}
	if namespaces := m.informers[corev1.SchemeGroupVersion.WithResource("namespaces")]; namespaces != nil {
		namespaces.Handle(func(old, ns *metav1.PartialObjectMetadata) {
			if ns != nil {
				return
			}
			if c := logicalcluster.From(old); namespaces.CountCluster(c) == 0 { // it is going
				m.plain.Delete(c)
			}
		})
	}
	return m
}

// For returns the informer of a resource, nil if there is none.
func (m *Metadata) For(gvr schema.GroupVersionResource) *Informer[*metav1.PartialObjectMetadata] {
	return m.informers[gvr]
}

// Resources are the resources in the order given to NewMetadata.
func (m *Metadata) Resources() []schema.GroupVersionResource { return m.resources }

// Run runs all informers until ctx is done.
func (m *Metadata) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, i := range m.informers {
		all.Go(func() { i.Run(ctx) })
	}
	all.Wait()
}

// WaitForSync waits until all informers have synced.
func (m *Metadata) WaitForSync(ctx context.Context) error {
	for _, gvr := range m.resources {
		if err := m.informers[gvr].WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// trim is the transform of the informers.
func (m *Metadata) trim(obj runtime.Object) (*metav1.PartialObjectMetadata, error) {
	o, err := withoutManagedFields[*metav1.PartialObjectMetadata](obj)
	if err != nil {
		return nil, err
	}
	o.TypeMeta = metav1.TypeMeta{} // says PartialObjectMetadata, nothing else
	delete(o.Annotations, corev1.LastAppliedConfigAnnotation)
	if c := logicalcluster.From(o); !c.Empty() && len(o.Annotations) == 1 {
		shared, _ := m.plain.LoadOrStore(c, o.Annotations)
		o.Annotations = shared.(map[string]string)
	}
	return o, nil
}

func ownerUIDs(o *metav1.PartialObjectMetadata) []string {
	if len(o.OwnerReferences) == 0 {
		return nil
	}
	c := logicalcluster.From(o)
	values := make([]string, 0, len(o.OwnerReferences))
	for i := range o.OwnerReferences {
		values = append(values, UIDKey(c, o.OwnerReferences[i].UID))
	}
	return values
}

func ownUID(o *metav1.PartialObjectMetadata) []string {
	return []string{UIDKey(logicalcluster.From(o), o.UID)}
}
