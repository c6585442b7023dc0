// Package serviceaccounts gives every namespace of every logical cluster what
// Kubernetes gives it: the ServiceAccount "default" and the ConfigMap
// "kube-root-ca.crt" with the certificate authority of the server. Both are made
// again when they are deleted, and the ConfigMap is repaired when it is changed.
//
// What exists is known from informers, so that a restart with many namespaces
// reads and writes nothing. A namespace that is being deleted is left alone.
//
// Fill makes both objects at once without informers, for a namespace that was
// just created.
package serviceaccounts
