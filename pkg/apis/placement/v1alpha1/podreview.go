package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodReview asks the logical cluster to admit a pod that a controller makes on a physical
// cluster, as if it were made in the namespace of the review. Only the syncer of a physical cluster
// can create one; the answer is in the reply, and nothing is stored.
type PodReview struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PodReviewSpec `json:"spec,omitempty"`
	// +optional
	Status PodReviewStatus `json:"status,omitempty"`
}

// PodReviewSpec is the pod.
type PodReviewSpec struct {
	// owner is the object for which the pod is made: one that a user wrote, with a copy on
	// the physical cluster.
	Owner PodReviewOwner `json:"owner"`
	// pod is the v1 Pod as it would be made in the logical cluster. In the answer it has the
	// defaults of the server.
	Pod runtime.RawExtension `json:"pod"`
}

// PodReviewOwner names an object of the namespace.
type PodReviewOwner struct {
	// +optional
	Group string    `json:"group,omitempty"`
	Kind  string    `json:"kind"`
	Name  string    `json:"name"`
	UID   types.UID `json:"uid"`
}

// PodReviewStatus is the answer.
type PodReviewStatus struct {
	// allowed says that the pod may be made.
	// +optional
	Allowed bool `json:"allowed,omitempty"`
	// message is why not, for people; code the HTTP status of that.
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Code int32 `json:"code,omitempty"`
	// pod is the v1 Pod as the logical cluster admits it; absent if that changes nothing.
	// +optional
	Pod *runtime.RawExtension `json:"pod,omitempty"`
}
