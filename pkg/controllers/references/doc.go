// Package references sends ConfigMaps and Secrets where something that is
// placed refers to them, and only there: an object of one of these kinds has
// exactly the targets of the placed objects that name it in a volume, an
// environment, a pull secret, an Ingress or through a service account.
//
// It keeps what placed objects refer to (holder.go), asks pkg/stamp what one
// ConfigMap or Secret should have, and writes the difference with one patch. A target that nothing needs any more becomes Removing; the removal and
// the end of the entry are the syncer's and pkg/controllers/copies'.
//
// Invariant: a Secret never gets a target that no placed object which refers to
// it has: who asks for more is read first, because what is known may be gone, or have moved.
// Tokens of service accounts and kube-root-ca.crt get none at all: they
// mean something in their own cluster only.
package references
