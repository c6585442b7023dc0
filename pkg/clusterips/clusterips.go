// Package clusterips says from which ranges the Services of a logical cluster get their cluster IPs. Every logical
// cluster has the same ones: an address leads nowhere by itself, as each physical cluster gives the copy one of its own.
package clusterips

import "net/netip"

// The ranges of the two families; a Service that does not say which it wants gets IPv4.
var (
	// IPv4 is upstream's default.
	IPv4 = netip.MustParsePrefix("10.96.0.0/12")
	// IPv6 has as many addresses, of those that nobody routes.
	IPv6 = netip.MustParsePrefix("fd00:10:96::/108")
)

// Server is the address of the Service of the API server, the first of its range, as in any cluster.
const Server = "10.96.0.1"
