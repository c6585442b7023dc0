// Package egress keeps the server from calling addresses that a tenant may name
// and must not reach.
//
// Tenants make the server call others: admission webhooks, conversion webhooks,
// aggregated API servers. The server stands where tenants do not: beside its
// etcd, on a machine with other services, before a metadata service that gives
// out credentials.
//
//	Policy   which addresses: pure
//	Guard    a dialer that asks the policy about the address that is connected
//	         to, after the name was looked up: a name that changes its meaning
//	         between a check and a call gains nothing, nor does a redirect
//
// Invariant: every connection to an address that a tenant chose is made by a
// Guard, without a proxy and without credentials of the server. What is denied
// is answered with one sentence, whether anybody listens there or not.
package egress
