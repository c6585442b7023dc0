// Package override changes what goes down to one physical cluster, as policies say: a
// JSON patch (RFC 6902) of four operations over the object as its user wrote it
// (docs/decisions/0052).
//
// Whoever writes policies is a tenant. So a patch changes nothing by which an object is
// found, owned, placed or counted, it names nothing that does not go where the object
// goes, and what comes out is filtered as if the user had written it (pkg/boundary). All
// overrides of an object apply, or none.
//
// A policy of an admin may have, in the place of a patch, what physical clusters permit besides
// what they permit everybody (docs/decisions/0084): Permits is what they come to.
//
// Admission asks the same functions as the syncer. The operations are our own: the library
// that Kubernetes uses replaces what is not there, and copies without a bound.
//
// Pure. Read next: Apply, Permits, Validate.
package override
