// Package aggregation hands versions of API groups to servers of users: an
// APIService that names a Service does so in its logical cluster, and in no other.
//
//	Aggregation   the APIServices of all logical clusters that name a Service,
//	              and what their servers said last (aggregation.go)
//	check         is it there, what does it serve: reads, decides (decide.go is
//	              pure), writes the condition Available (check.go)
//	proxy         hands requests over, as the user who asks (proxy.go)
//	frontProxy    by what aggregated servers know who speaks (frontproxy.go)
//	Served        what discovery shows (source.go)
//	Sweep         has the servers empty a namespace that goes (content.go is pure),
//	              and says how far that is (sweeps.go, sweep.go)
//
// Invariants: everything that is kept has the logical cluster and the UID of the
// APIService in its key. No credentials of a user, and none of the control plane
// that is good anywhere else, go to an aggregated server. No worker that serves
// several logical clusters waits for one.
//
// I/O: reads and writes go to the server itself; aggregated servers are reached
// through egress.Guard only. docs/aggregated-apis.md has the whole.
package aggregation
