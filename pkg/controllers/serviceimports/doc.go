// Package serviceimports makes the ServiceImports by which pods reach the Services of their
// logical cluster on other physical clusters, where the network is flat: Decide says which
// these are, the controller writes them.
//
// Nothing is read of a logical cluster that is on one physical cluster of a network only.
//
// Read next: docs/decisions/0088-services-of-other-physical-clusters.md.
package serviceimports
