// Package override changes what goes down to one physical cluster, as policies say: a
// JSON patch (RFC 6902) of four operations over the object as its user wrote it
// (docs/decisions/0052).
//
// Whoever writes policies is a tenant. So a patch changes nothing by which an object is
// found, owned, placed or counted, it names nothing that does not go where the object
// goes, and what comes out is filtered as if the user had written it (pkg/boundary). All
// overrides of an object apply, or none.
//
// Admission asks the same functions as the syncer. The operations are our own: the library
// that Kubernetes uses replaces what is not there, and copies without a bound.
//
// Pure. Read next: Apply, Validate.
package override
