package view

import (
	"cmp"
	"iter"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// PlacedKind is the kind of a resource of which objects have copies.
func (v *View) PlacedKind(gvr schema.GroupVersionResource) (workload.Kind, bool) {
	return v.now.Load().placed(gvr)
}

// IsPlaced says that objects of the resource have copies.
func (v *View) IsPlaced(gvr schema.GroupVersionResource) bool {
	_, ok := v.now.Load().placed(gvr)
	return ok
}

// ObservedKind is the kind of a resource of which objects are mirrored.
func (v *View) ObservedKind(gvr schema.GroupVersionResource) (workload.Kind, bool) {
	return v.now.Load().observed(gvr)
}

// ObservedKinds are those of which objects are mirrored, owners first.
func (v *View) ObservedKinds() []workload.Kind {
	now := v.now.Load()
	return slices.DeleteFunc(slices.Clone(now.kinds.Observed()), func(k workload.Kind) bool {
		_, ok := now.observed(k.GroupVersionResource())
		return !ok
	})
}

// Kinds are those of now, shown already or not.
func (v *View) Kinds() workload.Catalog { return v.now.Load().kinds }

// Served says that the resource is watched below.
func (v *View) Served(gvr schema.GroupVersionResource) bool { return v.now.Load().below(gvr) != nil }

// KeyOfCopy is the object of a Copy; ok is false if no kind of ours is meant.
func (v *View) KeyOfCopy(c *placementv1alpha1.Copy) (ObjectKey, bool) {
	o := c.Spec.Object
	kind, ok := v.Kinds().ByResource(schema.GroupResource{Group: o.Group, Resource: o.Resource})
	if !ok {
		return ObjectKey{}, false
	}
	r := controller.Request{Cluster: logicalcluster.From(c), Namespace: c.Namespace, Name: o.Name}
	if kind.Role == workload.Container {
		r.Namespace = ""
	}
	return ObjectKey{Resource: kind.GroupVersionResource(), Request: r}, true
}

// CopyRequest names the Copy of an object.
func (v *View) CopyRequest(key ObjectKey) controller.Request {
	return controller.Request{
		Cluster: key.Request.Cluster, Namespace: cmp.Or(key.Request.Namespace, key.Request.Name), // a Namespace is in itself
		Name: syncer.CopyName(key.Resource.GroupResource(), key.Request.Name, v.Target),
	}
}

// Object is an object of the control plane, as the target sees it.
func (v *View) Object(key ObjectKey) (*unstructured.Unstructured, bool) {
	if i := v.now.Load().above(key.Resource); i != nil {
		return i.Get(key.Request)
	}
	return nil, false
}

// Objects are all of a resource; each is in memory while the walk is at it.
func (v *View) Objects(gvr schema.GroupVersionResource) iter.Seq[*unstructured.Unstructured] {
	if i := v.now.Load().above(gvr); i != nil {
		return i.All()
	}
	return none
}

// none is a walk over nothing.
func none(func(*unstructured.Unstructured) bool) {}

// ObjectsIn are those of a namespace.
func (v *View) ObjectsIn(gvr schema.GroupVersionResource, c logicalcluster.Name, namespace string) []*unstructured.Unstructured {
	if i := v.now.Load().above(gvr); i != nil {
		return i.ListNamespace(c, namespace)
	}
	return nil
}

// Namespace is a Namespace of the control plane.
func (v *View) Namespace(c logicalcluster.Name, name string) (*unstructured.Unstructured, bool) {
	return v.Object(KeyOfNamespace(c, name))
}

// NamespaceOf is the Namespace whose copy is the physical namespace; nil if there is
// none.
func (v *View) NamespaceOf(physical string) *unstructured.Unstructured {
	return first(v.now.Load().above(Namespaces).ByIndex(byPhysicalName, physical))
}

// ClustersBelow are the logical clusters with namespaces on the physical cluster; ok is false
// if that is not known.
func (v *View) ClustersBelow() (clusters map[logicalcluster.Name]bool, ok bool) {
	i := v.now.Load().below(Namespaces)
	if i == nil {
		return nil, false
	}
	clusters = map[logicalcluster.Name]bool{}
	for obj := range i.All() {
		clusters[logicalcluster.Name(obj.GetAnnotations()[placementv1alpha1.LogicalClusterAnnotation])] = true
	}
	return clusters, true
}

// NamespacesOf are the names of the physical namespaces of a logical cluster.
func (v *View) NamespacesOf(cluster logicalcluster.Name) (names []string) {
	if i := v.now.Load().below(Namespaces); i != nil {
		for _, obj := range i.ByIndex(byCluster, cluster.String()) {
			names = append(names, obj.GetName())
		}
	}
	return names
}

// NamespacesBelow are the names of the physical namespaces of logical clusters.
func (v *View) NamespacesBelow() []string {
	i := v.now.Load().below(Namespaces)
	if i == nil {
		return nil
	}
	var names []string
	for obj := range i.All() {
		names = append(names, obj.GetName())
	}
	return names
}

// DoubtNamespaces has the Namespaces compared with the server's: one of them is gone.
func (v *View) DoubtNamespaces() { v.now.Load().above(Namespaces).Doubt() }

// Copy is the record of an object.
func (v *View) Copy(key ObjectKey) (*placementv1alpha1.Copy, bool) {
	informed, found := v.copies.Get(v.CopyRequest(key))
	return v.WrittenCopies.Newest(key, informed, found)
}

// CopiesIn are the records of the objects in a namespace, and of itself.
func (v *View) CopiesIn(c logicalcluster.Name, namespace string) map[ObjectKey]*placementv1alpha1.Copy {
	all := map[ObjectKey]*placementv1alpha1.Copy{}
	for _, informed := range v.copies.ListNamespace(c, namespace) {
		key, ok := v.KeyOfCopy(informed)
		if !ok {
			key = recordedKey(informed) // of a kind that is gone: it is there all the same
		}
		if c, found := v.WrittenCopies.Newest(key, informed, true); found {
			all[key] = c
		}
	}
	return all
}

// CountNamespaces counts those that should be on the physical cluster, by their Copies.
func (v *View) CountNamespaces() int {
	n := 0
	for c := range v.copies.All() {
		if syncer.HasNamespace(c) {
			n++
		}
	}
	return n
}

// Scalers are the autoscalers of an object.
func (v *View) Scalers(key ObjectKey) []*unstructured.Unstructured {
	var scalers []*unstructured.Unstructured
	scaled, _ := v.PlacedKind(key.Resource)
	for _, kind := range v.Kinds().Kinds() {
		if i := v.now.Load().above(kind.GroupVersionResource()); len(kind.Scales) > 0 && i != nil {
			scalers = append(scalers, i.ByIndex(byScaled, scaledValue(key.Request, scaled.Kind, key.Request.Name))...)
		}
	}
	return scalers
}

// Physical is an object of the physical cluster, as its watch has it.
func (v *View) Physical(gvr schema.GroupVersionResource, r controller.Request) (*unstructured.Unstructured, bool) {
	if i := v.now.Load().below(gvr); i != nil {
		return i.Get(r)
	}
	return nil, false
}

// CopyBelow is what is below under the name of a copy, which is that of key or was.
func (v *View) CopyBelow(key ObjectKey, r controller.Request) (*unstructured.Unstructured, bool) {
	informed, found := v.Physical(key.Resource, r)
	return v.WrittenBelow.Newest(key, informed, found)
}

// PhysicalByUID is the object of the physical cluster with a UID; nil if the watch has
// none.
func (v *View) PhysicalByUID(gvr schema.GroupVersionResource, uid types.UID) *unstructured.Unstructured {
	if i := v.now.Load().below(gvr); i != nil {
		return first(i.ByIndex(byUID, string(uid)))
	}
	return nil
}

// LeadsNowhere says of a Service of a physical namespace that it is known to lead to no pod.
func (v *View) LeadsNowhere(physical, name string) bool {
	now := v.now.Load()
	if now.below(Services) == nil || now.below(EndpointSlices) == nil {
		return false
	}
	service, found := v.Physical(Services, controller.Request{Namespace: physical, Name: name})
	if !found {
		return syncer.LeadsNowhere(nil, nil)
	}
	return syncer.LeadsNowhere(service, v.Owned(EndpointSlices, service.GetUID()))
}

// LedBy are the objects that say whether a Service of a physical namespace leads anywhere: it is one itself, and may not be
// in view there yet.
func (v *View) LedBy(physical, name string) []ObjectKey {
	namespace := v.NamespaceOf(physical)
	if namespace == nil {
		return nil
	}
	keys := []ObjectKey{{Resource: Services, Request: controller.Request{Cluster: logicalcluster.From(namespace), Namespace: namespace.GetName(), Name: name}}}
	for _, kind := range v.Kinds().Kinds() {
		i := v.now.Load().below(kind.GroupVersionResource())
		if kind.Semantics != workload.IngressSemantics || i == nil {
			continue
		}
		for _, obj := range i.ByIndex(byService, physical+"/"+name) {
			if mark, ok := syncer.MarkOf(kind.GroupResource(), obj); ok {
				keys = append(keys, KeyOfMark(kind, mark))
			}
		}
	}
	return keys
}

// PhysicalIn are the objects of a physical namespace.
func (v *View) PhysicalIn(gvr schema.GroupVersionResource, namespace string) []*unstructured.Unstructured {
	if i := v.now.Load().below(gvr); i != nil {
		return i.ListNamespace("", namespace)
	}
	return nil
}

// PrecedesBelow says that a version that the physical cluster answered with is of before something that the view has of
// the resource.
func (v *View) PrecedesBelow(gvr schema.GroupVersionResource, version string) bool {
	i := v.now.Load().below(gvr)
	return i != nil && i.Precedes(version)
}

// Marked is what is below with the mark of an object, in any incarnation.
func (v *View) Marked(key ObjectKey) []*unstructured.Unstructured {
	if i := v.now.Load().below(key.Resource); i != nil {
		return i.ByIndex(byMark, key.Request.String())
	}
	return nil
}

// WithHosts are the objects below that have one of some host names, or one that is contested
// with it.
func (v *View) WithHosts(gvr schema.GroupVersionResource, hosts []string) []*unstructured.Unstructured {
	return withHosts(v.now.Load().below(gvr), hosts)
}

// WantHost are the objects of the control plane that have a host name, or one that is contested
// with it.
func (v *View) WantHost(gvr schema.GroupVersionResource, host string) []*unstructured.Unstructured {
	return withHosts(v.now.Load().above(gvr), []string{host})
}

func withHosts(i *objects, hosts []string) (found []*unstructured.Unstructured) {
	if i == nil {
		return nil
	}
	for _, h := range hosts {
		for _, query := range syncer.HostQueries(h) {
			found = append(found, i.ByIndex(byHost, query)...)
		}
	}
	return found
}

// Owned are the objects of a resource that the one with a UID owns below.
func (v *View) Owned(gvr schema.GroupVersionResource, owner types.UID) []*unstructured.Unstructured {
	if i := v.now.Load().below(gvr); i != nil {
		return i.ByIndex(byOwner, string(owner))
	}
	return nil
}

// Gone: the physical cluster was asked, and answered that obj does not exist. That is
// believed over its watch.
func (v *View) Gone(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) {
	if i := v.now.Load().below(gvr); i != nil && obj != nil {
		i.Gone(controller.RequestFor(obj), obj.GetUID())
	}
}

// Event is an event of the physical cluster about something in one of our namespaces.
func (v *View) Event(r controller.Request) (*unstructured.Unstructured, bool) { return v.events.Get(r) }

// First is the one with the smallest name: of several, everybody means the same. Nil if
// there is none.
func First(objs []*unstructured.Unstructured) *unstructured.Unstructured { return first(objs) }

func first(objs []*unstructured.Unstructured) *unstructured.Unstructured {
	if len(objs) == 0 {
		return nil
	}
	return slices.MinFunc(objs, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
