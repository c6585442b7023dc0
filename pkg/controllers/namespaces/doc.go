// Package namespaces removes the content of namespaces that are being deleted,
// in every logical cluster, and then lets them go.
//
// The work itself is done by the stock deleter of Kubernetes with clients in
// the scope of the logical cluster; this package decides when it runs and what
// it may see:
//
//   - Records of placement (Copies, Placements) are hidden from it. They say
//     what is left on physical clusters and must outlive what they describe;
//     they are removed when the Namespace is gone.
//
//   - Workloads are deleted before it runs. It waits for the pods to go before
//     it touches anything else; but pods of a placed workload live on a
//     physical cluster, and go when the workload does.
//
//   - What other servers keep (aggregated APIs) is deleted by whoever knows them,
//     in their own time; the deleter learns what came of it.
//
//   - Resources of which the informers know no object in the namespace are left
//     alone until the end: a namespace uses a few of all resources.
//
// There are few passes over a namespace: one when it is deleted, one when its last
// pod is gone, one when everything is, each on an event; timers only keep
// the conditions current. A namespace that waits holds no worker.
//
// Invariant: a namespace is finalized only by the stock deleter, after every
// resource was listed at the server and nothing was found. No worker waits for a
// server that a tenant has chosen.
//
// discovery.go and decide.go are pure; the others do the I/O.
package namespaces
