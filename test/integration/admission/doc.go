// Package admission tests the admission chain against the running server: what
// upstream's plugins do in a cluster they do in a logical cluster, and nothing in
// any other.
package admission
