// Package apiserver tests the server as its clients see it: through TLS, with
// embedded etcd and every controller. Tests share one server and take a logical
// cluster each, save those that restart it.
package apiserver
