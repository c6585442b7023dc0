// Package volumecopies passes the data of volumes on: from the pod that reads one to the pod that fills
// another one, which the syncers of both physical clusters make (docs/decisions/0068-volumes-that-are-copied.md).
//
// Invariant: data go from the Copy of a claim to another Copy of the same claim, by what the stamp of that claim says
// now, and into a pod that has asked for them. That all came is said by that pod alone, to its syncer: what is
// known here decides nothing, and every attempt begins at the beginning.
//
// I/O: connections into pods (package reach), and what is reported on the Copy. Several servers may try: the
// pod takes one at a time. Read next: controller.go, pass.go.
package volumecopies
