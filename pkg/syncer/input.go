package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Input is what is known about one object on one target.
type Input struct {
	Ref          Ref
	Target       string
	ControlPlane string
	// Kinds are those that there are: what may control the copy.
	Kinds workload.Catalog

	// Logical is the object as the target sees it; nil if it does not. It is as the target is to
	// have it, see Received; Withheld says why that is not known.
	Logical  *unstructured.Unstructured
	Withheld string
	// Gone are the UIDs of which the server, asked for the object now, said that they do
	// not exist.
	Gone []types.UID
	// Copy is the record of the object on this target; nil if there is none.
	Copy *placementv1alpha1.Copy
	// Physical is what is on the target under the name of the copy, whoever it
	// belongs to; nil says that nothing is, unless it is Unseen.
	Physical *unstructured.Unstructured
	// Unseen says that nobody has asked the target yet.
	Unseen bool
	// Unproven says that there being no Physical proves nothing, and Failure why: of who leaves, that its kind is not
	// watched, as the target is not known to serve it; or that the target refuses to say what is there.
	Unproven bool
	// Namespace is where the copy goes.
	Namespace Namespace
	// Carried is, of a Manifest, what it is on the target; nil if that is not known, and Failure says
	// why. NothingCarried says that it is proven that the target has no such object, see KindGone and
	// Locate.
	Carried        *placementv1alpha1.CarriedObject
	NothingCarried bool
	// Contents is, for a Namespace, how many other Copies keep the physical one.
	Contents int
	// Strays is, for a Namespace, how many objects with a mark of ours are in the physical one that have no
	// Copy, and are not mirrored: they are Orphans, or about to get their Copies.
	Strays int
	// Scaled says that an autoscaler that is on this target too scales the copy.
	Scaled bool
	// ScalesFromNothing says that one of its autoscalers makes replicas of it where it wants none.
	ScalesFromNothing bool
	// ScalerWaits says that one is to come to this target once traffic does.
	ScalerWaits bool
	// Bounds are those of that autoscaler, if they are divided; else nil.
	Bounds *Bounds
	// ScalesRange says that what this one scales has a range of ordinals on the target, and
	// ScaledBelow that an autoscaler of this one may be there.
	ScalesRange, ScaledBelow bool
	// Pods are the ordinals of pods of a StatefulSet, as the target says when it is asked; nil:
	// it was not.
	Pods *placementv1alpha1.OrdinalRange
	// Settled is the Fingerprint after the last apply; empty if not remembered.
	Settled string
	// Nowhere says of a Service beside the copy, or of itself, that it is known to lead to no pod, see
	// LeadsNowhere; nil: of none.
	Nowhere func(service string) bool
	// LedSince is what Settling said last.
	LedSince map[string]time.Time
	// Applied says that Physical is the reply to an apply of Logical, just now.
	Applied bool
	// Reverted counts the drifts that were reverted just now, Reverts is what is
	// remembered of those before, and Now the time at which it is asked.
	Reverted int64
	Reverts  Reverts
	Now      time.Time
	// Reported is when the Copy was written last; zero if that is not remembered.
	Reported time.Time
	// AppliedAt is when Logical was applied last; zero if that is not remembered.
	AppliedAt time.Time
	// Made finds what the physical object with a UID owns; nil finds nothing.
	Made func(types.UID) []Made
	// Counting is since when the report waits for that to be mirrored; zero if it does not.
	Counting time.Time
	// Ruled says that what rules the namespace is known to be on the target.
	Ruled bool
	// Volume is what is known of the volume of a claim, and Classes what admins declared of those
	// of storage classes; nil: nothing.
	Volume  Volume
	Classes func(class string) fleetv1alpha1.ClassVolumes
	// NotCarried is why the physical cluster did not take the time of the last run of a CronJob.
	NotCarried string
	// Failure is why the last action failed; nil if none did.
	Failure *Failure
	// RuntimeClasses are those of the target that it permits, by name; none if the object names none.
	RuntimeClasses []RuntimeClass
	// Account is the one that the pods of the object run as, nil if the target does not see
	// it, and Server how pods there reach the control plane.
	Account *Account
	Server  Server
	// Nameserver answers pods there with names of the logical cluster.
	Nameserver Nameserver
	// Missing says which of some supplies the physical namespace lacks; nil: all of them.
	Missing func(Supplies) Supplies
	// HostTaken is a host name of an Ingress that another logical cluster has on the target;
	// empty if there is none.
	HostTaken string
	// Permits is what the target permits beyond the default, and Offered which classes it has.
	Permits boundary.Permits
	Offered boundary.Classes
	// Owner finds the logical object that mirrors the one with a physical UID;
	// nil finds nothing.
	Owner func(types.UID) (*unstructured.Unstructured, bool)
	// Orphan finds the order for the physical object with a UID, if it is listed as
	// an Orphan; nil finds nothing.
	Orphan func(types.UID) (order fleetv1alpha1.OrphanOrder, listed bool)
}

// Namespace is what is known about the physical namespace of an object.
type Namespace struct {
	// Name is the recorded name; empty as long as none is known.
	Name string
	// State is what the physical namespace itself is; for a Namespace, which is
	// not in one, it is NamespaceReady or NamespaceDisputed.
	State NamespaceState
}

// NamespaceState is the state of a physical namespace.
type NamespaceState string

const (
	NamespaceReady       NamespaceState = "Ready"
	NamespaceAbsent      NamespaceState = "Absent"
	NamespaceTerminating NamespaceState = "Terminating"
	NamespaceNotOurs     NamespaceState = "NotOurs"
	NamespaceDisputed    NamespaceState = "Disputed"
)
