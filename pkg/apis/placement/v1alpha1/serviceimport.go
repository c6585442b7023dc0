package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceImport is a Service as pods reach it that are not beside it: on other physical
// clusters of its network, and, of one without a selector or of the type ExternalName, wherever
// its logical cluster is. It has the name and the namespace of the Service. The server writes
// it; syncers that are to make it reachable read it.
type ServiceImport struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what syncers make of it.
	Spec ServiceImportSpec `json:"spec"`
}

// ServiceImportSpec is what a Service looks like from elsewhere.
type ServiceImportSpec struct {
	// service is the UID of the Service.
	Service types.UID `json:"service"`
	// headless Services have no address, but those of their endpoints.
	// +optional
	Headless bool `json:"headless,omitempty"`
	// externalName is that of a Service of this type, which has nothing else.
	// +optional
	ExternalName string `json:"externalName,omitempty"`
	// ports are those of the Service.
	// +optional
	// +listType=atomic
	Ports []ImportedPort `json:"ports,omitempty"`
	// sessionAffinity is that of the Service.
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
	// sessionAffinityConfig is that of the Service.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`
	// trafficDistribution is that of the Service.
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
	// importers are the physical clusters on which it is made reachable.
	// +listType=map
	// +listMapKey=physicalCluster
	Importers []Importer `json:"importers"`
	// endpoints are where it leads to, at most 1,000 in all.
	// +optional
	// +listType=atomic
	Endpoints []ImportedEndpoints `json:"endpoints,omitempty"`
	// written are the endpoints that users wrote, if the Service has no selector. Those that pods of its
	// namespace have are of the physical cluster where these run; of the others, which are of none,
	// each physical cluster takes those that it permits.
	// +optional
	// +listType=atomic
	Written []ImportedEndpoints `json:"written,omitempty"`
	// truncated is the number of endpoints that are left out.
	// +optional
	Truncated int32 `json:"truncated,omitempty"`
}

// ImportedPort is a port of a Service.
type ImportedPort struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`
	Port        int32   `json:"port"`
}

// Importer is a physical cluster on which a Service is made reachable.
type Importer struct {
	PhysicalCluster string `json:"physicalCluster"`
	// network of the physical cluster: endpoints in others are not for it. It is empty if it has
	// none, and for what needs none.
	Network string `json:"network"`
	// beside says that a copy of the Service is there, which gets the endpoints elsewhere, and
	// those that users wrote.
	// +optional
	Beside bool `json:"beside,omitempty"`
	// own says that a Service of its own leads to all endpoints: none of a copy does, or will
	// for long.
	// +optional
	Own bool `json:"own,omitempty"`
}

// ImportedEndpoints are endpoints on one physical cluster, or on none, with the same ports.
type ImportedEndpoints struct {
	PhysicalCluster string `json:"physicalCluster"`
	Network         string `json:"network"`
	// family of the addresses: IPv4 or IPv6.
	Family corev1.IPFamily `json:"family"`
	// ports of the pods, by the name of that of the Service.
	// +optional
	// +listType=atomic
	Ports []ImportedPort `json:"ports,omitempty"`
	// +listType=atomic
	Endpoints []ImportedEndpoint `json:"endpoints"`
}

// ImportedEndpoint is one pod.
type ImportedEndpoint struct {
	Address string `json:"address"`
	// hostname by which a headless Service has the pod in DNS.
	// +optional
	Hostname string `json:"hostname,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceImportList is a list of imports.
type ServiceImportList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceImport `json:"items"`
}
