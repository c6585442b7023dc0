// Package controller is what every controller of Atoll stands on: informers
// that see all logical clusters through one watch, and one queue loop.
//
// An Informer is a stock cache.Reflector that feeds an own store, keyed by
// logical cluster, namespace and name. The stock shared informer cannot do this:
// it keys by namespace and name, so of equally named objects in two logical
// clusters it keeps one. For the same reason the
// reflector must not use streaming lists, which collect the initial state in a
// store with such keys; every Informer opts out of them.
//
// A Controller is a rate limited work queue with workers that call one
// reconcile function. Metadata is one set of informers over the metadata of
// all resources, shared by the controllers that are generic over kinds.
//
// What an Informer reports as deleted is gone from the server: it was deleted
// while the watch was open, or a complete list no longer has it. That is good
// enough for controllers that write to the control plane, where a wrong guess
// costs one request. It is never ground to delete anything on a physical
// cluster: a server with a restored backup lists less than there was. Code
// that deletes there asks the server for the object by UID first.
//
// Handlers run in the reflector's goroutine under the informer's lock. They
// enqueue and do nothing else.
//
// The package knows no domain. I/O happens in Informer.Run only.
package controller
