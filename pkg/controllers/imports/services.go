package imports

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/endpointslice"
	"k8s.io/utils/ptr"

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
func (f Fleet) Joined(names []string) bool { return len(f.joining(names)) > 0 }

// joining are the networks in which more than one of these physical clusters is.
func (f Fleet) joining(names []string) map[string]bool {
	seen, joining := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		if network := f[name].Network; network != "" {
			if seen[network] {
				joining[network] = true
			}
			seen[network] = true
		}
	}
	return joining
}

// Imported says that a Service may be imported at all.
func Imported(s *corev1.Service) bool { return s.DeletionTimestamp == nil && stamp.HasTargets(s) }

// LeadsToPods says that a Service does: to those that it selects, and that the control plane knows.
func LeadsToPods(s *corev1.Service) bool {
	return len(s.Spec.Selector) > 0 && s.Spec.Type != corev1.ServiceTypeExternalName
}

// Sources are what a Service leads to.
type Sources struct {
	// Pods are those of its namespace.
	Pods []backends.Candidate
	// Slices are the EndpointSlices of its namespace; those that are mirrored are none of users.
	Slices []discoveryv1.EndpointSlice
	// Homes are where pods of its namespace have the addresses that users may write.
	Homes Homes
}

// Decide is the import of a Service; nil if nobody imports it. present are the physical
// clusters on which namespaces of the logical cluster are.
func Decide(s *corev1.Service, of Sources, present []string, fleet Fleet) *placementv1alpha1.ServiceImportSpec {
	switch {
	case !Imported(s):
		return nil
	case LeadsToPods(s):
		return toPods(s, of.Pods, present, fleet)
	}
	return toOthers(s, of, present, fleet)
}

// specOf is what an import says of a Service that leads to endpoints.
func specOf(s *corev1.Service) *placementv1alpha1.ServiceImportSpec {
	spec := &placementv1alpha1.ServiceImportSpec{Service: s.UID, Headless: s.Spec.ClusterIP == corev1.ClusterIPNone, TrafficDistribution: s.Spec.TrafficDistribution}
	for _, p := range s.Spec.Ports {
		spec.Ports = append(spec.Ports, placementv1alpha1.ImportedPort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		spec.SessionAffinity, spec.SessionAffinityConfig = s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig
	}
	return spec
}

// importer is a physical cluster that imports a Service, as there is a copy (ok) or none.
func importer(name, network string, target placementv1alpha1.Target, ok bool) placementv1alpha1.Importer {
	return placementv1alpha1.Importer{
		PhysicalCluster: name, Network: network,
		Beside: ok && (target.Keeps() || target.State == placementv1alpha1.TargetStateRemoving),
		Own:    !ok || !target.Receives(),
	}
}

// toPods is the import of a Service that leads to pods.
//
//	X is present, and another one in its network; a copy of   then X
//	the Service is on some of these; on X
//	there is none, or not yet (Waiting, Finished)             imports it, with a Service of its own
//	there is one that is Starting, Draining or Removing       imports it, with both
//	there is one that receives                                imports it beside that, if only to retire
//	                                                          a Service of its own
func toPods(s *corev1.Service, pods []backends.Candidate, present []string, fleet Fleet) *placementv1alpha1.ServiceImportSpec {
	targets, spec := stamp.TargetsOf(s.Annotations), specOf(s)
	networks, joining, serving := map[string]bool{}, fleet.joining(present), serving(targets, fleet)
	for _, name := range slices.Sorted(slices.Values(present)) {
		network := fleet[name].Network
		if !joining[network] || !serving[network] {
			continue
		}
		networks[network] = true
		target, ok := targets[name]
		spec.Importers = append(spec.Importers, importer(name, network, target, ok))
	}
	if len(spec.Importers) == 0 {
		return nil
	}
	of, _ := backends.Of(s, pods)
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		spec.Endpoints = append(spec.Endpoints, endpointsIn(network, s, of, fleet)...)
	}
	spec.Endpoints, spec.Truncated = bounded(spec.Endpoints, MaxEndpoints)
	return spec
}

// toOthers is the import of a Service that leads to addresses that users wrote, or to a name.
// They need no network in common, but for addresses of pods of the namespace.
//
//	X is present; a copy of the Service is somewhere,  then X
//	and on X
//	as in the table of toPods: no copy that receives   imports it, with a Service of its own
//	there is a copy, and users wrote endpoints         imports it beside that
//	there is one that receives, and another physical   imports it, if only to retire a Service of its own
//	cluster is present
func toOthers(s *corev1.Service, of Sources, present []string, fleet Fleet) *placementv1alpha1.ServiceImportSpec {
	targets, spec := stamp.TargetsOf(s.Annotations), specOf(s)
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		spec = &placementv1alpha1.ServiceImportSpec{Service: s.UID, ExternalName: s.Spec.ExternalName}
	} else {
		spec.Written, spec.Truncated = bounded(writtenIn(s.Name, of, fleet), MaxEndpoints)
	}
	if !keeps(targets) || len(present) < 2 && len(spec.Written) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(slices.Values(present)) {
		target, ok := targets[name]
		spec.Importers = append(spec.Importers, importer(name, fleet[name].Network, target, ok))
	}
	return spec
}

// keeps says that there is a copy somewhere.
func keeps(targets placementv1alpha1.Targets) bool {
	for _, target := range targets {
		if target.Keeps() {
			return true
		}
	}
	return false
}

// writtenIn are the endpoints of a Service in EndpointSlices, as far as they are ready, in an order.
// What was made on a physical cluster is no endpoint that a user wrote. An address that pods on several
// physical clusters have, of which the user names none, leads nowhere.
func writtenIn(service string, of Sources, fleet Fleet) []placementv1alpha1.ImportedEndpoints {
	var groups []placementv1alpha1.ImportedEndpoints
	known := map[string]int{} // groups by what they have in common
	for i := range of.Slices {
		s := &of.Slices[i]
		family := corev1.IPFamily(s.AddressType)
		if s.Labels[discoveryv1.LabelServiceName] != service || s.DeletionTimestamp != nil || stamp.Mirrored(s) || family != corev1.IPv4Protocol && family != corev1.IPv6Protocol {
			continue
		}
		ports, text := writtenPorts(s.Ports)
		for _, e := range s.Endpoints {
			if !ptr.Deref(e.Conditions.Ready, true) {
				continue
			}
			for _, address := range e.Addresses {
				home, ok := of.Homes.of(address, e.TargetRef)
				if !ok {
					continue
				}
				key := home + " " + string(family) + text
				at, ok := known[key]
				if !ok {
					at, known[key] = len(groups), len(groups)
					groups = append(groups, placementv1alpha1.ImportedEndpoints{PhysicalCluster: home, Network: fleet[home].Network, Family: family, Ports: ports})
				}
				groups[at].Endpoints = append(groups[at].Endpoints, placementv1alpha1.ImportedEndpoint{Address: address, Hostname: ptr.Deref(e.Hostname, "")})
			}
		}
	}
	for i := range groups {
		slices.SortFunc(groups[i].Endpoints, func(a, b placementv1alpha1.ImportedEndpoint) int {
			return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Hostname, b.Hostname))
		})
		groups[i].Endpoints = slices.Compact(groups[i].Endpoints)
	}
	slices.SortFunc(groups, func(a, b placementv1alpha1.ImportedEndpoints) int {
		return cmp.Or(cmp.Compare(a.PhysicalCluster, b.PhysicalCluster), cmp.Compare(a.Family, b.Family), slices.CompareFunc(a.Endpoints, b.Endpoints, func(a, b placementv1alpha1.ImportedEndpoint) int { return cmp.Compare(a.Address, b.Address) }),
			slices.CompareFunc(a.Ports, b.Ports, func(a, b placementv1alpha1.ImportedPort) int {
				return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port))
			}))
	})
	return groups
}

// writtenPorts are ports of an EndpointSlice by their names, and the same as text.
func writtenPorts(of []discoveryv1.EndpointPort) (ports []placementv1alpha1.ImportedPort, text string) {
	for _, p := range of {
		if p.Port != nil {
			ports = append(ports, placementv1alpha1.ImportedPort{Name: ptr.Deref(p.Name, ""), Protocol: ptr.Deref(p.Protocol, corev1.ProtocolTCP), AppProtocol: p.AppProtocol, Port: *p.Port})
		}
	}
	slices.SortFunc(ports, func(a, b placementv1alpha1.ImportedPort) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range ports {
		text += fmt.Sprintf(" %s/%s/%d/%s", p.Name, p.Protocol, p.Port, ptr.Deref(p.AppProtocol, ""))
	}
	return ports, text
}

// serving are the networks in which a physical cluster has a copy.
func serving(targets placementv1alpha1.Targets, fleet Fleet) map[string]bool {
	networks := map[string]bool{}
	for name, target := range targets {
		if target.Keeps() {
			networks[fleet[name].Network] = true
		}
	}
	return networks
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
