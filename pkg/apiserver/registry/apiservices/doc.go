// Package apiservices serves apiregistration.k8s.io in every logical cluster, with
// upstream's registry: what is served by the server itself is shown as local
// APIServices that nobody stores (pkg/apiserver/defaults).
//
// An APIService that names a Service is kept like any object; aggregation serves what
// it is about, and says whether it is available. The groups of the server itself
// cannot be handed over: where applications bring an APIService for one all the same, it
// is kept and says that the group is available, as it is, and by whom.
package apiservices
