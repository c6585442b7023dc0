// Package tree reads the files of a volume into a stream of package content, and writes such a
// stream into an empty volume. It runs beside the volumes, in the pods of atoll-copy.
//
// Invariant: nothing outside of the volume is read or written, whatever its links, names and the stream
// say: all is done below one os.Root. What a stream cannot say (devices, extended attributes, other file
// systems in between) is an error that names the file; nothing of it is left out in silence.
//
// It does I/O on files and on what it is given. Read next: Read, Write, Receive.
package tree
