// Package builtin serves the built-in kinds of Kubernetes from upstream's own
// registries, without a copy of any of them.
//
// Upstream's all-in-one composition (pkg/controlplane) is not used: it brings
// allocators, repair loops and controllers for one cluster. Each group's storage
// provider is called instead, the core group is put together in core.go, and
// what upstream allocates from one cluster-wide pool (cluster IPs, node ports)
// is allocated for each logical cluster in addresses.go.
//
// Evictions are those of package evictions; logs, exec, attach and port-forward
// those of package pods. The proxies of pods, services and nodes are not served.
package builtin
