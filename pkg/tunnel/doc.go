// Package tunnel lets a server connect to who cannot be connected to: a syncer dials
// out, and from then on the server opens streams over that connection, each a raw
// connection that ends at the syncer.
//
//	Agent  the syncer's end: dials each address of the server, serves HTTP/2 on what it
//	       gets, and dials again when that ends
//	Pool   the server's end: takes over the connections of upgraded requests
//
// It is HTTP/2 in reverse, from the standard library. A stream is the body of a POST and
// that of its answer. The window of a connection is that of a stream times the number of
// streams: who does not read holds its own window and stops nobody.
//
// Invariant: who opens a tunnel has been authenticated and authorized by the handler chain
// of the server for that target, and for no other.
//
// What is said over a stream is the business of package reach.
package tunnel
