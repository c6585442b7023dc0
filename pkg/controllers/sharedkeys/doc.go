// Package sharedkeys sees to it that all servers over one etcd have the same keys. A
// server that has others takes the credentials of everybody for forged, and puts its own
// certificate authority where clients look for that of the control plane.
//
// The digests of the keys are in a ConfigMap in root. Ensure compares, and is asked
// before anything else is written.
//
// Invariant: of servers that begin at once with different keys, all but one end.
//
// Read next: docs/decisions/0070-several-servers.md.
package sharedkeys
