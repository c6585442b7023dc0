// Package boundary decides what of an object leaves its logical cluster for a
// physical cluster that other tenants use, too: table.txt says for each field of
// each type whether it goes down as it is, is mapped, is stripped, or is refused.
//
// Whoever admits an object and whoever carries it down ask the same table, so
// what a user hears is what happens.
//
// Pure: no I/O. Objects are the unstructured maps of apimachinery.
package boundary
