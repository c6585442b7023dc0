// Package defaults lets every logical cluster have objects that nobody stores:
// the roles, bindings and priority classes that a kube-apiserver makes when it
// starts.
//
// They are kept in memory once for all logical clusters and laid over the
// storage of their resource: a get, a list or a watch shows them, with an UID of
// their own in each logical cluster, until somebody changes one. The change is
// stored as an ordinary object, in that logical cluster only (copy on write),
// and hides the default; deleting it brings the default back.
//
// Invariant: what is stored wins over the default of its name, in every reply.
//
// The system's own lists and watches, and those over all logical clusters, show
// what is stored and nothing else: a controller that removes or counts the
// objects of a logical cluster has nothing to do with defaults.
package defaults
