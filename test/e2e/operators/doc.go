// Package operators runs real operators, unmodified, against a logical cluster:
// each is built from the module proxy (modules/go.mod), started as its authors
// start it, and led through create, ready, change and delete. An operator does
// not know that what it makes runs on a physical cluster.
//
//	sample-controller     kubeconfig; a Foo and its Deployment
//	prometheus-operator   URL and certificates; a Prometheus and its StatefulSet
//	sealed-secrets        in-cluster configuration, token and RBAC; a Secret
//	argo-rollouts         kubeconfig; a Rollout and its ReplicaSets
//
// Others run beside physical clusters, as there: snapshot-controller, csi-snapshotter and
// csi-provisioner, with a driver of directories (modules/snapshots).
//
// TestMain starts one lab: two physical clusters with simulated nodes and one
// server. An operator that is not built is skipped: `make operators` builds all
// and runs the tests. Operators that run as pods are in test/real.
package operators
