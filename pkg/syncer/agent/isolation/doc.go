// Package isolation keeps NetworkPolicies in the physical namespaces of logical clusters that
// keep pods of other logical clusters out, and that admit pods of the own one on other physical
// clusters of the network. Which these are syncer.Isolation and syncer.Elsewhere say.
//
// They are looked at when a namespace or a policy below changes, and made before the first
// pods of a namespace.
package isolation
