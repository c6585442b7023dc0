// Package scope says which part of the control plane a request is about: one
// logical cluster, or all of them for system identities, and optionally the
// view of one physical cluster (its target).
//
// A scope travels as the first segments of the URL path,
//
//	/clusters/<logical cluster>/...
//	/targets/<physical cluster>/clusters/<logical cluster>/...
//
// and inside a process in the context. The server parses paths into contexts
// (pkg/apiserver), clients turn contexts into paths (RoundTripper): with it one
// stock client serves every logical cluster.
//
// Invariant: there is no default. A context without a logical cluster has none,
// and whoever needs one fails.
//
// The package is a leaf: it does no I/O of its own and imports nothing of Atoll.
package scope
