// Package workload knows the kinds that run on physical clusters: which they
// are, what role they have in a placement, where their pod templates and
// replica counts are. It is the one table that admission, placement and syncer
// share.
//
// Pure: no I/O. Objects are the unstructured maps of apimachinery.
package workload
