// Package podadmission has pods that controllers of a physical cluster make admitted by their
// logical cluster: it serves a webhook to the API server of the physical cluster, asks the
// control plane about each pod (PodReview), and answers with the difference, as far as
// that may go down.
//
// Invariant: only pods with the label of the control plane, in namespaces whose logical cluster
// has something to say, are asked about. Who does not know the path of the webhook, which is
// in its configuration, is not answered.
//
// Server serves all webhooks of a process at one address, in atoll-syncer and, for the physical
// clusters that it connects to, in the server. Keeper keeps the configuration that leads to it;
// handler answers one request; what of a pod may change is decided by syncer.Admission,
// without I/O.
//
// Read next: docs/decisions/0056-admission-of-pods-below.md.
package podadmission
