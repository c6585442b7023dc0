package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodImportName is the name of the only PodImport of a namespace.
const PodImportName = "pods"

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodImport has the pods of a namespace as NetworkPolicies on other physical clusters of their
// network mean them: by labels and addresses. The server writes it; syncers of those physical
// clusters read it.
type PodImport struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what policies look at.
	Spec PodImportSpec `json:"spec"`
}

// PodImportSpec is what policies look at.
type PodImportSpec struct {
	// namespaceLabels are the labels of the namespace.
	// +optional
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`
	// importers are the physical clusters whose policies may mean the pods: those of their own
	// network on others.
	// +listType=map
	// +listMapKey=physicalCluster
	Importers []PodImporter `json:"importers"`
	// pods that have an address; at most 1,000 addresses in all.
	// +optional
	// +listType=atomic
	Pods []ImportedPods `json:"pods,omitempty"`
	// truncated is the number of addresses that are left out.
	// +optional
	Truncated int32 `json:"truncated,omitempty"`
}

// PodImporter is a physical cluster whose policies may mean pods elsewhere.
type PodImporter struct {
	PhysicalCluster string `json:"physicalCluster"`
	Network         string `json:"network"`
}

// ImportedPods are pods with the same labels on one physical cluster.
type ImportedPods struct {
	PhysicalCluster string `json:"physicalCluster"`
	// network of the physical cluster: the addresses are those of others in other networks.
	Network string `json:"network"`
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +listType=atomic
	Addresses []string `json:"addresses"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodImportList is a list of PodImports.
type PodImportList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodImport `json:"items"`
}
