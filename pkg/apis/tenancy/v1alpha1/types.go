package v1alpha1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	// limits are the most that the logical cluster may use of the server.
	// +optional
	Limits LogicalClusterLimits `json:"limits,omitempty"`
}

// Unlimited is the value of a limit that does not limit.
const Unlimited = -1

// LogicalClusterLimits are the most that a logical cluster may use of the server that it
// shares with others. A limit that is absent or zero is the default one, -1 is none.
// The logical cluster "root" has none.
type LogicalClusterLimits struct {
	// objects is how many objects users may keep, and as many records: Copies,
	// Placements, Events, Pods, ReplicaSets, ControllerRevisions, Endpoints and
	// EndpointSlices. Default: 20000.
	// +optional
	Objects int64 `json:"objects,omitempty"`
	// bytes is how large the objects may be together, as they are stored, and the
	// records. Default: 256Mi.
	// +optional
	Bytes *resource.Quantity `json:"bytes,omitempty"`
	// definitions is how many CustomResourceDefinitions there may be. Default: 500.
	// +optional
	Definitions int64 `json:"definitions,omitempty"`
	// definitionBytes is how large the CustomResourceDefinitions may be together.
	// Default: 64Mi.
	// +optional
	DefinitionBytes *resource.Quantity `json:"definitionBytes,omitempty"`
	// writtenBytes is how much may be written within the last five to ten minutes, for
	// which old versions are kept. Default: 1Gi.
	// +optional
	WrittenBytes *resource.Quantity `json:"writtenBytes,omitempty"`
	// watches is how many watches of users each server serves at a time. One with long selectors, and
	// one of custom resources that was sent large objects, counts for more. Default: 2000.
	// +optional
	Watches int64 `json:"watches,omitempty"`
	// requestsInFlight is how many requests with credentials of the logical cluster
	// each server serves at a time; some more wait. Default: four for each core of the
	// server, at least eight.
	// +optional
	RequestsInFlight int64 `json:"requestsInFlight,omitempty"`
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
	// conditions: Ready, while deleting ContentRemoved with what is left, and LimitsReached once there
	// was as much of something as spec.limits permits.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// usage is what the logical cluster kept a while ago, of what spec.limits limits.
	// +optional
	Usage *LogicalClusterUsage `json:"usage,omitempty"`
}

// LogicalClusterUsage is what a logical cluster keeps.
type LogicalClusterUsage struct {
	// observedTime is when it was counted. Every fifteen seconds it is compared, and
	// written if it has changed by much, or some minutes ago.
	ObservedTime metav1.Time `json:"observedTime"`
	// objects is how many objects there are, without records and definitions.
	Objects int64 `json:"objects"`
	// bytes is how large the objects are together, as they are stored.
	Bytes resource.Quantity `json:"bytes"`
	// records is how many Copies, Placements, Events, Pods, ReplicaSets,
	// ControllerRevisions, Endpoints and EndpointSlices there are.
	Records int64 `json:"records"`
	// recordBytes is how large the records are together.
	RecordBytes resource.Quantity `json:"recordBytes"`
	// definitions is how many CustomResourceDefinitions there are.
	Definitions int64 `json:"definitions"`
	// definitionBytes is how large the CustomResourceDefinitions are together.
	DefinitionBytes resource.Quantity `json:"definitionBytes"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LogicalClusterList is a list of LogicalClusters.
type LogicalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LogicalCluster `json:"items"`
}
