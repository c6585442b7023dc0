// Package isolation keeps NetworkPolicies in the physical namespaces of logical clusters that
// keep pods of other logical clusters out. Which these are syncer.Isolation says.
//
// They are looked at when a namespace or a policy below changes, and made before the first
// pods of a namespace.
package isolation
