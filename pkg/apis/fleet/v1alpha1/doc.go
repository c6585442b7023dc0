// Package v1alpha1 holds the fleet API: PhysicalCluster, a real Kubernetes
// cluster registered with the control plane; Orphan, what was found there
// that belongs to nothing here; PlacedKind, a kind of custom resources that are
// placed. Objects of this group live in the logical cluster "root" only.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.atoll.fleet.v1alpha1
// +k8s:defaulter-gen=TypeMeta
// +groupName=fleet.atoll.dev
package v1alpha1
