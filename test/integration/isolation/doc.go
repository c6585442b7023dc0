// Package isolation is a hostile tenant: mallory is cluster-admin of one logical
// cluster and tries everything to read, count, change or delete something in
// another, in root, or in the server.
//
// The seeds of its fuzz targets run as tests; `go test -fuzz` goes on from there.
package isolation
