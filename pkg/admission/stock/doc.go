// Package stock runs upstream's admission plugins, which know one Kubernetes
// cluster, for all logical clusters. There are three ways, by what a plugin
// remembers:
//
//	Shared     looks at the request and the authorizer only: one instance
//	Instant    reads informers and remembers nothing: a new instance for each
//	           request that concerns it, on the views of its logical cluster
//	Lazy       compiles, caches or watches: one instance for a logical cluster,
//	           from its first object for the plugin (a policy binding, a webhook
//	           configuration) to its last
//
// An instance gets the views of one logical cluster and clients that are pinned
// to it: plugins call their clients with contexts that have lost the logical
// cluster.
//
// Invariant: no instance ever sees two logical clusters, and a logical cluster
// without objects for a lazy plugin costs nothing.
//
// I/O happens in the plugins. Read environment.go first.
package stock
