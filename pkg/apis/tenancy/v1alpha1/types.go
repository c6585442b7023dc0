package v1alpha1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContentFinalizer holds a LogicalCluster until nothing is left in it.
const ContentFinalizer = "tenancy.atoll.dev/content"

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LogicalCluster is a named, isolated Kubernetes API. Its name is the segment
// in its URL, /clusters/<name>. It is usable when its creation returns.
type LogicalCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the admin asks for.
	// +optional
	Spec LogicalClusterSpec `json:"spec,omitempty"`
	// status is what the server found.
	// +optional
	Status LogicalClusterStatus `json:"status,omitempty"`
}

// LogicalClusterSpec is the desired state of a LogicalCluster.
type LogicalClusterSpec struct {
	// owners are made cluster-admin inside the logical cluster.
	// +optional
	// +listType=atomic
	Owners []rbacv1.Subject `json:"owners,omitempty"`
}

// LogicalClusterPhase says where a logical cluster is in its life.
type LogicalClusterPhase string

const (
	// LogicalClusterInitializing means that the first objects are being made.
	LogicalClusterInitializing LogicalClusterPhase = "Initializing"
	// LogicalClusterReady means that the logical cluster serves requests.
	LogicalClusterReady LogicalClusterPhase = "Ready"
	// LogicalClusterTerminating means that everything in it is being removed.
	LogicalClusterTerminating LogicalClusterPhase = "Terminating"
)

// LogicalClusterStatus is the observed state of a LogicalCluster.
type LogicalClusterStatus struct {
	// phase is a summary of the conditions.
	// +optional
	Phase LogicalClusterPhase `json:"phase,omitempty"`
	// url is where the API of this logical cluster is served.
	// +optional
	URL string `json:"url,omitempty"`
	// conditions: Ready, and while deleting ContentRemoved with what is left.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LogicalClusterList is a list of LogicalClusters.
type LogicalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LogicalCluster `json:"items"`
}
