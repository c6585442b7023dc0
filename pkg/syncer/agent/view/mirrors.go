package view

import (
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Mirror is the object of the control plane that was made as the mirror of one below.
func (v *View) Mirror(key MirrorKey) (*unstructured.Unstructured, bool) {
	informed := v.informedMirror(key)
	return v.WrittenMirrors.Newest(key, informed, informed != nil)
}

// Made is what the physical object with a UID owns there, with what mirrors it.
func (v *View) Made(owner types.UID) []syncer.Made {
	var made []syncer.Made
	for _, kind := range v.ObservedKinds() {
		if kind.PodTemplate == nil {
			continue
		}
		gvr := kind.GroupVersionResource()
		for _, obj := range v.Owned(gvr, owner) {
			mirror, _ := v.Mirror(MirrorKey{Resource: gvr, UID: obj.GetUID()})
			made = append(made, syncer.Made{Kind: kind, Physical: obj, Mirror: mirror})
		}
	}
	return made
}

// DoubtMirrors has the mirrors of a kind compared with the server's: it has one that the
// watch lacks.
func (v *View) DoubtMirrors(gvr schema.GroupVersionResource) {
	if i := v.now.Load().above(gvr); i != nil {
		i.Doubt()
	}
}

// ClusterOf is the logical cluster of what is mirrored, or was; empty if that is not known.
func (v *View) ClusterOf(key MirrorKey) logicalcluster.Name {
	if obj := v.PhysicalByUID(key.Resource, key.UID); obj != nil {
		return v.ClusterIn(obj.GetNamespace())
	}
	if mirror := v.informedMirror(key); mirror != nil {
		return logicalcluster.From(mirror)
	}
	return ""
}

// ClusterIn is the logical cluster of a physical namespace; empty if that is not known.
func (v *View) ClusterIn(physical string) logicalcluster.Name {
	if namespace := v.NamespaceOf(physical); namespace != nil {
		return logicalcluster.From(namespace)
	}
	return ""
}

// informedMirror is the same, as far as the watch has it.
func (v *View) informedMirror(key MirrorKey) *unstructured.Unstructured {
	if i := v.now.Load().above(key.Resource); i != nil {
		return syncer.FirstMirror(i.ByIndex(byEntryUID, string(key.UID)))
	}
	return nil
}

// IsMirrored says that the watch has the mirror of an object below.
func (v *View) IsMirrored(gvr schema.GroupVersionResource, uid types.UID) bool {
	return v.informedMirror(MirrorKey{Resource: gvr, UID: uid}) != nil
}

// MirrorOf finds what stands above for an object below, whatever its kind: the object
// of a copy, or the mirror of what a controller made.
func (v *View) MirrorOf(uid types.UID) (*unstructured.Unstructured, bool) {
	for _, kind := range v.Kinds().Kinds() {
		gvr := kind.GroupVersionResource()
		obj := v.PhysicalByUID(gvr, uid)
		if obj == nil {
			continue
		}
		if mark, ok := syncer.MarkOf(gvr.GroupResource(), obj); ok {
			if logical, found := v.Object(KeyOfMark(kind, mark)); found && logical.GetUID() == mark.UID {
				return logical, true
			}
		}
		break
	}
	for _, kind := range v.ObservedKinds() {
		if obj, ok := v.Mirror(MirrorKey{Resource: kind.GroupVersionResource(), UID: uid}); ok {
			return obj, true
		}
	}
	return nil, false
}

// Owner is MirrorOf as the owner of something.
func (v *View) Owner(uid types.UID) (syncer.Owner, bool) {
	obj, ok := v.MirrorOf(uid)
	if !ok {
		return syncer.Owner{}, false
	}
	return syncer.OwnerOf(v.Target, obj), true
}

// UIDAbove is the UID of MirrorOf.
func (v *View) UIDAbove(uid types.UID) (types.UID, bool) {
	obj, ok := v.MirrorOf(uid)
	if !ok {
		return "", false
	}
	return obj.GetUID(), true
}

// IsCopy says that an object below is the copy of one above, and is not to be mirrored.
func (v *View) IsCopy(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) bool {
	kind, placed := v.PlacedKind(gvr)
	mark, marked := syncer.MarkOf(gvr.GroupResource(), obj)
	if placed && !marked && kind.IsClaim() {
		return v.wasMirrored(gvr, obj)
	}
	if !placed || !marked {
		return false
	}
	key := KeyOfMark(kind, mark)
	_, recorded := v.Copy(key)
	logical, _ := v.Object(key)
	return syncer.IsCopy(syncer.Marked{
		Mark: mark, Target: v.Target, Claim: kind.IsClaim(), Recorded: recorded, Logical: logical,
		Mirrored: v.IsMirrored(gvr, obj.GetUID()),
	})
}

// wasMirrored says that a claim below without a mark is about to get one: it was mirrored, and is a
// copy now.
func (v *View) wasMirrored(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) bool {
	namespace := v.NamespaceOf(obj.GetNamespace())
	if namespace == nil {
		return false
	}
	above, ok := v.Object(ObjectKey{Resource: gvr, Request: controller.Request{
		Cluster: logicalcluster.From(namespace), Namespace: namespace.GetName(), Name: obj.GetName(),
	}})
	return ok && syncer.WasMirrored(v.Target, above, obj.GetUID())
}

// KindOfOrphan is the kind of what is claimed; ok is false if it is none of
// ours.
func (v *View) KindOfOrphan(o *fleetv1alpha1.Orphan) (workload.Kind, bool) {
	return syncer.KindOfOrphan(v.Kinds(), o)
}

// KeyOfClaim is the object that an Orphan claims to be the copy of.
func (v *View) KeyOfClaim(o *fleetv1alpha1.Orphan) (ObjectKey, bool) {
	kind, ok := v.KindOfOrphan(o)
	if !ok {
		return ObjectKey{}, false
	}
	ref := syncer.ClaimOf(kind, o)
	return ObjectKey{
		Resource: kind.GroupVersionResource(),
		Request:  controller.Request{Cluster: ref.Cluster, Namespace: ref.Namespace, Name: ref.Name},
	}, true
}

// Orphan finds one by name.
func (v *View) Orphan(r controller.Request) (*fleetv1alpha1.Orphan, bool) { return v.orphans.Get(r) }

// Orphans are all that are listed.
func (v *View) Orphans() []*fleetv1alpha1.Orphan { return v.orphans.List() }

// OrphansByUID are those of a physical object.
func (v *View) OrphansByUID(uid types.UID) []*fleetv1alpha1.Orphan {
	return v.orphans.ByIndex(byUID, string(uid))
}

// OrphansByClaim are those that claim to be the copy of an object.
func (v *View) OrphansByClaim(key ObjectKey) []*fleetv1alpha1.Orphan {
	return v.orphans.ByIndex(byClaim, key.String())
}

// OrphanOrder is the order for a physical object that is listed.
func (v *View) OrphanOrder(uid types.UID) (order fleetv1alpha1.OrphanOrder, listed bool) {
	for _, o := range v.OrphansByUID(uid) {
		return o.Spec.Order, true
	}
	return "", false
}
