// Package evictions serves pods/eviction: a pod is deleted if its disruption
// budget, that of the logical cluster of the request, can spare it.
//
// It does what upstream's storage of evictions does and is not that one, which
// asks for budgets with contexts of its own, so that they name no logical cluster.
//
//	pod                  budget                        what happens
//	ended or terminating any                           deleted
//	pending              any                           deleted, if it is still as it was read
//	running              none                          deleted
//	running              more than one                 refused
//	running, not ready   lets such pods go, or met     deleted, if it is still as it was read
//	running              not counted yet               429, again in 10 seconds
//	running              no disruption left            429
//	running              disruptions left              one is taken, then deleted
//
// budget.go decides and is pure; storage.go reads and writes. A write that meets
// another one starts again, unless the client says which version it means.
package evictions
