// Package content is what is said while the data of a volume are copied: a stream of entries and
// blocks from the pod that reads a volume, by way of the server, to the pod that fills another one,
// and short lines from that one to the server.
//
// Invariant: equal trees of files are equal streams, whatever blocks a file system keeps and in which
// order it lists them. So the digest of what was written is that of reading it again. Whoever reads a stream
// believes nothing of it: every frame, name and number has a bound, entries come in their one order, and
// the sum at the end is that of what came.
//
// It does no I/O but on what it is given, and knows no files: see package tree. Read next: Writer, Reader.
package content
