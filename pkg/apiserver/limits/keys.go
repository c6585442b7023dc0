package limits

import "strings"

// Prefix is before all keys in etcd.
const Prefix = "/registry/"

// classOf says what the objects of a resource, as it is named in etcd, are counted as.
func classOf(resource string) class {
	switch resource {
	case "copies", "placements", "serviceimports", "podimports", "events", "pods", "replicasets", "controllerrevisions", "endpointslices", "services/endpoints":
		return records
	case "apiextensions.k8s.io/customresourcedefinitions":
		return definitions
	}
	return objects
}

// parse says whose key this is, and what is counted under it:
//
//	/registry/<resource>/<logical cluster>/...
//	/registry/<group with a dot>/<resource>/<logical cluster>/...
//	/registry/services/{specs,endpoints}/<logical cluster>/...
//
// A key of anything else is of nobody, and so are claims (storage.Claims): they come and go within a request.
func parse(key string) (cluster string, c class, ok bool) {
	rest, ok := strings.CutPrefix(key, Prefix)
	if !ok {
		return "", 0, false
	}
	resource, below, ok := strings.Cut(rest, "/")
	if resource == "claims" {
		return "", 0, false
	}
	if ok && (resource == "services" || strings.Contains(resource, ".")) {
		var second string
		second, below, ok = strings.Cut(below, "/")
		resource = rest[:len(resource)+1+len(second)]
	}
	cluster, name, named := strings.Cut(below, "/")
	if !ok || !named || cluster == "" || name == "" {
		return "", 0, false
	}
	return cluster, classOf(resource), true
}
