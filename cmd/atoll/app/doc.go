// Package app composes the server: etcd, keys, API server, controllers and push
// syncers, and gives it a command line. It decides nothing; every part that it
// joins is a package below pkg/.
//
// Start runs the same composition inside a test.
package app
