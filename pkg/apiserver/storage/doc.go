// Package storage is the one place where logical clusters meet etcd. It wraps
// the stock RESTOptionsGetter, so that every registry of the server stores
// objects of all logical clusters side by side without knowing of them:
//
//	/<resource>/<namespace>/<name>  ->  /<resource>/<logical cluster>/<namespace>/<name>
//
// The logical cluster comes from the context (pkg/scope), the annotation
// kcp.io/cluster is stamped on every write. One watch cache per resource serves
// all logical clusters. Three things that the stock watch cache does would lose
// objects or cost time in proportion to the number of logical clusters; each is
// closed here and guarded by a test:
//
//   - its reflector drops all but one of equally named objects if it may stream
//     its initial list (cacher.go: beginning);
//   - every watch evaluates every event, unless watchers are bucketed by a
//     trigger (attrs.go: clusterField);
//   - initial events of a watch walk the whole resource (initial.go).
//
// With a target in the context the store shows the view of one physical
// cluster: only what Options.Targets says is visible to it. Lists of a view are
// answered by the watch cache through an index; watches are fed by the hub
// (hub.go), the only watcher of the watch cache for all views of a resource.
//
// Invariant: a key of one logical cluster is never read or written on behalf of
// another. The key is the truth, the annotation its mirror. A context without a
// logical cluster fails; there is no default.
//
// The watch cache of a resource begins with its first object, whoever writes it
// (lazy.go, vacancy.go).
//
// I/O happens in the stock etcd3 store below, and in vacancy.go, which has one
// goroutine and one watch of etcd for each resource without objects; the hub runs one
// goroutine per resource that has ever been asked for a view. Start reading at store.go.
package storage
