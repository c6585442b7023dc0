package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaxOrphans is how many Orphans of one physical cluster are listed at a time;
// status.orphans of the PhysicalCluster counts all.
const MaxOrphans = 1000

// ConditionObjectExists of an Orphan is what the server found when it was asked
// for the claimed object, by UID: True if it exists, False if it is gone. It holds
// for an order if its observedGeneration is the generation of the Orphan.
const ConditionObjectExists = "ObjectExists"

// Reasons of the condition ObjectExists.
const (
	// ReasonExists: the object exists, and is not placed on the physical cluster.
	ReasonExists = "Exists"
	// ReasonNotFound: there is no object of the name.
	ReasonNotFound = "NotFound"
	// ReasonOtherUID: the object of the name is another one.
	ReasonOtherUID = "OtherUID"
	// ReasonNoLogicalCluster: the logical cluster does not exist.
	ReasonNoLogicalCluster = "NoLogicalCluster"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Orphan is an object of a physical cluster that carries the mark of this control
// plane and has neither an object nor a Copy here. The syncer of the physical
// cluster makes it when it finds one, and removes it when that is gone or a copy
// again. Nothing happens to what it names without an order.
type Orphan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was found, and what an admin orders.
	// +optional
	Spec OrphanSpec `json:"spec,omitempty"`
	// status is what became of the order.
	// +optional
	Status OrphanStatus `json:"status,omitempty"`
}

// OrphanSpec is what was found and what is to become of it. All of it save order
// never changes.
type OrphanSpec struct {
	// physicalCluster is where it is.
	PhysicalCluster string `json:"physicalCluster"`
	// object is what is on the physical cluster.
	Object PhysicalObject `json:"object"`
	// claim is the object that it says to be the copy of.
	Claim ClaimedObject `json:"claim"`
	// order is written by an admin: Leave, Remove, Discard or Adopt. Empty as long as nobody
	// has decided.
	// +optional
	Order OrphanOrder `json:"order,omitempty"`
}

// PhysicalObject names an object of a physical cluster.
type PhysicalObject struct {
	// +optional
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	// namespace is the physical one; a namespace is in none.
	// +optional
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// created is when it was made there.
	// +optional
	Created metav1.Time `json:"created,omitzero"`
}

// ClaimedObject names an object of a logical cluster, of the same kind; in root, the Manifest that carried it.
type ClaimedObject struct {
	LogicalCluster string `json:"logicalCluster"`
	// namespace is the logical one; of a Namespace, itself.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// OrphanOrder is what an admin orders.
type OrphanOrder string

const (
	// OrphanLeave keeps it; it does not count as undecided any more.
	OrphanLeave OrphanOrder = "Leave"
	// OrphanRemove deletes it, by UID, once the server has said that the object with
	// the claimed UID is gone.
	OrphanRemove OrphanOrder = "Remove"
	// OrphanDiscard is OrphanRemove also if that object exists, unless it is placed there: what is meant is elsewhere
	// by now. The volumes of claims are kept.
	OrphanDiscard OrphanOrder = "Discard"
	// OrphanAdopt makes it the copy of the object of the claimed name, as soon as
	// there is one and it is placed there.
	OrphanAdopt OrphanOrder = "Adopt"
)

// OrphansOrder is an order for many Orphans.
type OrphansOrder struct {
	// order is Leave, Remove, Discard or Adopt.
	Order OrphanOrder `json:"order"`
	// foundBefore bounds what the order is about: Orphans that were made until then.
	// It may lie ahead.
	FoundBefore metav1.Time `json:"foundBefore"`
}

// OrphanCounts counts orphans.
type OrphanCounts struct {
	// found is how many there are, listed or not.
	// +optional
	Found int32 `json:"found,omitempty"`
	// undecided is how many of them have no order.
	// +optional
	Undecided int32 `json:"undecided,omitempty"`
}

// OrphanState says how far an order is.
type OrphanState string

const (
	// OrphanFound: nobody has decided.
	OrphanFound OrphanState = "Found"
	// OrphanLeft: it is left where it is.
	OrphanLeft OrphanState = "Left"
	// OrphanRemoving: it is being removed.
	OrphanRemoving OrphanState = "Removing"
	// OrphanAdopting: it is about to be a copy again.
	OrphanAdopting OrphanState = "Adopting"
	// OrphanRefused: the order cannot be carried out as things are; the reason says
	// why. It is, when that changes.
	OrphanRefused OrphanState = "Refused"
)

// OrphanStatus is what became of an order.
type OrphanStatus struct {
	// state, reason and message are the syncer's.
	// +optional
	State OrphanState `json:"state,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// observedGeneration is the generation that they are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: ObjectExists, which the server writes.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// OrphanList is a list of Orphans.
type OrphanList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Orphan `json:"items"`
}
