// Package podsecurity enforces the Pod Security Standards that the labels of a
// namespace ask for, and warns about workloads whose pods would break them.
//
// Checks and messages are those of k8s.io/pod-security-admission; the plugin
// around them is new, since upstream's reads namespaces without a logical
// cluster.
//
// I/O: the namespace, if the informer does not have it; the pods of a namespace
// whose labels change.
package podsecurity
