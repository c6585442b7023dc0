// Package imports makes what other physical clusters know of a logical cluster where the network
// is flat: the ServiceImports by which pods reach its Services (Decide says which these are), and
// the PodImports by which policies admit its pods (PodsOf). The controller writes them.
//
// Nothing is read of a logical cluster that is on one physical cluster of a network only, but for
// Services that select no pods.
//
// Read next: docs/decisions/0088-services-of-other-physical-clusters.md, 0089 and 0090.
package imports
