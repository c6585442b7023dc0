package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// NamespaceUnit is the name of the Placement of a namespace: of all in it that no
// PlacementPolicy selects. The Placement of what a policy selects has the policy's name.
const NamespaceUnit = "namespace"

// DefaultScheduler is the schedulerName of decisions made by this server.
const DefaultScheduler = "atoll"

// +genclient
// +genclient:method=Bind,verb=create,subresource=binding,input=github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1.PlacementBinding,result=github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1.PlacementBinding
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Placement is the decision for one unit: the namespace that it is in, or what a
// PlacementPolicy selects there.
type Placement struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PlacementSpec `json:"spec,omitempty"`
	// +optional
	Status PlacementStatus `json:"status,omitempty"`
}

// PlacementSpec holds the decision.
type PlacementSpec struct {
	// decision is absent until a scheduler decided. Whoever writes it first
	// wins (compare-and-swap on the resource version).
	// +optional
	Decision *Decision `json:"decision,omitempty"`
	// transition is there while the unit is on its way to the decision: written with
	// it, in one write.
	// +optional
	Transition *Transition `json:"transition,omitempty"`
	// reservation is what the unit takes of what is free where it goes, until that is in what the
	// physical clusters report. It is written before the decision where something bounds what may
	// be placed, and alone decides nothing.
	// +optional
	Reservation *Reservation `json:"reservation,omitempty"`
	// bound is where the scheduler that the policies name wants the unit: what it wrote last
	// to the subresource binding. The decision follows it, by a transition if there is one
	// already, as long as the policies permit that.
	// +optional
	Bound *Bound `json:"bound,omitempty"`
	// returned is how the unit returned to what preferences want, written with the decision
	// to do so: who does so often waits longer.
	// +optional
	Returned *Returned `json:"returned,omitempty"`
	// wentBack is what the unit went back from as it did not become available there, written with
	// the decision to do so: policies do not move it there again for a while.
	// +optional
	WentBack *WentBack `json:"wentBack,omitempty"`
}

// WentBack is what a unit went back from.
type WentBack struct {
	// physicalClusters are those where it did not become available, sorted by name.
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters"`
	// at is when it went back last, and until when policies do not move it there again. Other
	// policies, other pod templates, and that one became ready anew since then end that.
	At    metav1.Time `json:"at"`
	Until metav1.Time `json:"until"`
	// times is how often it went back for the same policies and pod templates, none more than a day
	// after the time before was over.
	Times int32 `json:"times"`
	// policies are those that were heard then, with their generations.
	// +optional
	// +listType=atomic
	Policies []PolicyReference `json:"policies,omitempty"`
	// content is a digest of the pod templates of the unit.
	// +optional
	Content string `json:"content,omitempty"`
	// message says what was missing.
	// +optional
	Message string `json:"message,omitempty"`
}

// Reservation is what a unit takes of what is free.
type Reservation struct {
	// at is when it was made: it counts for a minute from then on, whatever is written later.
	At metav1.MicroTime `json:"at"`
	// physicalClusters are where it is, sorted by name.
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters"`
	// requests are what the unit takes on each of them.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// Returned counts returns.
type Returned struct {
	// at is when the last one began.
	At metav1.Time `json:"at"`
	// times is how many there were, none more than a day after the one before.
	Times int32 `json:"times"`
}

// Bound is what another scheduler wants.
type Bound struct {
	SchedulerName string `json:"schedulerName"`
	// physicalClusters are sorted by name.
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters"`
}

// TransitionCause says why a unit moves.
type TransitionCause string

const (
	// CausePinned: the annotation placement.atoll.dev/cluster of the namespace, or of the
	// PlacementPolicy that makes the unit.
	CausePinned TransitionCause = "Pinned"
	// CausePolicy: policies, labels or taints permit the old decision no more, or want
	// more or fewer physical clusters.
	CausePolicy TransitionCause = "Policy"
	// CauseBound: the scheduler that the policies name has bound the unit elsewhere.
	CauseBound TransitionCause = "Bound"
	// CauseDrain: a physical cluster is drained.
	CauseDrain TransitionCause = "Drain"
	// CauseLost: a physical cluster does not answer for longer than the policies bear, or an
	// admin gave it up.
	CauseLost TransitionCause = "Lost"
	// CauseReturn: preferences want the unit where it is going, and that was ready for it for
	// as long as they say.
	CauseReturn TransitionCause = "Return"
	// CauseStuck: the unit did not become available where it was going, and policies let it go
	// back.
	CauseStuck TransitionCause = "Stuck"
	// CauseLeftover: an object has a copy where the decision has none, as it belonged to
	// another unit, or a server that was behind gave it one.
	CauseLeftover TransitionCause = "Leftover"
)

// TransitionPhase says how far a transition is.
type TransitionPhase string

const (
	// TransitionStarting: copies are made where the unit goes, and nothing is taken away.
	TransitionStarting TransitionPhase = "Starting"
	// TransitionDraining: what is left receives no traffic any more.
	TransitionDraining TransitionPhase = "Draining"
	// TransitionRemoving: what is left is removed. A removal that has begun is finished,
	// also if the unit is to go back. Claims are kept.
	TransitionRemoving TransitionPhase = "Removing"
	// TransitionHandingOver: nothing uses the volumes any more where the unit was; its claims
	// get them where it goes. Only of units with claims.
	TransitionHandingOver TransitionPhase = "HandingOver"
	// TransitionClearing: claims have their volumes; what is left of them is removed.
	TransitionClearing TransitionPhase = "Clearing"
)

// Transition is the way from the physical clusters that a unit had to those of the
// decision.
type Transition struct {
	Cause TransitionCause `json:"cause"`
	Phase TransitionPhase `json:"phase"`
	// started is when the transition began, since when the phase did.
	Started metav1.Time `json:"started"`
	Since   metav1.Time `json:"since"`
	// to are the physical clusters of the decision that the unit does not run on yet.
	// +optional
	// +listType=set
	To []string `json:"to,omitempty"`
	// from are the physical clusters that it leaves.
	// +optional
	// +listType=set
	From []string `json:"from,omitempty"`
	// withdrawn are those of from that received no traffic when the transition began: an
	// earlier one had only started there, or had left already. They get none any more.
	// +optional
	// +listType=set
	Withdrawn []string `json:"withdrawn,omitempty"`
	MoveTimes `json:",inline"`
	// requests is what the unit requests on each of to, which these do not report at once: who
	// decides next takes it for taken.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// MoveTimes are the times of a move, as the policies have them when it begins.
type MoveTimes struct {
	// minReadySeconds is for how long all must have been available before a new address is
	// published.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// drainSeconds is how long what is left stays without traffic.
	// +optional
	DrainSeconds int32 `json:"drainSeconds,omitempty"`
}

// Decision names the targets.
type Decision struct {
	// physicalClusters are the targets, sorted by name.
	// +listType=map
	// +listMapKey=name
	PhysicalClusters []DecidedPhysicalCluster `json:"physicalClusters"`
	// policies are the policies that were heard, with their generations.
	// +optional
	// +listType=atomic
	Policies []PolicyReference `json:"policies,omitempty"`
	// division says how replicas are divided over them; absent: each has all.
	// +optional
	Division *DecidedDivision `json:"division,omitempty"`
	// overrides are what changes of copies on them, in order.
	// +optional
	// +listType=atomic
	Overrides []DecidedOverride `json:"overrides,omitempty"`
	// rollout has the waves in which changes reach them; absent: all at once.
	// +optional
	Rollout *DecidedRollout `json:"rollout,omitempty"`
	// schedulerName is who decided.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
}

// DecidedPhysicalCluster is one target.
type DecidedPhysicalCluster struct {
	// name of the PhysicalCluster.
	Name string `json:"name"`
	// requests is what the unit was let in with: what it requested there when it came, for which
	// there was room. It counts for no more, see status.requests.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// PolicyLevel says whose policy one is.
type PolicyLevel string

const (
	// PolicyGlobal: a ClusterPlacementPolicy of "root".
	PolicyGlobal PolicyLevel = "Global"
	// PolicyLogicalCluster: a ClusterPlacementPolicy of the logical cluster.
	PolicyLogicalCluster PolicyLevel = "LogicalCluster"
	// PolicyNamespace: a PlacementPolicy of the namespace.
	PolicyNamespace PolicyLevel = "Namespace"
)

// PolicyReference names a policy at a generation.
type PolicyReference struct {
	// level says where it is.
	// +optional
	Level      PolicyLevel `json:"level,omitempty"`
	Name       string      `json:"name"`
	Generation int64       `json:"generation"`
}

// Condition types of a Placement.
const (
	// ConditionScheduled is True once there is a decision; else its message
	// has the reason for every rejected physical cluster.
	ConditionScheduled = "Scheduled"
	// ConditionSettled is True when every copy on every target is synced, and no claim waits for the
	// volume that it has on another one.
	ConditionSettled = "Settled"
	// ConditionPolicySatisfied is False while the decision, which is kept, is not
	// what the policies of now permit.
	ConditionPolicySatisfied = "PolicySatisfied"
	// ConditionMoving is True during a transition, with what it waits for. It is False
	// with the reason while the unit should move and cannot, and absent else.
	ConditionMoving = "Moving"
	// ConditionContested is True while objects of the unit are selected by other policies,
	// too: the first policy by name counts. It is absent else.
	ConditionContested = "Contested"
	// ConditionDivided is there while replicas are divided: False while some are kept
	// where they were until others are available, with what is waited for.
	ConditionDivided = "Divided"
	// ConditionRolledOut is there if changes are staged: False while one has not reached all
	// waves, with what it waits for; Unknown while it is not known whether those that have it
	// are healthy.
	ConditionRolledOut = "RolledOut"
)

// Reasons of RolledOut.
const (
	ReasonRolledOut     = "RolledOut"
	ReasonSoaking       = "Soaking"
	ReasonNeedsApproval = "NeedsApproval"
	ReasonUnhealthy     = "Unhealthy"
	ReasonHealthUnknown = "HealthUnknown"
	ReasonMoves         = "Moves"
	ReasonBegins        = "Begins"
)

// ReasonQueued is the reason of Moving=False while as many units move as may at a time. The
// condition says since when the unit wants to move: who waits for longest is next.
const ReasonQueued = "Queued"

// ReasonLeavesLast is the reason of Moving=False while a unit of root waits until everything else has left
// a physical cluster that is drained.
const ReasonLeavesLast = "LeavesLast"

// ReasonWaitsForScheduler is the reason of Scheduled=False, and of Moving=False, while the
// scheduler that the policies name has to say where the unit goes.
const ReasonWaitsForScheduler = "WaitsForScheduler"

// ReasonWaitsForPods is the reason of Scheduled=False while nothing in the unit makes pods:
// what is there follows others, which are still to come, or is placed by itself in a moment.
const ReasonWaitsForPods = "WaitsForPods"

// ReasonWaitsToReturn is the reason of Moving=False while policies prefer another place, and
// that has not been ready for as long as they say.
const ReasonWaitsToReturn = "WaitsToReturn"

// ReasonWentBack is the reason of Moving=False while policies want the unit where it went back
// from, and it is too early to try that again.
const ReasonWentBack = "WentBack"

// TargetPhase is where one target is in a transition.
type TargetPhase string

const (
	TargetStarting TargetPhase = "Starting"
	TargetActive   TargetPhase = "Active"
	TargetDraining TargetPhase = "Draining"
	TargetRemoving TargetPhase = "Removing"
)

// PlacementStatus is what became of the decision.
type PlacementStatus struct {
	// schedulerName is the scheduler that the policies name: it binds the unit. Absent: this
	// server decides.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=physicalCluster
	Targets []TargetStatus `json:"targets,omitempty"`
	// rejected has the reason for each physical cluster that was not chosen.
	// +optional
	// +listType=map
	// +listMapKey=physicalCluster
	Rejected []RejectedPhysicalCluster `json:"rejected,omitempty"`
	// awaited is what the unit waits to return to: what preferences want more than where it
	// is, and what was ready for it at each look since then.
	// +optional
	Awaited *Awaited `json:"awaited,omitempty"`
	// rollout is how far a change is that is under way, see the condition RolledOut.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// requests is what the objects of the unit request now on each of its physical clusters, while one of
	// these has a bound of resources. Absent: it counts for what it was let in with.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// conditions: Scheduled, Settled, PolicySatisfied, Moving, Contested, Divided, RolledOut.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Awaited is what a unit waits to return to.
type Awaited struct {
	// physicalClusters are all that it would be on, sorted by name.
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters"`
	// since is when they were first seen to be ready for it.
	Since metav1.Time `json:"since"`
}

// TargetStatus is the state of one target.
type TargetStatus struct {
	PhysicalCluster string      `json:"physicalCluster"`
	Phase           TargetPhase `json:"phase"`
	// since is when the phase was entered.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
}

// RejectedPhysicalCluster says why a physical cluster was not chosen.
type RejectedPhysicalCluster struct {
	PhysicalCluster string `json:"physicalCluster"`
	// reason is a CamelCase word, message the sentence for people.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementList is a list of Placements.
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Placement `json:"items"`
}

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Copy records one object on one target. It is in the namespace of the object
// (the Copy of a Namespace is in that namespace) and written by the syncer of
// its target only, in one write: there is no status subresource. It exists from
// before the first write to the physical cluster until the server has taken
// note of the removal.
type Copy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CopySpec `json:"spec"`
	// +optional
	Status CopyStatus `json:"status,omitempty"`
}

// CopySpec identifies the object and the target; it never changes.
type CopySpec struct {
	// object is what is copied.
	Object ObjectReference `json:"object"`
	// physicalCluster is the target: the name of a PhysicalCluster.
	PhysicalCluster string `json:"physicalCluster"`
}

// ObjectReference names an object of the Copy's namespace by UID.
type ObjectReference struct {
	// group is empty for the core group.
	// +optional
	Group    string    `json:"group,omitempty"`
	Version  string    `json:"version"`
	Resource string    `json:"resource"`
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	UID      types.UID `json:"uid"`
}

// CopyState says how far a copy is.
type CopyState string

const (
	// CopyPending: not applied yet; the reason says what it waits for.
	CopyPending CopyState = "Pending"
	// CopySynced: the applied generation is on the target.
	CopySynced CopyState = "Synced"
	// CopyFailed: the target refused; it is tried again.
	CopyFailed CopyState = "Failed"
	// CopyRemoving: asked to go, still there.
	CopyRemoving CopyState = "Removing"
	// CopyRemoved: the syncer saw that it is gone, or never made it and never
	// will. The acknowledgement.
	CopyRemoved CopyState = "Removed"
)

// ReasonTerminating is the reason of the Copy of a Namespace that is Removing once the
// physical cluster has begun to delete the physical one: nothing that has a Copy was in it any
// more, and nothing can come into it.
const ReasonTerminating = "Terminating"

// ReasonOrphansInside is the reason of the Copy of a Namespace that is Removing, and stays where it is: it
// would take along what has no Copy, of which an admin decides, see Orphan.
const ReasonOrphansInside = "OrphansInside"

// ReasonJobRuns is the reason of the Copy of a CronJob that is Removing and waits for a job of it,
// which runs to its end. No other one is begun there.
const ReasonJobRuns = "JobRuns"

// CopyStatus is what the syncer of the target says.
type CopyStatus struct {
	// +optional
	State CopyState `json:"state,omitempty"`
	// appliedGeneration is the generation of the logical object that was last
	// applied.
	// +optional
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`
	// observedGeneration is the generation of the logical object that the
	// controllers of the target have acted on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// reason is a CamelCase word, message the sentence for people, bounded and
	// without secrets.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// physicalNamespace, physicalUID and physicalGeneration identify what was
	// made; the generation is the one after the last apply.
	// +optional
	PhysicalNamespace string `json:"physicalNamespace,omitempty"`
	// +optional
	PhysicalUID types.UID `json:"physicalUID,omitempty"`
	// carried is, of a Manifest, the object that it is on the target. It is recorded before anything is
	// made, and never changes but for its version.
	// +optional
	Carried CarriedObject `json:"carried,omitzero"`
	// +optional
	PhysicalGeneration int64 `json:"physicalGeneration,omitempty"`
	// revision is which change was applied last, of an object of which one is under way: that
	// of its annotation placement.atoll.dev/rollout. Absent: the former content.
	// +optional
	Revision string `json:"revision,omitempty"`
	// drifts counts how often a change made on the target was reverted.
	// +optional
	Drifts int64 `json:"drifts,omitempty"`
	// ordinals says, of a StatefulSet that is divided by them, what runs there: absent until the
	// controllers of the target have acted on a range.
	// +optional
	Ordinals CopyOrdinals `json:"ordinals,omitzero"`
	// noEndpoints names the Services that select pods and lead to none there that is ready: a Service
	// itself, or those behind an Ingress. In order, and 32 at most.
	// +optional
	// +listType=atomic
	NoEndpoints []string `json:"noEndpoints,omitempty"`
	// observed is the raw status of the copy.
	// +optional
	Observed *runtime.RawExtension `json:"observed,omitempty"`
	// volume is that of a claim whose storage class is Shared or Copy there, or that is handed over.
	// +optional
	Volume *CopyVolume `json:"volume,omitempty"`
	// transfer is, of a claim into whose volume data are copied, how far that is. The server
	// writes it.
	// +optional
	Transfer *CopyTransfer `json:"transfer,omitempty"`
	// controller is the logical object whose controller on the target has adopted
	// the copy. The object is about to become one that was mirrored.
	// +optional
	Controller *ObjectReference `json:"controller,omitempty"`
}

// CarriedObject names an object on a physical cluster.
type CarriedObject struct {
	// +optional
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Kind     string `json:"kind"`
	Resource string `json:"resource"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// CopyOrdinals are the ordinals of which pods may run on a target, once its controllers have acted
// on a range and the API server there was asked for the pods: from start to before end.
type CopyOrdinals struct {
	// revision is that of the range in the annotation placement.atoll.dev/targets of the object.
	Revision int64 `json:"revision"`
	Start    int32 `json:"start"`
	End      int32 `json:"end"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CopyList is a list of Copies.
type CopyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Copy `json:"items"`
}
