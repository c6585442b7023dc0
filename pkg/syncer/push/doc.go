// Package push runs the syncer inside the server for every PhysicalCluster whose
// connection is of type Push, with the kubeconfig from its Secret.
//
// Each physical cluster has an agent of its own. A kubeconfig that cannot be
// used ends in the Ready condition of that PhysicalCluster and concerns no other;
// a Secret that changes restarts that agent.
//
// A kubeconfig comes from a Secret and is used by the server: what would make the
// server run a program or read one of its own files is refused.
package push
