package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// MaxPlacedKinds is how many PlacedKinds count, the oldest.
	MaxPlacedKinds = 64
	// MaxPodTemplates is how many paths of pod templates one may have.
	MaxPodTemplates = 8
	// MaxStatusCounters is how many counters one may sum.
	MaxStatusCounters = 32
	// KindInUseFinalizer keeps a PlacedKind while objects of the kind have targets or
	// copies.
	KindInUseFinalizer = "fleet.atoll.dev/kind-in-use"
)

// ConditionDeclaredKinds of a PhysicalCluster: its syncer may work with the declared kinds
// that it serves. It is there if any are declared.
const ConditionDeclaredKinds = "DeclaredKinds"

// Reasons of ConditionDeclaredKinds.
const (
	// ReasonKindsPermitted: it may.
	ReasonKindsPermitted = "Permitted"
	// ReasonKindsForbidden: it may not list some; the message names them.
	ReasonKindsForbidden = "Forbidden"
)

// Conditions of a PlacedKind, and their reasons.
const (
	// ConditionAccepted: the kind is in the catalog.
	ConditionAccepted = "Accepted"
	// ReasonAccepted: it is.
	ReasonAccepted = "Accepted"
	// ReasonTooMany: there are MaxPlacedKinds older ones.
	ReasonTooMany = "TooMany"
	// ReasonRefused: it contradicts itself or another kind; the message says how.
	ReasonRefused = "Refused"

	// ConditionSuitable: the definitions of all selected logical clusters that define the
	// kind suit.
	ConditionSuitable = "Suitable"
	// ReasonSuitable: they do.
	ReasonSuitable = "Suitable"
	// ReasonDefinitionsDiffer: some do not; the message names one and says why.
	ReasonDefinitionsDiffer = "DefinitionsDiffer"
	// ReasonNotDefined: no selected logical cluster defines the kind.
	ReasonNotDefined = "NotDefined"

	// ConditionInUse: objects of the kind have targets or copies.
	ConditionInUse = "InUse"
	// ReasonPlaced: there are some; the message counts them.
	ReasonPlaced = "Placed"
	// ReasonUnused: there are none.
	ReasonUnused = "Unused"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacedKind declares a kind of custom resources of which objects are placed on physical
// clusters. Its name is that of the definition, <resource>.<group>. All other custom
// resources stay in their logical cluster.
type PlacedKind struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what an admin declares.
	Spec PlacedKindSpec `json:"spec"`
	// status is what the server says of it.
	// +optional
	Status PlacedKindStatus `json:"status,omitempty"`
}

// PlacedKindSpec declares a kind.
type PlacedKindSpec struct {
	// version in which objects are read and applied; it never changes.
	Version string `json:"version"`
	// kind is that of the objects; it never changes.
	Kind string `json:"kind"`
	// logicalClusters selects, by the labels of LogicalClusters, where objects are placed;
	// the empty selector selects all, none selects no logical cluster.
	// +optional
	LogicalClusters *metav1.LabelSelector `json:"logicalClusters,omitempty"`
	// podTemplates are the paths of the pod templates of an object, such as spec.template:
	// their fields pass the same fence as those of a Deployment. In all but the first, "*"
	// is each item of a list. Filled in for well-known kinds.
	// +optional
	// +listType=atomic
	PodTemplates []string `json:"podTemplates,omitempty"`
	// replicas is the path of the number of pods, such as spec.replicas. Filled in for
	// well-known kinds.
	// +optional
	Replicas string `json:"replicas,omitempty"`
	// scales is the path of the reference to what an autoscaler scales, such as
	// spec.scaleTargetRef: the number of its pods is left to the physical cluster then. Filled
	// in for well-known kinds.
	// +optional
	Scales string `json:"scales,omitempty"`
	// changes says how a change of an object reaches its copies; default Update.
	// +optional
	Changes PlacedKindChanges `json:"changes,omitempty"`
	// status says how the status of an object follows from its copies.
	// +optional
	Status PlacedKindStatusRules `json:"status,omitempty"`
}

// PlacedKindChanges says how a change of an object reaches its copies.
type PlacedKindChanges string

const (
	// ChangesUpdate: copies are changed.
	ChangesUpdate PlacedKindChanges = "Update"
	// ChangesRecreate: a copy whose fields cannot be changed is made again.
	ChangesRecreate PlacedKindChanges = "Recreate"
)

// PlacedKindStatusRules says how the status of an object follows from its copies: that of
// its only copy as it is; of several, counters are summed, of conditions the worst counts.
type PlacedKindStatusRules struct {
	// source says who writes the status; default Copies.
	// +optional
	Source PlacedKindStatusSource `json:"source,omitempty"`
	// observedGeneration says that the operator writes status.observedGeneration: until it
	// has, it has not looked.
	// +optional
	ObservedGeneration bool `json:"observedGeneration,omitempty"`
	// counters are the fields of the status that are summed, such as readyReplicas.
	// +optional
	// +listType=set
	Counters []string `json:"counters,omitempty"`
	// rule is a CEL expression for what is not simply merged: its value, a map, has fields of
	// the status, all but observedGeneration. Variables are self, the object; copies, a list of
	// physicalCluster and status of each target that has said something; and status, what they
	// say merged without the rule.
	// +optional
	Rule string `json:"rule,omitempty"`
}

// PlacedKindStatusSource says who writes the status of an object.
type PlacedKindStatusSource string

const (
	// StatusFromCopies: the copies.
	StatusFromCopies PlacedKindStatusSource = "Copies"
	// StatusOfLogicalCluster: nobody, or who runs in front of the logical cluster.
	StatusOfLogicalCluster PlacedKindStatusSource = "LogicalCluster"
)

// PlacedKindStatus is what the server says of a declaration.
type PlacedKindStatus struct {
	// observedGeneration is the generation that the rest is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// physicalClusters are those whose syncers see the declaration: all, but none as long as
	// no logical cluster defines the kind and there is no copy of it.
	// +optional
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters,omitempty"`
	// objects counts the objects of the kind that have targets.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// conditions: Accepted, Suitable, InUse.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacedKindList is a list of PlacedKinds.
type PlacedKindList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacedKind `json:"items"`
}
