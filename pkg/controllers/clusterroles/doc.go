// Package clusterroles fills the rules of aggregated cluster roles, in all
// logical clusters: "admin", "edit" and "view" get what the cluster roles of a
// custom resource give them, and so do roles that users aggregate themselves.
//
// The default roles are not stored. Their rules are known without this
// controller; it stores one only where a logical cluster adds to it, and deletes
// that one when nothing is added any more and nobody changed it otherwise.
//
// I/O: one server-side apply for each role whose rules differ.
package clusterroles
