// Package accounttokens is the fence around requests of syncers for tokens of service
// accounts: a syncer gets those that pods on its physical cluster mount, by the templates
// that users wrote, and no others. Everybody else asks the stock registry, as ever.
//
// What is permitted is decided by mounted, without I/O, from what is stored when the
// request comes; those who ask together share what is read for it, see package reads.
//
// Read next: docs/decisions/0035-identity-of-pods.md.
package accounttokens
