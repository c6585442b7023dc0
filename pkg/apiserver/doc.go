// Package apiserver composes the API server: upstream's generic server behind
// the scope filter, with upstream's registries over the storage decorator.
//
// The life of a request: WithScope takes the logical cluster (and target) out of
// the URL path into the context; from there on everything is upstream's handler
// chain, which authenticates, authorizes (auth/), admits (the plugins that the
// caller composed), and reads or writes through registries (registry/) whose
// storage (storage/) adds the logical cluster to every key.
//
// Invariant: a request without a logical cluster reaches health, version and
// metrics only; code behind the filter that lost the cluster fails closed.
//
// The package starts no controller. cmd/atoll/app composes it with them.
package apiserver
