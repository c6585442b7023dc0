// Package v1alpha1 holds the tenancy API: LogicalCluster, one isolated
// Kubernetes API served at /clusters/<name>. Objects of this group live in the
// logical cluster "root" only.
//
// The types are hand-written here; deep copies, clients, apply configurations
// and OpenAPI definitions are generated (see hack/generate.sh). The same Go
// types serve as the internal version: see docs/decisions/0003-native-api.md.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.atoll.tenancy.v1alpha1
// +k8s:defaulter-gen=TypeMeta
// +groupName=tenancy.atoll.dev
package v1alpha1
