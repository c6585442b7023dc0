package v1alpha1

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// PodSecurityLevel is a level of the Pod Security Standards.
type PodSecurityLevel string

// The levels, the least strict first.
const (
	PodSecurityPrivileged PodSecurityLevel = "privileged"
	PodSecurityBaseline   PodSecurityLevel = "baseline"
	PodSecurityRestricted PodSecurityLevel = "restricted"
)

// PodSecurityLevels are all levels, the least strict first.
func PodSecurityLevels() []PodSecurityLevel {
	return []PodSecurityLevel{PodSecurityPrivileged, PodSecurityBaseline, PodSecurityRestricted}
}

// Stricter is the stricter of two levels. What is no level is none: it never wins.
func (l PodSecurityLevel) Stricter(other PodSecurityLevel) PodSecurityLevel {
	all := PodSecurityLevels()
	if slices.Index(all, other) > slices.Index(all, l) {
		return other
	}
	return l
}

// All in a list of keys is every key, in Tenancy.RuntimeClasses every class. In maps of
// classes it is the key for all classes that are not named, and the value for the class of the same name.
const All = "*"

// Tenancy is what a physical cluster lets the objects of logical clusters do beyond
// the default. The default is that tenants cannot harm each other: the Pod Security
// level baseline, and nothing that names something outside of the tenant.
//
// Keys (of labels, annotations, taints) are whole, or prefixes if they end in "/",
// "." or "-"; "*" is every key.
type Tenancy struct {
	// podSecurity is the least strict Pod Security level of pods: privileged, baseline
	// or restricted. A namespace may ask for a stricter one. Defaults to baseline.
	// +optional
	PodSecurity PodSecurityLevel `json:"podSecurity,omitempty"`
	// schedulers are the schedulers of the physical cluster that pods may name,
	// besides the default one.
	// +optional
	// +listType=set
	Schedulers []string `json:"schedulers,omitempty"`
	// priorityClasses maps priority classes of logical clusters to those of the
	// physical cluster; "*" is for all that are not named, and as the value the class
	// of the same name. The priority of a class without an entry has no effect.
	// +optional
	PriorityClasses map[string]string `json:"priorityClasses,omitempty"`
	// nodeLabels are keys of labels by which pods may select nodes, besides those of
	// topology, architecture, operating system and instance type.
	// +optional
	// +listType=set
	NodeLabels []string `json:"nodeLabels,omitempty"`
	// taints are keys of taints of nodes that pods may tolerate.
	// +optional
	// +listType=set
	Taints []string `json:"taints,omitempty"`
	// hostPorts are the ports of nodes that pods may take. Pod Security refuses all of
	// them below the level privileged.
	// +optional
	// +listType=atomic
	HostPorts []PortRange `json:"hostPorts,omitempty"`
	// nodePorts are the ports that Services may ask for on all nodes; the physical
	// cluster chooses any other.
	// +optional
	// +listType=atomic
	NodePorts []PortRange `json:"nodePorts,omitempty"`
	// volumes are types of volumes that name storage outside of the logical cluster and
	// that pods may use, such as nfs or csi.
	// +optional
	// +listType=set
	Volumes []string `json:"volumes,omitempty"`
	// staticVolumes lets claims name or select volumes of the physical cluster, or bind
	// any that is there, by an empty class.
	// +optional
	StaticVolumes bool `json:"staticVolumes,omitempty"`
	// storageClasses are the storage classes that claims may name, as they are named there; none means all.
	// +optional
	// +listType=set
	StorageClasses []string `json:"storageClasses,omitempty"`
	// storageClassNames maps the storage classes that claims name to those of the physical cluster;
	// "*" is for all that are not named. One without an entry is the class of the same name. A claim
	// that is there keeps the class that it was made with.
	// +optional
	StorageClassNames map[string]string `json:"storageClassNames,omitempty"`
	// externalIPs are addresses that Services may take in spec.externalIPs.
	// +optional
	// +listType=set
	ExternalIPs []string `json:"externalIPs,omitempty"`
	// endpointCIDRs are ranges of the addresses that users may write endpoints with, for Services
	// without a selector; none means none. An address of pods is not among them, whatever they are:
	// ingress controllers and load balancers reach it for whoever wrote it.
	// +optional
	// +listType=set
	EndpointCIDRs []string `json:"endpointCIDRs,omitempty"`
	// loadBalancerIPs are addresses that Services may ask for in spec.loadBalancerIP.
	// +optional
	// +listType=set
	LoadBalancerIPs []string `json:"loadBalancerIPs,omitempty"`
	// loadBalancerClasses are classes of load balancers that Services may name.
	// +optional
	// +listType=set
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty"`
	// ingressClasses are the ingress classes that Ingresses may name, as they are named there; none means all.
	// +optional
	// +listType=set
	IngressClasses []string `json:"ingressClasses,omitempty"`
	// ingressClassNames maps the ingress classes that Ingresses name to those of the physical cluster;
	// "*" is for all that are not named. One without an entry is the class of the same name.
	// +optional
	IngressClassNames map[string]string `json:"ingressClassNames,omitempty"`
	// runtimeClasses are the RuntimeClasses of the physical cluster that pods may run with, and all
	// that comes with each; "*" is every one. None means those that give pods no toleration and no
	// node selector that these could not have themselves, by taints and nodeLabels.
	// +optional
	// +listType=set
	RuntimeClasses []string `json:"runtimeClasses,omitempty"`
	// annotations are keys of annotations that go down, besides those that only
	// describe or shape the traffic of their own object.
	// +optional
	// +listType=set
	Annotations []string `json:"annotations,omitempty"`
	// namespaceLabels are keys of labels that go down on Namespaces.
	// +optional
	// +listType=set
	NamespaceLabels []string `json:"namespaceLabels,omitempty"`
	// network says how pods of logical clusters are kept apart.
	// +optional
	Network Network `json:"network,omitzero"`
}

// NetworkIsolation says who may reach the pods of a logical cluster.
type NetworkIsolation string

const (
	// NetworkIsolationTenants keeps pods of other logical clusters out, by NetworkPolicies in
	// each namespace of a logical cluster.
	NetworkIsolationTenants NetworkIsolation = "Tenants"
	// NetworkIsolationNone leaves the network as it is.
	NetworkIsolationNone NetworkIsolation = "None"
)

// Network is how pods of logical clusters are kept apart.
type Network struct {
	// isolation is Tenants or None. Defaults to Tenants.
	// +optional
	Isolation NetworkIsolation `json:"isolation,omitempty"`
	// podCIDRs are all ranges that pods of the physical cluster have their addresses from:
	// what is in none of them is no pod. Defaults to those of its nodes.
	// +optional
	// +listType=set
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// nodeCIDRs are the addresses in podCIDRs that nodes send from themselves, as those of
	// their tunnels: what comes from outside may arrive with one. Defaults to the first two
	// addresses of each range of a node if podCIDRs is not set, else to none.
	// +optional
	// +listType=set
	NodeCIDRs []string `json:"nodeCIDRs,omitempty"`
}

// MaxPodCIDRs bounds the ranges of pods, and those of nodes among them: each is in each policy
// that tells pods from others.
const MaxPodCIDRs = 256

// Permits is what the physical cluster lets tenants do: its tenancy, with the ranges of its own
// pods, and of those that its pods reach on other physical clusters.
func (c *PhysicalCluster) Permits() Tenancy {
	permits := c.Spec.Tenancy
	permits.Network = c.PodNetwork()
	if n, others := &permits.Network, c.Status.Network; c.Spec.Pods.Network != "" && others != nil && len(n.PodCIDRs) > 0 {
		n.PodCIDRs, n.NodeCIDRs = slices.Concat(n.PodCIDRs, others.PodCIDRs), slices.Concat(n.NodeCIDRs, others.NodeCIDRs)
	}
	return permits
}

// PodNetwork is spec.tenancy.network, with the ranges of pods that its nodes say if an admin says
// none.
func (c *PhysicalCluster) PodNetwork() Network {
	n := c.Spec.Tenancy.Network
	if len(n.PodCIDRs) == 0 && len(c.Status.PodCIDRs) <= MaxPodCIDRs && len(c.Status.NodeCIDRs) <= MaxPodCIDRs {
		n.PodCIDRs = c.Status.PodCIDRs
		if len(n.NodeCIDRs) == 0 {
			n.NodeCIDRs = c.Status.NodeCIDRs
		}
	}
	return n
}

// Isolates says that pods of other logical clusters are to be kept out. Without the ranges of
// pods nobody can tell them from who comes from outside, and nothing is done.
func (n Network) Isolates() bool { return n.Isolation != NetworkIsolationNone && len(n.PodCIDRs) > 0 }

// PortRange is from first to last, both included.
type PortRange struct {
	First int32 `json:"first"`
	Last  int32 `json:"last"`
}

// Level is the Pod Security level that holds for pods of tenants.
func (t Tenancy) Level() PodSecurityLevel {
	if t.PodSecurity == "" {
		return PodSecurityBaseline
	}
	return t.PodSecurity
}

// With is what is permitted by one of the two: the less strict level, and all that is listed. A
// list of classes that says nothing permits all of them, and goes on to. Of a priority class that
// both map, more has the last word. The network, the runtime classes, the names of storage and ingress
// classes and the ranges of endpoints are those of the physical cluster: they stay.
func (t Tenancy) With(more Tenancy) Tenancy {
	if slices.Contains(PodSecurityLevels(), more.PodSecurity) && t.Level().Stricter(more.PodSecurity) == t.Level() {
		t.PodSecurity = more.PodSecurity
	}
	if len(more.PriorityClasses) > 0 {
		t.PriorityClasses = maps.Clone(t.PriorityClasses)
		if t.PriorityClasses == nil {
			t.PriorityClasses = map[string]string{}
		}
		maps.Copy(t.PriorityClasses, more.PriorityClasses)
	}
	for _, list := range []struct {
		to   *[]string
		from []string
	}{
		{&t.Schedulers, more.Schedulers}, {&t.NodeLabels, more.NodeLabels}, {&t.Taints, more.Taints}, {&t.Volumes, more.Volumes},
		{&t.ExternalIPs, more.ExternalIPs}, {&t.LoadBalancerIPs, more.LoadBalancerIPs}, {&t.LoadBalancerClasses, more.LoadBalancerClasses},
		{&t.Annotations, more.Annotations}, {&t.NamespaceLabels, more.NamespaceLabels},
	} {
		*list.to = slices.Concat(*list.to, list.from)
	}
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&t.StorageClasses, more.StorageClasses}, {&t.IngressClasses, more.IngressClasses}} {
		if len(*list.to) > 0 {
			*list.to = slices.Concat(*list.to, list.from)
		}
	}
	t.HostPorts, t.NodePorts = slices.Concat(t.HostPorts, more.HostPorts), slices.Concat(t.NodePorts, more.NodePorts)
	t.StaticVolumes = t.StaticVolumes || more.StaticVolumes
	return t
}

// PriorityClass is the class of the physical cluster for one of a logical cluster;
// empty for none.
func (t Tenancy) PriorityClass(name string) string { return named(t.PriorityClasses, name, "") }

// StorageClass is the class of the physical cluster for one that a claim names.
func (t Tenancy) StorageClass(name string) string { return named(t.StorageClassNames, name, name) }

// IngressClass is the class of the physical cluster for one that an Ingress names.
func (t Tenancy) IngressClass(name string) string { return named(t.IngressClassNames, name, name) }

// named is what a map of names says of one; without is for a name of which it says nothing. No
// name is none of the names.
func named(names map[string]string, name, without string) string {
	mapped, ok := names[name]
	if !ok && name != "" {
		mapped, ok = names[All]
	}
	switch {
	case !ok:
		return without
	case mapped == All:
		return name
	}
	return mapped
}

// NamesRuntimeClass says that RuntimeClasses has a class of the physical cluster.
func (t Tenancy) NamesRuntimeClass(name string) bool {
	return slices.Contains(t.RuntimeClasses, name) || slices.Contains(t.RuntimeClasses, All)
}

// LeadsTo returns whether a Service may lead to an address that a user wrote.
func (t Tenancy) LeadsTo() func(netip.Addr) bool {
	permitted, pods := Prefixes(t.EndpointCIDRs), Prefixes(t.Network.PodCIDRs)
	return func(address netip.Addr) bool {
		contains := func(r netip.Prefix) bool { return r.Contains(address.Unmap()) }
		return slices.ContainsFunc(permitted, contains) && !slices.ContainsFunc(pods, contains)
	}
}

// Prefixes are ranges of addresses; what is none is left out: validation has refused it, or it is
// what a physical cluster says.
func Prefixes(texts []string) []netip.Prefix {
	var ranges []netip.Prefix
	for _, text := range texts {
		if r, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, r.Masked())
		}
	}
	return ranges
}

// PermitsKey says that a key is among keys and prefixes.
func PermitsKey(key string, permitted ...[]string) bool {
	return slices.ContainsFunc(slices.Concat(permitted...), func(prefix string) bool {
		if prefix != "" && strings.ContainsAny(prefix[len(prefix)-1:], "/.-") {
			return strings.HasPrefix(key, prefix)
		}
		return key == prefix || prefix == All
	})
}

// PermitsPort says that a port is in one of the ranges.
func PermitsPort(port int64, permitted []PortRange) bool {
	return slices.ContainsFunc(permitted, func(r PortRange) bool { return int64(r.First) <= port && port <= int64(r.Last) })
}
