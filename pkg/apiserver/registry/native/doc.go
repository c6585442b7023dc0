// Package native serves Atoll's own kinds with upstream's generic registry: the
// same store, strategies and tables as built-in kinds, and no CRDs that each
// logical cluster would have to install.
//
// One Kind value describes one kind; kinds.go lists them. The strategies keep
// the usual promises: status and spec are written through their own endpoints,
// a change of spec bumps the generation, validation names the field.
package native
