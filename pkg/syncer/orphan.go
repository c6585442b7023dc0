package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ReasonOrphanInTheWay is the failure of a copy whose place an orphan has of which
// an admin has not said that it may go, or be taken over.
const ReasonOrphanInTheWay = "OrphanInTheWay"

// OrphanName is the name of the Orphan for an object of a physical cluster.
func OrphanName(target string, uid types.UID) string {
	sum := sha256.Sum256([]byte(target + "/" + string(uid)))
	return target + "-" + hex.EncodeToString(sum[:6])
}

// NewOrphan lists an object of a physical cluster; ok is false if it has no mark of
// the control plane.
func NewOrphan(target, controlPlane string, kind workload.Kind, obj *unstructured.Unstructured) (o *fleetv1alpha1.Orphan, ok bool) {
	mark, ok := orphanMark(controlPlane, kind, obj)
	if !ok {
		return nil, false
	}
	return &fleetv1alpha1.Orphan{
		ObjectMeta: metav1.ObjectMeta{Name: OrphanName(target, obj.GetUID())},
		Spec: fleetv1alpha1.OrphanSpec{
			PhysicalCluster: target,
			Object: fleetv1alpha1.PhysicalObject{
				Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Kind: kind.Kind,
				Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), Created: obj.GetCreationTimestamp(),
			},
			Claim: fleetv1alpha1.ClaimedObject{LogicalCluster: mark.Cluster.String(), Namespace: mark.Namespace, Name: mark.Name, UID: mark.UID},
		},
	}, true
}

// NewCarriedOrphan lists an object of a physical cluster that a Manifest carried, which is served there as
// a resource.
func NewCarriedOrphan(target, controlPlane string, manifests workload.Kind, resource string, obj *unstructured.Unstructured) (o *fleetv1alpha1.Orphan, ok bool) {
	if o, ok = NewOrphan(target, controlPlane, manifests, obj); !ok {
		return nil, false
	}
	gvk := obj.GroupVersionKind()
	o.Spec.Object.Group, o.Spec.Object.Version, o.Spec.Object.Kind, o.Spec.Object.Resource = gvk.Group, gvk.Version, gvk.Kind, resource
	return o, true
}

// orphanMark is the mark by which an object may be listed: one of the control plane. In root only Manifests
// have anything on physical clusters, and nothing else has what they have; what has both marks is not
// theirs.
func orphanMark(controlPlane string, kind workload.Kind, obj *unstructured.Unstructured) (Mark, bool) {
	mark, ok := MarkOf(kind.GroupResource(), obj)
	if !ok || mark.ControlPlane != controlPlane || kind.Carries != (mark.Cluster == scope.Root) {
		return Mark{}, false
	}
	_, managed := obj.GetLabels()[placementv1alpha1.ManagedByLabel]
	return mark, !kind.Carries || !managed
}

// KindOfOrphan is the kind of what an Orphan claims; ok is false if it is none of ours.
func KindOfOrphan(kinds workload.Catalog, o *fleetv1alpha1.Orphan) (workload.Kind, bool) {
	if o.Spec.Claim.LogicalCluster == scope.Root.String() {
		return kinds.ByResource(manifests)
	}
	return kinds.ByResource(schema.GroupResource{Group: o.Spec.Object.Group, Resource: o.Spec.Object.Resource})
}

// OrphanedObject names what a Manifest carried on the physical cluster.
func OrphanedObject(o *fleetv1alpha1.Orphan) placementv1alpha1.CarriedObject {
	on := o.Spec.Object
	return placementv1alpha1.CarriedObject{Group: on.Group, Version: on.Version, Kind: on.Kind, Resource: on.Resource, Namespace: on.Namespace, Name: on.Name}
}

// ClaimOf is the object that an Orphan claims to be the copy of.
func ClaimOf(kind workload.Kind, o *fleetv1alpha1.Orphan) Ref {
	ref := Ref{Kind: kind, Cluster: logicalcluster.Name(o.Spec.Claim.LogicalCluster), Namespace: o.Spec.Claim.Namespace, Name: o.Spec.Claim.Name}
	if ref.IsNamespace() {
		ref.Namespace = ""
	}
	return ref
}

// OrphanInput is what is known about one orphan.
type OrphanInput struct {
	Target, ControlPlane string
	Kind                 workload.Kind
	Orphan               *fleetv1alpha1.Orphan
	// Physical is the object with the UID of the orphan; nil says that the physical
	// cluster was asked and does not have it.
	Physical *unstructured.Unstructured
	// Mirrored says that an object above mirrors it.
	Mirrored bool
	// Copy is the record of the claimed object on the target, Logical the claimed
	// object as the target sees it, by name, and Namespace where its copy goes.
	Copy      *placementv1alpha1.Copy
	Logical   *unstructured.Unstructured
	Namespace string
	// Contents is, for a namespace, how many objects with our mark are in it.
	Contents int
	// Asked says that Logical is what the control plane answered just now.
	Asked bool
	// Volume is a volume that would go with the claim, or with one in the namespace.
	Volume Volume
	// Deleted says that the deletion was sent, and Failure why it failed, or what comes before it; nil if it did
	// not.
	Deleted bool
	Failure *Failure
}

// PlanOrphan says what to do next about an orphan, as Plan does about an object. What it
// says is in the status of the Orphan, which is written if it differs.
//
//	the object below        order    the server, asked by UID    do
//	gone, or without mark   any      any                         1 DropOrphan
//	recorded by the Copy,   any      any                         2 DropOrphan
//	or mirrored
//	there                   none     any                         3 Found
//	there                   Leave    any                         4 Left
//	there, the claimed one  Remove   any                         5 Refused, ObjectExists
//	is in view
//	there, a Manifest of    Remove   any                         5a Refused, ObjectExists: it is about to take
//	the name carries it                                            that up
//	there, of a Manifest,   Remove   any                         5b Refused, TakesOthersAlong: the Manifest
//	and others have                                              may have said Keep
//	something in it
//	there                   Remove   not asked for this order    6 Removing, AskingServer
//	there                   Remove   it exists                   7 Refused, ObjectExists
//	there                   Discard  nobody knows                7 the same
//	there, with contents    Remove   it is gone                  8 Removing, NotEmpty
//	there, being deleted    Remove   it is gone                  9 Removing, Terminating
//	there                   Remove   it is gone                  10 AskServer for the claimed object, Delete;
//	                                                             Removing, or why that failed
//	there, and takes its    Discard  it exists                   10a Refused, TakesOthersAlong
//	claims along
//	there, a claim or a     Discard  it exists                   10b as 10, with LookAtVolume before the deletion,
//	namespace                                                    and UpdateVolume: what would go is kept
//	there, else             Discard  any                         as Remove, and what exists as what is gone
//	there, nothing of the   Adopt    it exists                   11 Refused, NotPlacedHere
//	name is in view                  else                        12 Refused, NoObject
//	there, the Manifest     Adopt    any                         12a Refused, CarriesAnother
//	carries something else
//	there, elsewhere        Adopt    any                         13 Refused, OtherNamespace
//	there, in its place     Adopt    any                         14 Adopting: Plan takes it over; or why that failed
//
// Only 10 removes anything. It does not rest on what is not seen, but on an order
// of an admin and on the word of the server, for the UID of the mark, about this
// very order; and on the deletion naming the UID below.
func PlanOrphan(in OrphanInput) []Action {
	if !in.isOrphan() {
		return []Action{{Verb: DropOrphan}} // 1, 2
	}
	status, remove := in.judge()
	if remove && !in.Deleted && in.Failure == nil {
		if !in.Asked {
			return []Action{{Verb: AskServer, UID: in.Orphan.Spec.Claim.UID, Why: "LastWord"}}
		}
		if actions := in.keepVolumes(); len(actions) > 0 {
			return actions
		}
		return []Action{{Verb: Delete, UID: in.Physical.GetUID(), Propagation: metav1.DeletePropagationBackground, Why: "Ordered"}}
	}
	if equality.Semantic.DeepEqual(in.Orphan.Status, status) {
		return nil
	}
	written := in.Orphan.DeepCopy()
	written.Status = status
	return []Action{{Verb: WriteOrphan, Orphan: written, Why: string(status.State)}}
}

// judge is what becomes of the orphan, and whether it is removed now: cells 3 to 14.
func (in OrphanInput) judge() (status fleetv1alpha1.OrphanStatus, remove bool) {
	switch in.Orphan.Spec.Order {
	case fleetv1alpha1.OrphanLeave:
		return in.say(fleetv1alpha1.OrphanLeft, "Ordered", "it is left where it is"), false // 4
	case fleetv1alpha1.OrphanRemove, fleetv1alpha1.OrphanDiscard:
		return in.remove()
	case fleetv1alpha1.OrphanAdopt:
		return in.adopt(), false
	}
	reason, message := "NoObject", "it has neither an object nor a record here"
	if c := apimeta.FindStatusCondition(in.Orphan.Status.Conditions, fleetv1alpha1.ConditionObjectExists); c != nil {
		reason, message = c.Reason, c.Message
	}
	return in.say(fleetv1alpha1.OrphanFound, reason, message), false // 3
}

func (in OrphanInput) isOrphan() bool {
	if in.Physical == nil || in.Mirrored {
		return false
	}
	if _, ok := orphanMark(in.ControlPlane, in.Kind, in.Physical); !ok {
		return false
	}
	return !Means(in.Copy, in.Physical.GetUID()) || in.Copy.Status.State == placementv1alpha1.CopyRemoved
}

// Means says that a Copy is about the object of the physical cluster with a UID; none is about none.
func Means(c *placementv1alpha1.Copy, physical types.UID) bool {
	return c != nil && c.Status.PhysicalUID == physical
}

// remove: cells 5 to 10.
func (in OrphanInput) remove() (status fleetv1alpha1.OrphanStatus, now bool) {
	exists := apimeta.FindStatusCondition(in.Orphan.Status.Conditions, fleetv1alpha1.ConditionObjectExists)
	claimed := in.Orphan.Spec.Claim.UID
	switch {
	case in.Logical != nil && in.Logical.GetUID() == claimed: // 5
		return in.say(fleetv1alpha1.OrphanRefused, "ObjectExists", "the object that it claims to be the copy of is placed here"), false
	case in.taken(): // 5a
		return in.say(fleetv1alpha1.OrphanRefused, "ObjectExists", "a Manifest of the name carries it, and takes it up"), false
	case in.Kind.Carries && TakesAlong(in.Physical.GroupVersionKind().GroupKind()): // 5b
		return in.say(fleetv1alpha1.OrphanRefused, "TakesOthersAlong", "others lose with it what they have in it: make the Manifest again and delete that, with removal: Delete, or delete it on the physical cluster"), false
	case exists == nil || exists.ObservedGeneration != in.Orphan.Generation: // 6
		return in.say(fleetv1alpha1.OrphanRemoving, "AskingServer", "waiting for the server to say whether the claimed object is gone"), false
	case exists.Status != metav1.ConditionFalse && !in.discards(): // 7
		message := exists.Message
		if exists.Status == metav1.ConditionTrue {
			message += "; the order Discard removes what is here all the same"
		}
		return in.say(fleetv1alpha1.OrphanRefused, "ObjectExists", message), false
	case in.Kind.Role == workload.Container && in.Contents > 0: // 8
		return in.say(fleetv1alpha1.OrphanRemoving, "NotEmpty", fmt.Sprintf("%d objects of this control plane are in it; it goes after them", in.Contents)), false
	case in.Physical.GetDeletionTimestamp() != nil: // 9
		message := "it is being deleted on the physical cluster"
		if f := in.Physical.GetFinalizers(); len(f) > 0 {
			message += ", waiting for finalizers: " + join(f)
		}
		return in.say(fleetv1alpha1.OrphanRemoving, "Terminating", message), false
	case in.discards() && workload.TakesClaims(in.Kind, in.Physical.Object): // 10a
		return in.say(fleetv1alpha1.OrphanRefused, "TakesOthersAlong", "its claims would go with it, and their data: set spec.persistentVolumeClaimRetentionPolicy.whenDeleted to Retain there"), false
	}
	if in.Failure != nil { // 10
		return in.say(fleetv1alpha1.OrphanRemoving, in.Failure.Reason, in.Failure.Message), true
	}
	return in.say(fleetv1alpha1.OrphanRemoving, "Deleting", "it is deleted on the physical cluster"), true
}

// discards says that it is removed although the server says that what it claims exists: that is not here.
func (in OrphanInput) discards() bool {
	exists := apimeta.FindStatusCondition(in.Orphan.Status.Conditions, fleetv1alpha1.ConditionObjectExists)
	return in.Orphan.Spec.Order == fleetv1alpha1.OrphanDiscard && exists != nil && exists.Status == metav1.ConditionTrue
}

// keepVolumes: cell 10b. Where the data of what exists are nobody knows for certain: the server may be the one that
// went back.
func (in OrphanInput) keepVolumes() []Action {
	if !in.discards() || !in.Kind.IsClaim() && in.Kind.Role != workload.Container {
		return nil
	}
	if !in.Volume.Looked {
		return []Action{{Verb: LookAtVolume, Why: "Discard"}}
	}
	if in.Volume.Object == nil {
		return nil
	}
	return keepVolume(in.Volume.Object)
}

// taken says that a Manifest of the name carries the orphan, whatever its UID: it goes on with what is there.
func (in OrphanInput) taken() bool {
	if !in.Kind.Carries || in.Logical == nil {
		return false
	}
	named, on := CarriedName(Input{Logical: in.Logical}), OrphanedObject(in.Orphan)
	named.Version, named.Resource, on.Version, on.Resource = "", "", "", ""
	return named == on
}

// adopt: cells 11 to 14.
func (in OrphanInput) adopt() fleetv1alpha1.OrphanStatus {
	claim := in.Orphan.Spec.Claim
	what := in.Kind.Kind + " " + claim.Name
	entry := classifyLogical(Input{Ref: ClaimOf(in.Kind, in.Orphan), Target: in.Target, Logical: in.Logical})
	exists := apimeta.FindStatusCondition(in.Orphan.Status.Conditions, fleetv1alpha1.ConditionObjectExists)
	elsewhere := exists != nil && (exists.Status == metav1.ConditionTrue || exists.Reason == fleetv1alpha1.ReasonOtherUID)
	switch {
	case entry == logicalLive && in.Kind.Carries && !in.taken(): // 12a
		return in.say(fleetv1alpha1.OrphanRefused, "CarriesAnother", what+" carries something else; a Manifest of its name that carries this takes it up")
	case entry == logicalLive && in.Namespace != "" && in.Namespace != PhysicalNamespaceOf(in.Physical): // 13
		return in.say(fleetv1alpha1.OrphanRefused, "OtherNamespace", what+" goes to the namespace "+in.Namespace+" of the physical cluster, and nothing is ever moved")
	case entry == logicalLive: // 14
		if in.Copy != nil && in.Copy.Status.State == placementv1alpha1.CopyFailed {
			return in.say(fleetv1alpha1.OrphanAdopting, in.Copy.Status.Reason, in.Copy.Status.Message)
		}
		return in.say(fleetv1alpha1.OrphanAdopting, "Ordered", "it is about to be the copy of "+what)
	case in.Logical != nil || elsewhere: // 11
		return in.say(fleetv1alpha1.OrphanRefused, "NotPlacedHere", what+" exists in namespace "+claim.Namespace+" of logical cluster "+claim.LogicalCluster+
			", but has no copy on this physical cluster; it is adopted as soon as it is placed here")
	}
	return in.say(fleetv1alpha1.OrphanRefused, "NoObject", "there is no "+what+" in namespace "+claim.Namespace+" of logical cluster "+claim.LogicalCluster+
		"; it is adopted as soon as there is one that is placed here") // 12
}

func (in OrphanInput) say(state fleetv1alpha1.OrphanState, reason, message string) fleetv1alpha1.OrphanStatus {
	status := *in.Orphan.Status.DeepCopy()
	status.State, status.Reason, status.Message = state, reason, bounded(message)
	status.ObservedGeneration = in.Orphan.Generation
	return status
}

// PhysicalNamespaceOf is the physical namespace that an object is in; a namespace is in
// itself.
func PhysicalNamespaceOf(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() != "" {
		return obj.GetNamespace()
	}
	return obj.GetName()
}
