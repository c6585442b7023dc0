package boundary

import (
	"slices"
	"strings"
)

// Permits is what a physical cluster lets tenants do beyond the default. The zero
// value is the default: nothing that names something outside of the tenant.
type Permits struct {
	// Schedulers may be named by pods, besides the default one.
	Schedulers []string
	// PriorityClasses are the classes of the physical cluster by those of logical
	// clusters; "*" is for all that are not named.
	PriorityClasses map[string]string
	// NodeLabels are prefixes of the keys by which pods may select nodes, besides
	// those of topology, architecture and operating system.
	NodeLabels []string
	// Taints are prefixes of the keys that pods may tolerate, besides what the
	// control plane of the physical cluster puts on a node that is not ready.
	Taints []string
	// HostPorts are the ports of nodes that pods may take.
	HostPorts []PortRange
	// Volumes are the sources of volumes (such as "nfs") that pods may name.
	Volumes []string
	// StaticVolumes lets claims name and select volumes.
	StaticVolumes bool
	// ExternalIPs and LoadBalancerIPs let Services ask for addresses.
	ExternalIPs, LoadBalancerIPs []string
	// LoadBalancerClasses and IngressClasses may be named. Without any, every
	// ingress class may be, and no class of load balancers.
	LoadBalancerClasses, IngressClasses []string
	// Annotations are prefixes of annotations that go down on Namespaces, Ingresses,
	// Services and claims.
	Annotations []string
	// NamespaceLabels are prefixes of labels that go down on Namespaces.
	NamespaceLabels []string
}

// PortRange is from First to Last, both included.
type PortRange struct{ First, Last int64 }

// nodeLabels say where and on what a pod runs, and nothing about other tenants.
var nodeLabels = []string{
	"kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/", "node.kubernetes.io/instance-type",
}

// ordinaryTaints are what Kubernetes itself lets every pod tolerate for a while.
var ordinaryTaints = []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

// permittedKey says that a key has one of the prefixes; one that does not end in
// a slash, dot or hyphen is the whole key.
func permittedKey(key string, prefixes ...[]string) bool {
	return slices.ContainsFunc(slices.Concat(prefixes...), func(prefix string) bool {
		if prefix != "" && strings.ContainsAny(prefix[len(prefix)-1:], "/.-") {
			return strings.HasPrefix(key, prefix)
		}
		return key == prefix
	})
}

func (p Permits) hostPort(port int64) bool {
	return port == 0 || slices.ContainsFunc(p.HostPorts, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}

// priorityClass is the class of the physical cluster; empty for none.
func (p Permits) priorityClass(name string) string {
	if mapped, ok := p.PriorityClasses[name]; ok {
		return mapped
	}
	return p.PriorityClasses["*"]
}
