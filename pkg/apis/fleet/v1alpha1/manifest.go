package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ManifestRemoval says what becomes of what a Manifest carries where the Manifest is not any more.
type ManifestRemoval string

const (
	// RemovalDelete: it is deleted there.
	RemovalDelete ManifestRemoval = "Delete"
	// RemovalKeep: it stays, without the marks of the control plane.
	RemovalKeep ManifestRemoval = "Keep"
)

// MaxManifestKinds is how many kinds Manifests may carry on one physical cluster: each is watched there.
const MaxManifestKinds = 64

// ConditionApplied of a Manifest: all physical clusters of its placement have what it carries, as it is
// written now.
const (
	// ConditionApplied has the reason ReasonApplied if it is True.
	ConditionApplied = "Applied"
	ReasonApplied    = "Applied"
	// ReasonNotApplied: some have it not yet; the message names them.
	ReasonNotApplied = "NotApplied"
	// ReasonSyncerTooOld: the condition is Unknown, as the syncers of some are from before Manifests; the
	// message names those.
	ReasonSyncerTooOld = "SyncerTooOld"
)

// Reasons of the Copies of Manifests.
const (
	// ReasonNoNamespace: the kind is in namespaces there, and the object names none.
	ReasonNoNamespace = "NoNamespace"
	// ReasonClusterScoped: the kind is in no namespace there, and the object names one.
	ReasonClusterScoped = "ClusterScoped"
	// ReasonNamespaceMissing: the physical cluster has no such namespace, which another Manifest may
	// carry.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonTooManyKinds: MaxManifestKinds others are carried there.
	ReasonTooManyKinds = "TooManyKinds"
	// ReasonKindsNotKnown: the physical cluster was asked what it serves, and did not say.
	ReasonKindsNotKnown = "KindsNotKnown"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Manifest carries one object that an admin has on physical clusters as it is: of any kind, in any
// namespace there or in none. Where that is, the placement of its own namespace says, which is in the
// logical cluster "root".
type Manifest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ManifestSpec `json:"spec"`
	// +optional
	Status ManifestStatus `json:"status,omitempty"`
}

// ManifestSpec says what is carried.
type ManifestSpec struct {
	// object is what is applied: apiVersion, kind, a name, and a namespace if the kind is in
	// namespaces. Its group, kind, namespace and name never change. A status in it, and what a
	// server writes into metadata, is left out.
	// +kubebuilder:pruning:PreserveUnknownFields
	Object runtime.RawExtension `json:"object"`
	// removal says what becomes of it where the Manifest is deleted, or moves away from. Default: Keep
	// for CustomResourceDefinitions, Namespaces, PersistentVolumes and PersistentVolumeClaims, with
	// which others lose what is in them, and for what was there before; Delete for all else.
	// +optional
	Removal ManifestRemoval `json:"removal,omitempty"`
	// adopt takes over an object of that name that is there and belongs to no control plane. Without
	// it, the object is left alone, and the Copy fails.
	// +optional
	Adopt bool `json:"adopt,omitempty"`
}

// ManifestStatus says how far that is.
type ManifestStatus struct {
	// observedGeneration is the generation that all physical clusters have.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are those of the object: of several physical clusters, the worst of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []ManifestCondition `json:"conditions,omitempty"`
}

// ManifestCondition is a condition of an object of any kind.
type ManifestCondition struct {
	Type   string                 `json:"type"`
	Status metav1.ConditionStatus `json:"status"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ManifestList is a list of Manifests.
type ManifestList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Manifest `json:"items"`
}
