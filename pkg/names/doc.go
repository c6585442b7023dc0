// Package names answers questions of DNS as the logical cluster of who asks does.
//
// A Zone has the names of one logical cluster: Services and their endpoints, under their
// logical namespaces, and those that are imported: their endpoints are on other physical
// clusters, and the syncer makes a Service here that leads there. Zone.Answer is pure; it
// follows the Kubernetes DNS specification 1.1.0 (github.com/kubernetes/dns,
// docs/specification.md), and where that is silent, what CoreDNS does.
//
// The invariant: what is answered under the zone comes from this logical cluster. A name
// under cluster.local that it does not have does not exist, and is asked of nobody else;
// neither are addresses of private networks, where other tenants and the physical cluster
// are. All else is for a resolver upstream, which Answer.Forward names the question for.
//
// Sockets, watches and the resolver upstream are in pkg/names/serve; who allocates the port
// of a logical cluster is pkg/syncer/agent/supplies. See docs/decisions/0038-names-in-pods.md.
package names
