// Package admissionpolicies checks the types in the expressions of
// ValidatingAdmissionPolicies and writes what it finds into their status, where
// people and `kubectl describe` look for it.
//
// The check is upstream's, against the kinds and schemas of the policy's logical
// cluster. It warns and decides nothing: admission runs a policy checked or not.
//
// I/O: the schemas of the kinds that a policy is about, when the policy changes,
// and one write of its status. Nothing is kept.
package admissionpolicies
