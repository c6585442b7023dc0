// Package podadmission notes on Namespaces whether their logical cluster has webhooks or policies
// for pods that are made in them (placement.atoll.dev/admits-pods): only there the syncers ask
// about pods which controllers make on physical clusters.
//
// A new Namespace is stamped by admission already; this controller follows what changes: rules,
// and labels of Namespaces. It only writes metadata, and only where the note is another one.
//
// Read next: pkg/admission/podrules, which decides.
package podadmission
