// Package v1alpha1 holds the placement API: policies (who may go where),
// Placement (the decision for one unit) and Copy (one object on one target).
// It also holds the annotations of the domain and their pure encoding.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.atoll.placement.v1alpha1
// +k8s:defaulter-gen=TypeMeta
// +groupName=placement.atoll.dev
package v1alpha1
