// Package registration says who may ask for the certificate of a syncer, and for which one. It
// is pure.
//
//	kubectl atoll register NAME --agent     a ServiceAccount of root with a token, for NAME
//	atoll-syncer                            makes a key, and a request with that token
//	kubectl atoll approve NAME              an admin approves the request
//	the server                              signs it; the syncer renews it by itself
//
// Invariant: a request is for the physical cluster of who makes it, and there is one at a time
// for each: who has a stolen token can only take its place, where the admin sees him. A certificate
// is that of one PhysicalCluster by UID: what had its name before, and what gets it later, are others.
//
// Read next: Check, Identity.Accept, docs/decisions/0065-registration-of-agents.md.
package registration
