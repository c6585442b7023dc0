// Package nodes shows the physical clusters as the Nodes of every logical
// cluster, so that what lists nodes finds some.
//
// Nothing is stored: a Node is computed from its PhysicalCluster with each read,
// and a watch of Nodes is a watch of PhysicalClusters; a list and a watch from its
// version fit together as those do. Nodes cannot be changed.
package nodes
