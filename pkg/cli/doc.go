// Package cli is kubectl atoll: what people ask of a fleet and order it, in the words and
// with the flags of kubectl.
//
// Its one invariant: it does nothing that kubectl and GitOps could not do with objects of
// the API. It is a client of the server and has no state; what it shows and what it changes
// is decided in the packages report and edit, which do no I/O. A command that needs the
// logical cluster "root" and is pointed elsewhere, or the reverse, says so before it asks
// anything. Read command.go next, and docs/cli.md.
package cli
