// Package edit has the changes that kubectl atoll makes, without I/O: to the taints of a
// physical cluster, as kubectl taint makes them to those of a node, and to a kubeconfig;
// and the Manifests that it makes of objects.
//
// A change that cannot be made is an error that names the way out, and changes nothing.
package edit
