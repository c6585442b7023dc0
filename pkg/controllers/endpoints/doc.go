// Package endpoints keeps Endpoints and EndpointSlices of a Service in step, in
// every logical cluster.
//
//	the Service   Endpoints                         EndpointSlices
//	selects       made here from the slices         are mirrored from the physical clusters
//	selects not   of the user                       made here from the Endpoints
//	is gone       made here: removed                made here: removed
//
// Both directions are those of the endpoints and the endpointslicemirroring
// controllers of Kubernetes, which would each hold all Pods, Services and slices
// in memory: here informers of metadata say when to look, and the objects are
// read from the watch cache of the server.
//
// Only what carries the label of one of those two controllers is changed. The
// translation is pure (translate.go); controller.go reads and writes.
package endpoints
