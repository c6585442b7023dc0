package names

import (
	"net/netip"
	"slices"
	"strings"
)

// found is what is known of a name: that it is there, and what it leads to.
type found struct {
	exists    bool
	addresses []netip.Addr
	targets   []target
	cname     string
	text      string
}

// target is one of a SRV record.
type target struct {
	name      string
	port      uint16
	addresses []netip.Addr
}

// find looks a name of the zone up by its labels, without those of the zone.
//
//	labels                        if there is                     it has
//	-                             -                               nothing, but exists
//	dns-version                   -                               the version of the specification
//	svc | pod                     -                               nothing, but exists
//	NAMESPACE svc|pod             the namespace                   nothing, but exists
//	SERVICE NAMESPACE svc         the Service, with endpoints     addresses, a canonical name, ports
//	                              if it is headless
//	HOST SERVICE NAMESPACE svc    an endpoint of that name        its addresses and ports
//	_PROTO SERVICE NAMESPACE svc  a named port of that protocol   nothing, but exists
//	_PORT _PROTO SERVICE ...      such a port                     where it is
//	A-B-C-D NAMESPACE pod         the namespace                   the address that the label says
//	anything else                                                 does not exist
func (z *Zone) find(labels []string) found {
	n := len(labels)
	switch {
	case n == 0:
		return found{exists: true}
	case n == 1 && labels[0] == "dns-version":
		return found{exists: true, text: "1.1.0"}
	case labels[n-1] == "pod":
		return z.findPod(labels[:n-1])
	case labels[n-1] != "svc":
		return found{}
	case n == 1:
		return found{exists: true}
	case n == 2:
		return found{exists: z.namespace(labels[0])}
	}
	s := z.service(labels[n-2], labels[n-3])
	if s == nil {
		return found{}
	}
	switch rest := labels[:n-3]; {
	case len(rest) == 0:
		return s.itself()
	case s.ExternalName != "":
		return found{}
	case len(rest) == 1 && strings.HasPrefix(rest[0], "_"):
		return found{exists: slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Name != "" && "_"+p.Protocol == rest[0] })}
	case len(rest) == 1:
		return s.host(rest[0])
	case len(rest) == 2:
		return s.port(rest[0], rest[1])
	}
	return found{}
}

func (z *Zone) findPod(labels []string) found {
	switch len(labels) {
	case 0:
		return found{exists: true}
	case 1:
		return found{exists: z.namespace(labels[0])}
	case 2:
		if a, ok := undashed(labels[0]); ok && z.namespace(labels[1]) {
			return found{exists: true, addresses: []netip.Addr{a}}
		}
	}
	return found{}
}

func (s *Service) itself() found {
	if s.ExternalName != "" {
		return found{exists: true, cname: canonical(s.ExternalName)}
	}
	f := found{exists: true, targets: s.targets(func(Port) bool { return true })}
	if !s.Headless {
		f.addresses = s.Addresses
		return f
	}
	for _, e := range s.Endpoints {
		f.addresses = appendNew(f.addresses, e.Address)
	}
	f.exists = len(f.addresses) > 0
	return f
}

func (s *Service) host(label string) found {
	var f found
	for _, e := range s.Endpoints {
		if e.Hostname != label {
			continue
		}
		f.exists = true
		f.addresses = appendNew(f.addresses, e.Address)
		for _, p := range e.Ports {
			f.targets = append(f.targets, target{name: label + "." + s.domain(), port: p.Number, addresses: []netip.Addr{e.Address}})
		}
	}
	return f
}

func (s *Service) port(name, protocol string) found {
	named := s.targets(func(p Port) bool { return p.Name != "" && "_"+p.Name == name && "_"+p.Protocol == protocol })
	return found{exists: len(named) > 0, targets: named}
}

// targets are where the ports are that a function picks: of a headless Service those of its
// endpoints, under their own names.
func (s *Service) targets(picks func(Port) bool) []target {
	var out []target
	if !s.Headless {
		for _, p := range s.Ports {
			if picks(p) {
				out = append(out, target{name: s.domain(), port: p.Number, addresses: s.Addresses})
			}
		}
		return out
	}
	for _, e := range s.Endpoints {
		for _, p := range e.Ports {
			if picks(p) {
				out = append(out, target{name: e.Hostname + "." + s.domain(), port: p.Number, addresses: []netip.Addr{e.Address}})
			}
		}
	}
	return out
}

// appendNew relies on the order of endpoints, by address.
func appendNew(all []netip.Addr, a netip.Addr) []netip.Addr {
	if n := len(all); n > 0 && all[n-1] == a {
		return all
	}
	return append(all, a)
}
