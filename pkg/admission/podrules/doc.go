// Package podrules says in which namespaces a logical cluster has something to say about pods
// that are made there: where one of its webhooks or policies may match the creation of a pod.
//
// Invariant: what matches is found. What is found need not match: conditions, excluded
// resources and selectors of objects are left to who is asked then.
//
// Pure. Read next: docs/decisions/0056-admission-of-pods-below.md.
package podrules
