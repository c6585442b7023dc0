// Package join gets a syncer its certificate and keeps it good: a key that never leaves the
// physical cluster, a request that an admin approves, renewals by itself.
//
// The key and the certificate are in a Secret of the physical cluster, so that a syncer that
// starts anew is the one that it was. It reads that Secret, posts requests in root and waits;
// what they look like and who may make them is in pkg/registration.
package join
