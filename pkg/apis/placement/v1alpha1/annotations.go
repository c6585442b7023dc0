package v1alpha1

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Keys that the system writes on logical objects. Users cannot forge or lose
// them: admission gives every write the server's values back.
const (
	// TargetsAnnotation holds the targets of an object: see Targets.
	TargetsAnnotation = "placement.atoll.dev/targets"
	// PhysicalNamespaceAnnotation, on a Namespace, is the name of the namespace
	// that holds its copies on every target. Recorded once.
	PhysicalNamespaceAnnotation = "placement.atoll.dev/physical-namespace"
	// AdmitsPodsAnnotation, on a Namespace, is "true" if the logical cluster has webhooks or
	// policies for pods that are made in it. The physical namespace has the label
	// AdmitsPodsLabel then.
	AdmitsPodsAnnotation = "placement.atoll.dev/admits-pods"
	// CopiesFinalizer keeps an object until every target acknowledged that its
	// copy is gone.
	CopiesFinalizer = "placement.atoll.dev/copies"
	// WantedAnnotation is on an object that was mirrored: which labels and annotations a
	// user changed, until its syncer has changed them below, too. JSON: "labels" and
	// "annotations", each by key the value, or null for one that was taken off.
	WantedAnnotation = "placement.atoll.dev/wanted"
	// UnitAnnotation is on a placed object that belongs to other units than that of its
	// namespace: their names, by comma. It changes when the object is stamped by them.
	UnitAnnotation = "placement.atoll.dev/unit"
	// RuntimeHandlerAnnotation is on an object with pods: the handler of the
	// RuntimeClass of the logical cluster that it names.
	RuntimeHandlerAnnotation = "placement.atoll.dev/runtime-handler"
	// NodePortsAnnotation is on a Service: the ports of nodes that its user asks for, by comma. Any
	// other that it has was chosen by the server of the logical cluster.
	NodePortsAnnotation = "placement.atoll.dev/node-ports"
	// MirroredAnnotation is on a claim that was mirrored before its volume was handed over: what
	// its spec names as the volume was written by a syncer, and is that of the first place.
	MirroredAnnotation = "placement.atoll.dev/mirrored"
	// TemplatesAnnotation is on a Deployment, StatefulSet or DaemonSet, and on what is of a
	// declared kind: digests of the pod templates that it has had, the newest first. What is
	// mirrored as its history has one of those.
	TemplatesAnnotation = "placement.atoll.dev/templates"
	// RolloutAnnotation is on an object of which a change has not reached all waves: which
	// change that is. It says nothing of the content.
	RolloutAnnotation = "placement.atoll.dev/rollout"
	// FormerAnnotation is on such an object: the content that it had before, for the targets
	// that have it still. JSON, compressed with gzip, in base64.
	FormerAnnotation = "placement.atoll.dev/former"
)

// Keys of the domain that users set.
const (
	// PhysicalClusterAnnotation is on a Namespace, or a PlacementPolicy that selects
	// objects: the PhysicalCluster that its unit must be placed on, or moved to.
	PhysicalClusterAnnotation = "placement.atoll.dev/cluster"
	// ConfirmMovesAnnotation is on a policy: up to how many units the edit that writes it
	// may move, see PolicySpec.ConfirmAbove.
	ConfirmMovesAnnotation = "placement.atoll.dev/confirm-moves"
	// ConfirmDeletionAnnotation is on a policy: up to how many units its deletion may move.
	ConfirmDeletionAnnotation = "placement.atoll.dev/confirm-deletion"
	// ApproveRolloutAnnotation is on what makes a unit, as PhysicalClusterAnnotation: the wave
	// that may begin, REVISION/NUMBER, with the revision of status.rollout of the Placement.
	ApproveRolloutAnnotation = "placement.atoll.dev/approve-rollout"
)

// Keys that the syncer writes on copies, so that a physical cluster explains
// itself.
const (
	// ManagedByLabel holds the id of the control plane.
	ManagedByLabel = "atoll.dev/managed-by"
	// CarriedByLabel holds it on what Manifests carry, which has no place in a logical cluster.
	CarriedByLabel           = "atoll.dev/carried-by"
	LogicalClusterAnnotation = "atoll.dev/logical-cluster"
	// AdmitsPodsLabel is on physical namespaces in which pods are admitted above.
	AdmitsPodsLabel     = "atoll.dev/admits-pods"
	NamespaceAnnotation = "atoll.dev/namespace"
	UIDAnnotation       = "atoll.dev/uid"
)

// IsSystemKey reports whether a label, annotation or finalizer key belongs to
// the system: the domain atoll.dev and below (save those that users set), and
// kcp.io/cluster.
func IsSystemKey(key string) bool {
	switch key {
	case PhysicalClusterAnnotation, ConfirmMovesAnnotation, ConfirmDeletionAnnotation, ApproveRolloutAnnotation:
		return false
	case "kcp.io/cluster":
		return true
	}
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == "atoll.dev" || strings.HasSuffix(domain, ".atoll.dev"))
}

// IsOrder reports whether a key is one of those by which users direct a unit, on what
// makes it: it stays in the logical cluster.
func IsOrder(key string) bool {
	return key == PhysicalClusterAnnotation || key == ApproveRolloutAnnotation
}

// TargetState says what one target shall do with an object.
type TargetState string

const (
	// TargetSync, the zero value: keep a copy.
	TargetSync TargetState = ""
	// TargetStateRemoving: remove the copy and acknowledge.
	TargetStateRemoving TargetState = "Removing"
	// TargetObserved: the object was mirrored from the target; nothing is
	// sent down.
	TargetObserved TargetState = "Observed"
	// TargetStateStarting: keep a copy that receives no traffic yet: its addresses are
	// not published.
	TargetStateStarting TargetState = "Starting"
	// TargetStateDraining: keep a copy that receives no traffic any more.
	TargetStateDraining TargetState = "Draining"
	// TargetStateWaiting: make no copy yet. Of what runs, two must not do so at a time: all
	// others have to be gone. An autoscaler has nothing to scale by before traffic comes. A claim
	// waits for the volume that it has elsewhere.
	TargetStateWaiting TargetState = "Waiting"
	// TargetStateFinished: the object ran to its end elsewhere, or does; no copy is made.
	TargetStateFinished TargetState = "Finished"
)

// Keeps reports whether the target shall have a copy.
func (t Target) Keeps() bool {
	return t.State == TargetSync || t.State == TargetStateStarting || t.State == TargetStateDraining
}

// NoCopy reports whether there is no copy on the target, and none to be removed.
func (t Target) NoCopy() bool {
	return t.State == TargetStateWaiting || t.State == TargetStateFinished
}

// Receives reports whether the copy on the target receives traffic.
func (t Target) Receives() bool { return t.State == TargetSync }

// Target is one entry of Targets.
type Target struct {
	// Replicas are those of this target, if they are divided; else it has all. Of a Job they
	// are its parallelism, of an autoscaler the least replicas, of a disruption budget its
	// number.
	Replicas *int32 `json:"replicas,omitempty"`
	// Share is there while the target keeps more, or waits for more: what Replicas come to
	// once others are available, or have less.
	Share *int32 `json:"share,omitempty"`
	// Max are the most replicas of an autoscaler, if they are divided.
	Max *int32 `json:"max,omitempty"`
	// Completions are those of a Job, if they are divided.
	Completions *int32 `json:"completions,omitempty"`
	// Start is with how many replicas the copy begins, as an autoscaler had it elsewhere; nil:
	// with those that the object wants.
	Start *TargetStart `json:"start,omitempty"`
	// Ordinals are those of a StatefulSet that is, or was, divided by them.
	Ordinals *TargetOrdinals `json:"ordinals,omitempty"`
	// Overrides are what changes of the copy on this target, in order.
	Overrides []TargetOverride `json:"overrides,omitempty"`
	// Former says that the target has the content of FormerAnnotation as yet.
	Former bool `json:"former,omitempty"`
	// Volume is, for a claim on its way, or on several targets with one volume, the volume that it
	// gets there. The target that made it has none.
	Volume *TargetVolume `json:"volume,omitempty"`
	State  TargetState   `json:"state,omitempty"`
	// UID is, for an observed object, or a claim that was one, the UID that it has on the
	// target.
	UID types.UID `json:"uid,omitempty"`
	// Adopted says of an observed object that a user made it, and a controller of
	// the target took its copy over.
	Adopted bool `json:"adopted,omitempty"`
}

// TargetStart is what a copy begins with that an autoscaler scales. It counts as long as the
// object wants the same number as it did then.
type TargetStart struct {
	Replicas int32 `json:"replicas"`
	// Wish is what the object wants: spec.replicas.
	Wish int32 `json:"wish"`
}

// TargetOrdinals are the numbers of the pods of a StatefulSet on a target: from Start, as many as
// it has Replicas. Without Replicas it has all.
type TargetOrdinals struct {
	Start int32 `json:"start"`
	// Held is there while pods of other ordinals may run on the target, too: no other target
	// gets one of these.
	Held *OrdinalRange `json:"held,omitempty"`
	// Revision rises with each change of Start or Replicas: a Copy that has it says what there
	// is since.
	Revision int64 `json:"revision"`
}

// OrdinalRange are the ordinals from Start to before End.
type OrdinalRange struct {
	Start int32 `json:"start"`
	End   int32 `json:"end"`
}

// Targets maps the names of physical clusters to what they do with an object.
type Targets map[string]Target

// String is the value of TargetsAnnotation: JSON with sorted keys.
func (t Targets) String() string {
	if len(t) == 0 {
		return ""
	}
	b, err := json.Marshal(t) // encoding/json sorts the keys of maps
	if err != nil {
		panic(err) // no field of Target can fail to encode
	}
	return string(b)
}

// Names are the names of the targets, sorted.
func (t Targets) Names() []string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
