package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of the Ready condition about who the physical cluster is.
const (
	// ReasonOtherCluster: another cluster answers than the one that is meant.
	ReasonOtherCluster = "OtherCluster"
	// ReasonEmptied: the physical cluster has lost all namespaces of ours at once.
	ReasonEmptied = "Emptied"
	// ReasonSameCluster: another PhysicalCluster is this very cluster.
	ReasonSameCluster = "SameCluster"
	// ReasonIdentifying: who it is has been read, and is about to be recorded.
	ReasonIdentifying = "Identifying"
)

// IdentitiesName is the ConfigMap beside the Leases that has, for each identity,
// the PhysicalCluster that it belongs to.
const IdentitiesName = "physical-cluster-identities"

// PhysicalClusterIdentity says which cluster a PhysicalCluster is. Nothing is written to,
// believed of, or reported from any other.
type PhysicalClusterIdentity struct {
	// uid is the UID of the namespace kube-system. Its syncer records it with the
	// first contact; another one takes its place only if spec.identity names it.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// accepted is the uid that the server has found to be that of no other
	// PhysicalCluster. Nothing is synced before.
	// +optional
	Accepted types.UID `json:"accepted,omitempty"`
	// sameAs names the PhysicalCluster that had the uid first.
	// +optional
	SameAs string `json:"sameAs,omitempty"`
	// populated says that namespaces of ours have been seen there.
	// +optional
	Populated bool `json:"populated,omitempty"`
	// emptied is when it was found that none of them is there any more, although
	// the records of their copies say that they should be. It goes on when they
	// are back, or spec.emptied has this very time.
	// +optional
	Emptied *metav1.Time `json:"emptied,omitempty"`
}
