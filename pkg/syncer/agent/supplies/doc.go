// Package supplies keeps what pods below mount that nobody wrote above: tokens of their
// accounts, each in a Secret, and the authority of the control plane. It makes them
// before what mounts them (Write), and renews and removes them (Run); what they are is
// decided in pkg/syncer.
//
// A token is in no log, error or event. What is remembered is what was written and may not have
// come back yet; losing that costs a request.
//
// Read next: docs/decisions/0035-identity-of-pods.md.
package supplies
