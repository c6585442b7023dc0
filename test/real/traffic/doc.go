// Package traffic is consumers of a Service that count, where they are, what failed.
//
// A consumer learns where to go as real ones do, from a watch of the API: Directory has
// the ready endpoints of EndpointSlices, for those who reach pods, and the addresses in
// the status of the Service, for all others. It keeps what it knew last when the API is
// away. Pods that send requests report to a Collector.
//
// A request fails if there is nowhere to send it, or no answer 200 comes. A stream fails if
// it ends before its consumer left it; who follows the watch leaves an address when that
// is withdrawn.
package traffic
