// Package report makes what kubectl atoll shows from the objects of the API: tables for
// people, and the comparison behind "what if". It is pure: no I/O, and the time is a value.
//
// What is not known is shown as such, never as zero.
package report
