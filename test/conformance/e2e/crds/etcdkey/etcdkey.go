// Package etcdkey stands in for the package path where upstream's tests make keys
// of etcd from a prefix: the objects of a logical cluster have no prefix of their
// own, its name comes after the resource.
package etcdkey

import (
	"path"
	"strings"
)

// Join is path.Join, save that /registry/CLUSTER/GROUP/RESOURCE/... becomes
// /registry/GROUP/RESOURCE/CLUSTER/...
func Join(elem ...string) string {
	joined := path.Join(elem...)
	parts := strings.Split(joined, "/")
	if len(parts) < 6 || parts[0] != "" || parts[1] != "registry" {
		return joined
	}
	parts[2], parts[3], parts[4] = parts[3], parts[4], parts[2]
	return strings.Join(parts, "/")
}
