// Package deletion lets a request that deletes a placed object return when the
// object is gone, as it does in a cluster without placement.
//
// A Deployment, a Service or a Job has our finalizer until each of its copies is
// gone, which takes some ten milliseconds. Clients of Kubernetes rely on the
// opposite: an object without finalizers of theirs is gone when the answer comes,
// and its name is free. So the answer waits for that, a little: while nothing
// but our finalizer holds the object, and for two seconds at most (waitTimeout).
// After that, and for a physical cluster that does not answer, the answer is that of
// an object with a finalizer: it says since when it is deleted.
//
// It asks once whether we alone hold the object; informers say when that is over, so
// waiting costs nothing (waiters.go). So many may wait, and no more, in all and in one
// logical cluster; a request that ends takes its wait along.
//
// What the server itself, a syncer or a dry run deletes does not wait, nor does a
// Pod with a grace period or a Namespace: in those clients see the end by
// themselves everywhere.
package deletion
