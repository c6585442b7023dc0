package imports

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/endpointslice"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/backends"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// MaxEndpoints bounds the endpoints of an import, as the object is written whole.
const MaxEndpoints = 1000

// Member is a physical cluster as far as others reach its pods.
type Member struct {
	// Network is empty if nobody does.
	Network string
	// Ranges of the addresses of its pods, as far as they count (Settled); Known says that there are
	// any at all, and Named that an admin did.
	Ranges       []netip.Prefix
	Known, Named bool
	// Silent says that it does not answer, or is not trusted with what it says: its pods may be
	// gone.
	Silent bool
}

func (m Member) same(o Member) bool {
	return m.Network == o.Network && m.Silent == o.Silent && m.Named == o.Named && slices.Equal(m.Ranges, o.Ranges)
}

// Fleet are the physical clusters by name.
type Fleet map[string]Member

// Joined says that some of these physical clusters are in one network.
func (f Fleet) Joined(names []string) bool {
	seen := map[string]bool{}
	for _, name := range names {
		if network := f[name].Network; network != "" {
			if seen[network] {
				return true
			}
			seen[network] = true
		}
	}
	return false
}

// Imported says that a Service may be imported at all: one that leads to pods, which the
// control plane knows.
func Imported(s *corev1.Service) bool {
	return s.DeletionTimestamp == nil && len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName && stamp.HasTargets(s)
}

// Decide is the import of a Service; nil if nobody imports it. present are the physical
// clusters on which namespaces of the logical cluster are, pods those of the namespace.
//
//	X is present, and another one in its network; a copy of   then X
//	the Service is on some of these; on X
//	there is none, or not yet (Waiting, Finished)             imports it, with a Service of its own
//	there is one that is Starting, Draining or Removing       imports it, with both
//	there is one that receives                                imports it beside that, if only to retire
//	                                                          a Service of its own
func Decide(s *corev1.Service, pods []backends.Candidate, present []string, fleet Fleet) *placementv1alpha1.ServiceImportSpec {
	if !Imported(s) {
		return nil
	}
	targets := stamp.TargetsOf(s.Annotations)
	spec := &placementv1alpha1.ServiceImportSpec{Service: s.UID, Headless: s.Spec.ClusterIP == corev1.ClusterIPNone, TrafficDistribution: s.Spec.TrafficDistribution}
	networks := map[string]bool{}
	for _, name := range slices.Sorted(slices.Values(present)) {
		network := fleet[name].Network
		if !fleet.Joined(withNetwork(present, network, fleet)) || !copied(targets, network, fleet) {
			continue
		}
		networks[network] = true
		target, ok := targets[name]
		spec.Importers = append(spec.Importers, placementv1alpha1.Importer{
			PhysicalCluster: name, Network: network,
			Beside: ok && (target.Keeps() || target.State == placementv1alpha1.TargetStateRemoving),
			Own:    !ok || !target.Receives(),
		})
	}
	if len(spec.Importers) == 0 {
		return nil
	}
	for _, p := range s.Spec.Ports {
		spec.Ports = append(spec.Ports, placementv1alpha1.ImportedPort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		spec.SessionAffinity, spec.SessionAffinityConfig = s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig
	}
	of, _ := backends.Of(s, pods)
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		spec.Endpoints = append(spec.Endpoints, endpointsIn(network, s, of, fleet)...)
	}
	spec.Endpoints, spec.Truncated = bounded(spec.Endpoints, MaxEndpoints)
	return spec
}

// withNetwork are those of some physical clusters that are in a network.
func withNetwork(names []string, network string, fleet Fleet) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return fleet[name].Network != network })
}

// copied says that a copy is on a physical cluster of a network.
func copied(targets placementv1alpha1.Targets, network string, fleet Fleet) bool {
	for name, target := range targets {
		if target.Keeps() && fleet[name].Network == network {
			return true
		}
	}
	return false
}

// endpointsIn are the endpoints of a Service on the physical clusters of a network, in an order.
func endpointsIn(network string, s *corev1.Service, of []backends.Backend, fleet Fleet) []placementv1alpha1.ImportedEndpoints {
	of = slices.DeleteFunc(slices.Clone(of), func(b backends.Backend) bool { return fleet[b.Target].Network != network })
	for i := range of { // pods there are the last that are tried, as on a node that is silent
		of[i].Receives = of[i].Receives && !fleet[of[i].Target].Silent
	}
	var groups []placementv1alpha1.ImportedEndpoints
	known := map[string]int{} // groups by what they have in common
	for _, b := range backends.Receiving(of) {
		ports, numbers := portsOf(s, b.Pod)
		for _, ip := range b.Pod.Status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil || !fleet[b.Target].has(address.Unmap()) {
				continue
			}
			address = address.Unmap()
			family := corev1.IPv6Protocol
			if address.Is4() {
				family = corev1.IPv4Protocol
			}
			key := b.Target + " " + string(family) + numbers
			i, ok := known[key]
			if !ok {
				i, known[key] = len(groups), len(groups)
				groups = append(groups, placementv1alpha1.ImportedEndpoints{PhysicalCluster: b.Target, Network: network, Family: family, Ports: ports})
			}
			endpoint := placementv1alpha1.ImportedEndpoint{Address: address.String()}
			if b.Pod.Spec.Subdomain == s.Name {
				endpoint.Hostname = b.Pod.Spec.Hostname
			}
			groups[i].Endpoints = append(groups[i].Endpoints, endpoint)
		}
	}
	for i := range groups {
		slices.SortFunc(groups[i].Endpoints, func(a, b placementv1alpha1.ImportedEndpoint) int { return cmp.Compare(a.Address, b.Address) })
	}
	slices.SortFunc(groups, func(a, b placementv1alpha1.ImportedEndpoints) int {
		return cmp.Or(cmp.Compare(a.PhysicalCluster, b.PhysicalCluster), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Endpoints[0].Address, b.Endpoints[0].Address))
	})
	return groups
}

// has says that an address may be that of a pod: a syncer that is lied to, or lies, names no
// other, and none that an EndpointSlice may not have, which would keep all others out of it.
func (m Member) has(address netip.Addr) bool {
	if address.IsUnspecified() || address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsMulticast() || address.Zone() != "" {
		return false
	}
	return !m.Known || slices.ContainsFunc(m.Ranges, func(r netip.Prefix) bool { return r.Contains(address) })
}

// portsOf are the ports of a Service as they are in a pod; numbers says which, as text: of one
// Service nothing else differs.
func portsOf(s *corev1.Service, p *corev1.Pod) (ports []placementv1alpha1.ImportedPort, numbers string) {
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		number, err := endpointslice.FindPort(p, port)
		if err != nil || number <= 0 || number > 65535 {
			number = 0
		} else {
			ports = append(ports, placementv1alpha1.ImportedPort{Name: port.Name, Protocol: port.Protocol, AppProtocol: port.AppProtocol, Port: int32(number)})
		}
		numbers += " " + strconv.Itoa(number)
	}
	return ports, numbers
}

// bounded takes as many endpoints as there is room for, of each group in its order and by its
// size, so that what is left out is not all of one physical cluster.
func bounded(groups []placementv1alpha1.ImportedEndpoints, most int) (_ []placementv1alpha1.ImportedEndpoints, left int32) {
	sum := 0
	for _, g := range groups {
		sum += len(g.Endpoints)
	}
	if sum <= most {
		return groups, 0
	}
	var out []placementv1alpha1.ImportedEndpoints
	taken := 0
	for _, g := range groups {
		n := min(max(1, len(g.Endpoints)*most/sum), most-taken)
		if n == 0 {
			break
		}
		g.Endpoints = g.Endpoints[:n]
		out, taken = append(out, g), taken+n
	}
	return out, int32(sum - taken)
}
