package names

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Domain is what the names of Services end with, in each logical cluster.
const Domain = "cluster.local."

// Zone has the names of one logical cluster. It is not safe for concurrent use.
type Zone struct {
	services map[string]map[string]*Service // by namespace and name; a namespace may be empty
	imports  map[string]map[string]imported // likewise, but no namespace is empty
	names    map[netip.Addr]map[string]int  // the names that an address has, and how often
	server   *Service
	host     string // of the server
}

// imported is a Service whose endpoints are on other physical clusters.
type imported struct {
	*Service
	retired bool
}

// NewZone makes an empty one.
func NewZone() *Zone {
	return &Zone{
		services: map[string]map[string]*Service{}, imports: map[string]map[string]imported{},
		names: map[netip.Addr]map[string]int{},
	}
}

// SetServer says what kubernetes.default leads to; the zero value leads nowhere. No Service
// of a tenant replaces it.
func (z *Zone) SetServer(s Server) {
	if z.server != nil {
		z.index(z.server, false)
	}
	z.server, z.host = nil, ""
	if s.Host != "" {
		z.server, z.host = s.service(), canonical(s.Host)
		z.index(z.server, true)
	}
}

// SetNamespace says that there is a namespace.
func (z *Zone) SetNamespace(name string) {
	if z.services[name] == nil {
		z.services[name] = map[string]*Service{}
	}
}

// DeleteNamespace removes a namespace with its Services. Imports stay: they are elsewhere.
func (z *Zone) DeleteNamespace(name string) {
	for service := range maps.Clone(z.services[name]) {
		z.DeleteService(name, service)
	}
	delete(z.services, name)
}

// SetService adds a Service, or replaces the one of its name.
func (z *Zone) SetService(s Service) {
	z.DeleteService(s.Namespace, s.Name)
	z.SetNamespace(s.Namespace)
	z.services[s.Namespace][s.Name] = &s
	z.index(&s, true)
}

// DeleteService removes a Service.
func (z *Zone) DeleteService(namespace, name string) {
	if s := z.services[namespace][name]; s != nil {
		z.index(s, false)
		delete(z.services[namespace], name)
	}
}

// SetImport adds a Service whose endpoints are on other physical clusters, or replaces the
// import of its name. One that is retired goes behind a Service that is there, any other before
// it. Its namespace exists by it, and its addresses have their names in either case.
func (z *Zone) SetImport(s Service, retired bool) {
	z.DeleteImport(s.Namespace, s.Name)
	if z.imports[s.Namespace] == nil {
		z.imports[s.Namespace] = map[string]imported{}
	}
	z.imports[s.Namespace][s.Name] = imported{Service: &s, retired: retired}
	z.index(&s, true)
}

// DeleteImport removes an import.
func (z *Zone) DeleteImport(namespace, name string) {
	i, ok := z.imports[namespace][name]
	if !ok {
		return
	}
	z.index(i.Service, false)
	delete(z.imports[namespace], name)
	if len(z.imports[namespace]) == 0 {
		delete(z.imports, namespace)
	}
}

// Empty says that there is nothing in it.
func (z *Zone) Empty() bool { return len(z.services) == 0 && len(z.imports) == 0 && z.server == nil }

// index adds the names that addresses have by a Service, or takes them off. They are counted:
// a Service and the import of its name may give an address the same one.
func (z *Zone) index(s *Service, add bool) {
	for a, name := range reverse(s) {
		if add {
			if z.names[a] == nil {
				z.names[a] = map[string]int{}
			}
			z.names[a][name]++
			continue
		}
		if z.names[a][name]--; z.names[a][name] == 0 {
			delete(z.names[a], name)
		}
		if len(z.names[a]) == 0 {
			delete(z.names, a)
		}
	}
}

// reverse are the addresses of a Service with their names.
func reverse(s *Service) func(func(netip.Addr, string) bool) {
	return func(yield func(netip.Addr, string) bool) {
		for _, a := range s.Addresses {
			if !yield(a, s.domain()) {
				return
			}
		}
		if !s.Headless {
			return
		}
		for _, e := range s.Endpoints {
			if !yield(e.Address, e.Hostname+"."+s.domain()) {
				return
			}
		}
	}
}

// domain is the full name.
func (s *Service) domain() string { return s.Name + "." + s.Namespace + ".svc." + Domain }

// service finds a Service: the first that there is of
//
//	the server            nothing of a tenant replaces kubernetes.default
//	an import             its pods are elsewhere, or about to be: it is made before the copy goes
//	the Service           its pods are here
//	a retired import      its pods came here; it is kept for a while for who holds its address
func (z *Zone) service(namespace, name string) *Service {
	if z.server != nil && namespace == z.server.Namespace && name == z.server.Name {
		return z.server
	}
	i, ok := z.imports[namespace][name]
	if ok && !i.retired {
		return i.Service
	}
	if s := z.services[namespace][name]; s != nil {
		return s
	}
	return i.Service
}

// namespace says whether there is one of a name, be it by an import. The one called default
// is in every logical cluster.
func (z *Zone) namespace(name string) bool {
	_, here := z.services[name]
	_, elsewhere := z.imports[name]
	return here || elsewhere || name == "default"
}

// maxNames bounds how many names an address is said to have.
const maxNames = 16

// namesOf are the names of an address.
func (z *Zone) namesOf(a netip.Addr) []string {
	all := slices.Sorted(maps.Keys(z.names[a]))
	return all[:min(len(all), maxNames)]
}

func canonical(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, ".")) + "."
}
