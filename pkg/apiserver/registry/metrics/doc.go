// Package metrics serves metrics.k8s.io of a logical cluster: what its pods use on the physical
// clusters where they run, and what it uses of each of these, as kubectl top shows.
//
//	answer   what a physical cluster says, item by item and within bounds: pure
//	plan     which physical namespaces are asked for which pods: pure
//	asker    asks them, a few at a time
//	Pods, Nodes   the resources
//
// Nothing is stored and nothing is kept: each request asks.
//
// Invariant: an answer adds figures to pods that the server knows to run there, and nothing
// else: no pod, no container, no label. A physical cluster that does not answer is a
// warning, and what it would have said is missing; it is never a zero.
//
// Read next: plan, docs/decisions/0064-metrics.md.
package metrics
