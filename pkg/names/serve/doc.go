// Package serve answers DNS for the logical clusters that have pods on one physical
// cluster: it watches what is there, listens at a port for each of them, and asks a
// resolver upstream for what is not theirs. What is answered is decided by pkg/names.
//
// It reads three kinds of the physical cluster: Namespaces with our mark, which say whose
// names the Services and EndpointSlices in them are; and in its own namespace the
// Services that the syncer makes, each of which says which port is whose, or which Service of
// another physical cluster it leads to. What Services of other namespaces say about
// themselves is not believed: tenants write it. It writes nothing. As long as its first
// lists are not there it listens at no port, so that nobody is answered that a name does not
// exist which is only not known yet.
package serve
