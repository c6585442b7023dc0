package names

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Service is a Service as far as it has names.
type Service struct {
	// Namespace is the logical one.
	Namespace, Name string
	// Addresses are the cluster's for it; a headless one has none, but Endpoints.
	Addresses    []netip.Addr
	Headless     bool
	ExternalName string
	Ports        []Port
	Endpoints    []Endpoint
}

// Port of a Service or an endpoint. The name and the protocol are in lower case.
type Port struct {
	Name, Protocol string
	Number         uint16
}

// Endpoint is one that is ready, or that counts as such.
type Endpoint struct {
	Address netip.Addr
	// Hostname is that of the pod, else one made of the address.
	Hostname string
	Ports    []Port
}

// maxEndpoints bounds what is kept of one Service: more does not fit into any answer.
const maxEndpoints = 4000

// ServiceFrom reads a Service and the EndpointSlices with its name. The namespace is
// the logical one, whatever theirs is.
func ServiceFrom(namespace string, s *corev1.Service, endpoints []*discoveryv1.EndpointSlice) Service {
	out := Service{Namespace: namespace, Name: s.Name}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		out.ExternalName = s.Spec.ExternalName
		return out
	}
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports, Port{Name: strings.ToLower(p.Name), Protocol: protocol(p.Protocol), Number: uint16(p.Port)})
	}
	out.Headless = s.Spec.ClusterIP == corev1.ClusterIPNone
	for _, text := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			out.Addresses = append(out.Addresses, a.Unmap())
		}
	}
	for _, e := range endpoints {
		out.Endpoints = append(out.Endpoints, endpointsFrom(e, s.Spec.PublishNotReadyAddresses)...)
	}
	slices.SortFunc(out.Endpoints, func(a, b Endpoint) int { return a.Address.Compare(b.Address) })
	// An endpoint that moves from one slice to another is in both for a moment.
	out.Endpoints = slices.CompactFunc(out.Endpoints, func(a, b Endpoint) bool {
		return a.Address == b.Address && a.Hostname == b.Hostname && slices.Equal(a.Ports, b.Ports)
	})
	out.Endpoints = out.Endpoints[:min(len(out.Endpoints), maxEndpoints)]
	return out
}

func endpointsFrom(slice *discoveryv1.EndpointSlice, notReady bool) []Endpoint {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	var ports []Port
	for _, p := range slice.Ports {
		if p.Port == nil {
			continue
		}
		port := Port{Protocol: "tcp", Number: uint16(*p.Port)}
		if p.Name != nil {
			port.Name = strings.ToLower(*p.Name)
		}
		if p.Protocol != nil {
			port.Protocol = protocol(*p.Protocol)
		}
		ports = append(ports, port)
	}
	var out []Endpoint
	for _, e := range slice.Endpoints {
		if ready := e.Conditions.Ready; ready != nil && !*ready && !notReady {
			continue
		}
		for _, text := range e.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			endpoint := Endpoint{Address: a.Unmap(), Hostname: dashed(a.Unmap()), Ports: ports}
			if e.Hostname != nil && *e.Hostname != "" {
				endpoint.Hostname = strings.ToLower(*e.Hostname)
			}
			out = append(out, endpoint)
		}
	}
	return out
}

// dashed is an address as one label.
func dashed(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}

// undashed reads what dashed wrote. "::" is "--"; where that does not say which, four
// groups of one dash are an IPv4 address.
func undashed(label string) (netip.Addr, bool) {
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		if a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ".")); err == nil {
			return a, true
		}
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ":"))
	return a, err == nil && a.Zone() == ""
}

func protocol(p corev1.Protocol) string {
	if p == "" {
		return "tcp"
	}
	return strings.ToLower(string(p))
}

// Server is what the name kubernetes.default leads to: a name or an address, and a port.
type Server struct {
	Host string
	Port uint16
}

// ParseServer reads "HOST PORT"; what is neither is no server.
func ParseServer(text string) (s Server, ok bool) {
	host, port, found := strings.Cut(text, " ")
	number, err := strconv.ParseUint(port, 10, 16)
	return Server{Host: host, Port: uint16(number)}, found && host != "" && err == nil && number > 0
}

func (s Server) String() string { return s.Host + " " + strconv.Itoa(int(s.Port)) }

// service is the one that leads there.
func (s Server) service() *Service {
	out := &Service{Namespace: "default", Name: "kubernetes", Ports: []Port{{Name: "https", Protocol: "tcp", Number: s.Port}}}
	if a, err := netip.ParseAddr(s.Host); err == nil {
		out.Addresses = []netip.Addr{a.Unmap()}
	} else {
		out.ExternalName = s.Host
	}
	return out
}
