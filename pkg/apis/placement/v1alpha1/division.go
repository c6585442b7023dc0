package v1alpha1

import corev1 "k8s.io/api/core/v1"

// ReplicaRules say how many pods of an object run on each of its physical clusters.
type ReplicaRules struct {
	// mode is Duplicate (the default: each physical cluster runs all replicas) or Divide
	// (together they run as many as spec.replicas says).
	// +optional
	Mode ReplicaMode `json:"mode,omitempty"`
	// by is how they are divided: Weights (the default), Free or Packed.
	// +optional
	By DivideBy `json:"by,omitempty"`
	// targets say more about some physical clusters: of each, the first that matches
	// counts. Where none matches, the weight is 1.
	// +optional
	// +listType=atomic
	Targets []ReplicaTarget `json:"targets,omitempty"`
}

// ReplicaMode says whether replicas are divided.
type ReplicaMode string

const (
	// ReplicasDuplicate: each physical cluster has all.
	ReplicasDuplicate ReplicaMode = "Duplicate"
	// ReplicasDivide: they have all together.
	ReplicasDivide ReplicaMode = "Divide"
)

// DivideBy says how replicas are divided.
type DivideBy string

const (
	// DivideByWeights: in proportion to the weights, exactly: each share is rounded up or
	// down.
	DivideByWeights DivideBy = "Weights"
	// DivideByFree: replicas that are added go where there is room, in proportion to it;
	// those that are there stay.
	DivideByFree DivideBy = "Free"
	// DivideByPacked: on as few physical clusters as possible; those that are there stay.
	DivideByPacked DivideBy = "Packed"
)

// ReplicaTarget is about the replicas on some physical clusters.
type ReplicaTarget struct {
	// term selects physical clusters by their labels; absent: all.
	// +optional
	Term *PhysicalClusterTerm `json:"term,omitempty"`
	// weight is between 0 and 1000, default 1. With 0 there are no more than min. By
	// Weights only.
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// min and max are how many replicas of each object run there at least and at most.
	// They yield to spec.replicas: the sum is always as many as that says.
	// +optional
	Min *int32 `json:"min,omitempty"`
	// +optional
	Max *int32 `json:"max,omitempty"`
}

// DecidedDivision is how replicas are divided over the physical clusters of a decision.
// With the object, it says the share of each.
type DecidedDivision struct {
	By DivideBy `json:"by"`
	// targets are the physical clusters of the decision.
	// +listType=map
	// +listMapKey=physicalCluster
	Targets []DecidedReplicas `json:"targets"`
}

// DecidedReplicas are about the replicas on one physical cluster.
type DecidedReplicas struct {
	PhysicalCluster string `json:"physicalCluster"`
	// weight counts by Weights.
	// +optional
	Weight int32 `json:"weight,omitempty"`
	// +optional
	Min *int32 `json:"min,omitempty"`
	// +optional
	Max *int32 `json:"max,omitempty"`
	// free is what the physical cluster had free when this was written: it counts by Free
	// and by Packed.
	// +optional
	Free corev1.ResourceList `json:"free,omitempty"`
	// ordinals says that a StatefulSet can have a range of its ordinals there: the feature
	// Ordinals of the physical cluster.
	// +optional
	Ordinals bool `json:"ordinals,omitempty"`
}

// ReplicaShare is how many replicas of an object run on one physical cluster.
type ReplicaShare struct {
	PhysicalCluster string `json:"physicalCluster"`
	Replicas        int32  `json:"replicas"`
}
