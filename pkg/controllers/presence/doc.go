// Package presence has the servers of a control plane know each other's addresses: each holds
// a Lease in root that names its own, which upstream's controller renews.
//
// Invariant: a Lease is where to ask, and proves nothing: who is there has to show a
// certificate.
//
// Read next: docs/decisions/0071-tunnels-through-other-servers.md.
package presence
