package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementBinding says where a unit goes: what a scheduler creates as the subresource
// binding of a Placement. It is refused unless the policies name that scheduler and permit
// these physical clusters.
//
// Its name is that of the Placement. uid and resourceVersion, if it has them, are those that
// the scheduler has decided upon: if the Placement has others, it conflicts.
type PlacementBinding struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// schedulerName is who binds.
	SchedulerName string `json:"schedulerName"`
	// physicalClusters are all that the unit shall be on. It moves there, and leaves others.
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters"`
}
