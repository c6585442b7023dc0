package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterPlacementPolicy says where namespaces may be placed. In "root" it
// holds for every logical cluster, elsewhere for the one that it is in.
type ClusterPlacementPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PolicySpec `json:"spec"`
}

// PolicySpec says for which namespaces the rules are.
type PolicySpec struct {
	// logicalClusterSelector selects logical clusters by the labels of their
	// LogicalCluster; absent selects all. Only in "root".
	// +optional
	LogicalClusterSelector *metav1.LabelSelector `json:"logicalClusterSelector,omitempty"`
	// namespaceSelector selects namespaces by label; absent selects all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// confirmAbove is how many of the units that this policy is for one edit, or the deletion,
	// of any policy may move. What moves more is refused unless it carries the number, in the
	// annotation placement.atoll.dev/confirm-moves or confirm-deletion. Absent: any.
	// +optional
	ConfirmAbove *int32 `json:"confirmAbove,omitempty"`
	// maxMoving is how many of the units that this policy is for move at a time for what
	// policies say, of whatever level: an edit that moves many rolls out in waves. What does not
	// become available where it goes counts as long as it takes, so that an edit that is wrong
	// stops there. Pins, drains, and the flight from what is lost do not count. Absent: what the
	// server permits.
	// +optional
	MaxMoving *int32 `json:"maxMoving,omitempty"`

	PolicyRules `json:",inline"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterPlacementPolicyList is a list of ClusterPlacementPolicies.
type ClusterPlacementPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterPlacementPolicy `json:"items"`
}

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementPolicy says where the namespace that it is in may be placed, or some objects of
// it.
type PlacementPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PlacementPolicySpec `json:"spec"`
}

// PlacementPolicySpec says for what of the namespace the rules are.
type PlacementPolicySpec struct {
	// objects makes a unit of its own of the objects that it selects: they are placed and
	// moved together and apart from the rest of the namespace, by this policy in the place
	// of those of the namespace that have no objects. If several policies select an object,
	// the first by name counts.
	// +optional
	Objects *ObjectSelection `json:"objects,omitempty"`

	PolicyRules `json:",inline"`
}

// ObjectSelection selects objects that run, or make pods. What these refer to, and what is
// about their pods (Services, Ingresses, disruption budgets, autoscalers, claims), is
// wherever they are. All that it says must hold, and it must say something.
type ObjectSelection struct {
	// kinds, absent: all.
	// +optional
	// +listType=atomic
	Kinds []ObjectKind `json:"kinds,omitempty"`
	// names of objects, absent: all.
	// +optional
	// +listType=atomic
	Names []string `json:"names,omitempty"`
	// labelSelector selects objects by their labels, absent: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// ObjectKind names a kind in whatever version.
type ObjectKind struct {
	// group is empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementPolicyList is a list of PlacementPolicies.
type PlacementPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementPolicy `json:"items"`
}

// PolicyRules are what a policy asks for.
//
// Constraints (terms, tolerations, affinity, maxCount) of all policies that select a
// unit hold together. How many and how they are laid out (count, minCount,
// topology, spread), which are better (preferences, weights), replicas, rollout, ifImpossible,
// schedulerName and move each come from the first policy that says so: that of the namespace before those of the
// logical cluster before those of "root", by name. Overrides of all hold, one after the other.
type PolicyRules struct {
	// terms select physical clusters by label: one of them must match (OR).
	// Absent permits all.
	// +optional
	// +listType=atomic
	Terms []PhysicalClusterTerm `json:"terms,omitempty"`
	// tolerations let the namespace go to physical clusters with these taints. A taint
	// must be tolerated in "root", and at each other level that has tolerations.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity relates the namespace to others of its logical cluster. All must hold.
	// +optional
	// +listType=atomic
	Affinity []UnitAffinity `json:"affinity,omitempty"`
	// maxCount is the most physical clusters that a namespace may have, whichever policy
	// wants them.
	// +optional
	MaxCount *int32 `json:"maxCount,omitempty"`

	// count is the number of physical clusters; with topology, in each group of the
	// innermost tier. Default 1. Each gets a copy of everything; see replicas.
	// +optional
	Count *int32 `json:"count,omitempty"`
	// minCount is how many are enough if fewer than count fit. Default: count.
	// +optional
	MinCount *int32 `json:"minCount,omitempty"`
	// topology lays the physical clusters out over groups, the outermost tier first:
	// two regions, and in each of them every zone.
	// +optional
	// +listType=atomic
	Topology []TopologyTier `json:"topology,omitempty"`
	// spread keeps the numbers of physical clusters even. Not together with topology.
	// +optional
	Spread *TopologySpread `json:"spread,omitempty"`

	// preferences are in order: physical clusters that the first one matches come
	// before those that the second one matches, and those before what none matches.
	// +optional
	// +listType=atomic
	Preferences []PhysicalClusterTerm `json:"preferences,omitempty"`
	// weights order what preferences leave equal, by the highest sum.
	// +optional
	// +listType=atomic
	Weights []Weight `json:"weights,omitempty"`

	// ifImpossible says what happens to an object that cannot be placed:
	// Pending (accepted, waits) or Refuse (the request fails). Default Pending.
	// +optional
	IfImpossible Impossible `json:"ifImpossible,omitempty"`

	// schedulerName leaves the decision to another program, which writes it to the
	// subresource binding of the Placement; the rules hold for it, too. "atoll" is this
	// server. From the first policy that has one.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// replicas say how many pods of an object run on each of its physical clusters. As a
	// whole from the first policy that says so; absent, each runs all.
	// +optional
	Replicas *ReplicaRules `json:"replicas,omitempty"`

	// overrides change what goes down to some physical clusters, or permit more there. Those of all policies hold,
	// the most general first, so that the most specific has the last word; of one level by
	// name, of one policy in order.
	// +optional
	// +listType=atomic
	Overrides []Override `json:"overrides,omitempty"`

	// rollout has changes reach some physical clusters before others. As a whole from the first
	// policy that has one; absent: all at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// move says how the namespace moves when the decision that it has is permitted no
	// more. As a whole from the first policy that says so.
	// +optional
	Move *MoveRules `json:"move,omitempty"`
}

// MoveRules say how a namespace moves.
type MoveRules struct {
	// mode is Auto (the default: moved as soon as something else is wanted) or Never
	// (stays where it is, and says so), which a pin and a drain override.
	// +optional
	Mode MoveMode `json:"mode,omitempty"`
	// minReadySeconds is for how long all must have been available where it goes, without a break,
	// before an address that is new there is published: kube-proxy and the health checks of
	// load balancers learn of pods later than API servers do. It is waited for where clients have
	// another address meanwhile. Default 5, between 0 and 600.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
	// drainSeconds is how long what is left stays after its addresses and endpoints
	// were withdrawn, for clients and caches to follow. Default 15.
	// +optional
	DrainSeconds *int32 `json:"drainSeconds,omitempty"`
	// return is Never (the default: what is placed stays, wherever preferences would put it
	// now) or WhenPreferred: what is where preferences put it for want of something better
	// moves to what they prefer, once that may receive it. A pin, another scheduler and the
	// mode Never keep it.
	// +optional
	Return MoveReturn `json:"return,omitempty"`
	// returnAfterSeconds is for how long what is preferred must have been ready, with room,
	// before anything returns. Default 300, between 10 and 86400. It doubles with each
	// return within a day.
	// +optional
	ReturnAfterSeconds *int32 `json:"returnAfterSeconds,omitempty"`
	// ifStuck is Wait (the default: a move that does not become available where it goes goes on,
	// and waits) or GoBack (it goes back to where it was, as long as nothing was withdrawn there,
	// and policies, pins, taints and drains let it be there). What policies want does not move it
	// there again for some time then, which doubles each time.
	// +optional
	IfStuck IfStuck `json:"ifStuck,omitempty"`
	// stuckAfterSeconds is for how long a move must not have become available to be stuck.
	// Default 300, between 1 and 86400.
	// +optional
	StuckAfterSeconds *int32 `json:"stuckAfterSeconds,omitempty"`
}

// IfStuck says what becomes of a move that does not become available where it goes.
type IfStuck string

const (
	IfStuckWait   IfStuck = "Wait"
	IfStuckGoBack IfStuck = "GoBack"
)

// MoveReturn says whether what is not where preferences want it moves there when it may.
type MoveReturn string

const (
	ReturnNever         MoveReturn = "Never"
	ReturnWhenPreferred MoveReturn = "WhenPreferred"
)

// MoveMode says whether a namespace is moved.
type MoveMode string

const (
	MoveAuto  MoveMode = "Auto"
	MoveNever MoveMode = "Never"
)

// PhysicalClusterTerm selects physical clusters by their labels. All that it says must
// hold; one that says nothing selects all.
type PhysicalClusterTerm struct {
	// matchLabels are labels with their values.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// matchExpressions have the operators In, NotIn, Exists, DoesNotExist, Gt and Lt.
	// The last two compare with one whole number.
	// +optional
	// +listType=atomic
	MatchExpressions []corev1.NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// AffinityType says how a namespace relates to others.
type AffinityType string

const (
	// AffinityWith: only where one of the others is.
	AffinityWith AffinityType = "With"
	// AffinityWithout: only where none of the others is.
	AffinityWithout AffinityType = "Without"
)

// UnitAffinity relates a namespace to others of the same logical cluster that are
// placed already.
type UnitAffinity struct {
	// type is With or Without.
	Type AffinityType `json:"type"`
	// namespaceSelector selects the others. The label kubernetes.io/metadata.name has
	// the name.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	// topologyKey widens it from one physical cluster to all with the same value of
	// this label.
	// +optional
	TopologyKey string `json:"topologyKey,omitempty"`
}

// TopologyTier groups physical clusters by a label. One without the label is in no
// group.
type TopologyTier struct {
	// key is the label.
	Key string `json:"key"`
	// count is the number of groups. Absent means every group in which what is wanted
	// inside of it fits.
	// +optional
	Count *int32 `json:"count,omitempty"`
	// minCount is how many are enough if fewer fit. Default: count, or 1 without.
	// +optional
	MinCount *int32 `json:"minCount,omitempty"`
}

// TopologySpread keeps the numbers of physical clusters even.
type TopologySpread struct {
	// key is the label by whose value they are counted. One without it is not chosen.
	Key string `json:"key"`
	// maxSkew is by how much the numbers for two values may differ; values of which no
	// physical cluster fits do not count.
	MaxSkew int32 `json:"maxSkew"`
}

// Weight is one summand of the score of a physical cluster: weight times a value
// between 0 and 100. Exactly one of term, label and free says which.
type Weight struct {
	// weight is between -100 and 100, and not 0.
	Weight int32 `json:"weight"`
	// term: 100 where it matches, else 0.
	// +optional
	Term *PhysicalClusterTerm `json:"term,omitempty"`
	// label: the number in this label, between the least (0) and the greatest (100)
	// of all that fit, such as a cost. Where it is no number, the worst.
	// +optional
	Label string `json:"label,omitempty"`
	// free: the percentage of this resource that is free.
	// +optional
	Free corev1.ResourceName `json:"free,omitempty"`
}

// Impossible says what happens to an object that cannot be placed.
type Impossible string

const (
	// ImpossiblePending accepts the object; it waits for a physical cluster.
	ImpossiblePending Impossible = "Pending"
	// ImpossibleRefuse fails the request with the reasons.
	ImpossibleRefuse Impossible = "Refuse"
)
