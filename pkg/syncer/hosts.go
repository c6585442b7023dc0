package syncer

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ReasonHostTaken is the reason of the Copy of an Ingress with a host name that an Ingress
// of another logical cluster has on the physical cluster.
const ReasonHostTaken = "HostTaken"

// AnyHost is in the place of a host name where an Ingress has none: a rule for whatever
// host is asked for, or a default backend. No host name is written like this.
const AnyHost = "*"

// Hosts are the host names of an Ingress, those of its rules and of its certificates, in
// lower case and in order. What it has for any host is AnyHost: it takes the requests that
// nobody has asked for, of which there is one set on a physical cluster, as of each name.
func Hosts(ingress *unstructured.Unstructured) []string {
	found := map[string]bool{}
	add := func(name any) {
		if s, ok := name.(string); ok && s != "" {
			found[strings.ToLower(s)] = true
		}
	}
	spec := field(ingress.Object, "spec")
	for _, rule := range list(spec, "rules") {
		add(rule["host"])
		if host, _ := rule["host"].(string); host == "" {
			add(AnyHost)
		}
	}
	if spec["defaultBackend"] != nil {
		add(AnyHost)
	}
	for _, tls := range list(spec, "tls") {
		hosts, _ := tls["hosts"].([]any)
		for _, h := range hosts {
			add(h)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// HostIndex are the values under which an index finds an Ingress by its host names, and
// HostQueries those that find all whose names may be contested with a name.
func HostIndex(ingress *unstructured.Unstructured) []string {
	var values []string
	for _, h := range Hosts(ingress) {
		values = append(values, h, "."+parent(h))
	}
	return values
}

// HostQueries are values of HostIndex.
func HostQueries(host string) []string {
	if strings.HasPrefix(host, "*.") {
		return []string{host, "." + parent(host)}
	}
	return []string{host, "*." + parent(host)}
}

// ContestedHosts says that requests for one host name may be for the other. A wildcard
// means one label.
func ContestedHosts(a, b string) bool {
	return a == b || a == "*."+parent(b) || b == "*."+parent(a)
}

// parent is a host name without its first label.
func parent(host string) string {
	_, rest, _ := strings.Cut(host, ".")
	return rest
}

// TakenHost is the first of some host names that an Ingress of another logical cluster has
// on the physical cluster; empty if there is none. Own is the copy that wants them, as it
// is below; nil if it is not there.
//
//	another logical cluster has   own is below      then
//	no such name                  any               free
//	the name                      without the name  taken: who has it was first
//	the name                      with the name     taken, if the other was made before; they
//	                                                came at once, or before this was asked
func TakenHost(gr schema.GroupResource, cluster string, hosts []string, own *unstructured.Unstructured, others []*unstructured.Unstructured) string {
	var has []string
	if own != nil {
		has = Hosts(own)
	}
	for _, h := range hosts {
		for _, other := range others {
			m, ours := MarkOf(gr, other)
			if !ours || m.Cluster.String() == cluster || other.GetDeletionTimestamp() != nil ||
				!slices.ContainsFunc(Hosts(other), func(theirs string) bool { return ContestedHosts(h, theirs) }) {
				continue
			}
			if !slices.Contains(has, h) || before(other, own) {
				return h
			}
		}
	}
	return ""
}

// HostsOf are the host names that a logical cluster has among Ingresses below.
func HostsOf(gr schema.GroupResource, cluster string, below []*unstructured.Unstructured) (hosts []string) {
	for _, obj := range below {
		if m, ours := MarkOf(gr, obj); ours && m.Cluster.String() == cluster && obj.GetDeletionTimestamp() == nil {
			hosts = append(hosts, Hosts(obj)...)
		}
	}
	return hosts
}

// before says that an object was made before another one: of the same second, that with the
// smaller UID.
func before(a, b *unstructured.Unstructured) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if at.Equal(&bt) {
		return a.GetUID() < b.GetUID()
	}
	return at.Before(&bt)
}

// hostTaken is what the Copy says.
func (p planner) hostTaken() []Action {
	message := "the host name " + p.HostTaken + " belongs to an Ingress of another logical cluster on the physical cluster, " +
		"which had it first: use another one; nothing is changed before"
	if p.HostTaken == AnyHost {
		message = "requests for hosts that no rule names belong to an Ingress of another logical cluster on the physical cluster, " +
			"which had them first: name hosts in all rules, and no defaultBackend; nothing is changed before"
	}
	return p.fail(Failure{Reason: ReasonHostTaken, Message: message})
}
