package builtin

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/util/dryrun"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// The ranges of upstream's defaults. An address of a logical cluster leads
// nowhere by itself (each physical cluster gives the copy an address of its
// own), but manifests, charts and clients expect a Service to have one, unique
// in its cluster.
var serviceRange = netip.MustParsePrefix("10.96.0.0/12")

const (
	firstNodePort = 30000
	nodePorts     = 2768
	// reservation covers the time until the watch cache shows a new Service.
	reservation = 30 * time.Second
)

// addresses gives Services their cluster IPs and node ports. What is in use is
// read from the Services of the logical cluster in the watch cache; what was
// given a moment ago is remembered here.
type addresses struct {
	services lister

	mu    sync.Mutex
	given map[string]time.Time // <cluster>|<ip or port>, until when
}

type lister interface {
	List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error)
}

func newAddresses(services lister) *addresses {
	return &addresses{services: services, given: map[string]time.Time{}}
}

// hook puts the allocation behind what upstream does when a Service is created
// or updated: upstream decides what has to be allocated, its allocators (at the
// end of this file) leave marks, and the marks are replaced by free addresses.
// How it ends is nothing to upstream: those allocators hold nothing to give back,
// and it would log the marks as addresses.
func (a *addresses) hook(store *genericregistry.Store) {
	create, update := store.BeginCreate, store.BeginUpdate
	ended := func(context.Context, bool) {}
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, o *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
		if _, err := create(ctx, obj, o); err != nil {
			return nil, err
		}
		return ended, a.allocate(ctx, obj.(*api.Service), &api.Service{}, dryrun.IsDryRun(o.DryRun))
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, o *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
		if _, err := update(ctx, obj, old, o); err != nil {
			return nil, err
		}
		return ended, a.allocate(ctx, obj.(*api.Service), old.(*api.Service), dryrun.IsDryRun(o.DryRun))
	}
}

// use is what is taken in one logical cluster.
type use struct {
	ips   map[string]bool
	ports map[int32]bool
}

// allocate replaces the marks in s, and refuses addresses that the user chose
// (old does not have them) and another Service has.
func (a *addresses) allocate(ctx context.Context, s, old *api.Service, dryRun bool) error {
	had := ports(old)
	changed := s.Spec.ClusterIP != old.Spec.ClusterIP && s.Spec.ClusterIP != "" && s.Spec.ClusterIP != api.ClusterIPNone
	for p := range ports(s) {
		changed = changed || !had[p]
	}
	if !changed {
		return nil
	}
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(scope.ErrNoCluster)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u, err := a.inUse(ctx, s)
	if err != nil {
		return err
	}
	a.expire()
	taken := func(what string) bool { _, ok := a.given[cluster.String()+"|"+what]; return ok }
	give := func(what string) {
		if !dryRun {
			a.given[cluster.String()+"|"+what] = time.Now().Add(reservation)
		}
	}
	if err := chooseIP(s, old, u, taken, give); err != nil {
		return err
	}
	return choosePorts(s, had, u, taken, give)
}

func chooseIP(s, old *api.Service, u use, taken func(string) bool, give func(string)) error {
	switch ip := s.Spec.ClusterIP; {
	case ip == markedIP:
		ip, err := freeIP(s, func(ip string) bool { return u.ips[ip] || taken(ip) })
		if err != nil {
			return err
		}
		s.Spec.ClusterIP, s.Spec.ClusterIPs = ip, []string{ip}
		give(ip)
	case ip != old.Spec.ClusterIP && u.ips[ip]:
		return invalid(s, field.Invalid(field.NewPath("spec", "clusterIPs"), s.Spec.ClusterIPs, "failed to allocate IP "+ip+": provided IP is already allocated"))
	}
	return nil
}

func choosePorts(s *api.Service, had map[int32]bool, u use, taken func(string) bool, give func(string)) error {
	chosen := map[int32]int32{} // by mark: equal marks are one port
	asked := ports(s)           // the ports that the user named are not free either
	choose := func(p int32, path *field.Path) (int32, error) {
		switch {
		case p > 0 && !had[p] && u.ports[p]:
			return 0, invalid(s, field.Invalid(path, p, "provided port is already allocated"))
		case p >= 0:
			return p, nil
		case chosen[p] != 0:
			return chosen[p], nil
		}
		port, err := freePort(s, func(p int32) bool { return u.ports[p] || asked[p] || taken(fmt.Sprint(p)) })
		if err != nil {
			return 0, err
		}
		u.ports[port], chosen[p] = true, port
		give(fmt.Sprint(port))
		return port, nil
	}
	var err error
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort, err = choose(p.NodePort, field.NewPath("spec", "ports").Index(i).Child("nodePort")); err != nil {
			return err
		}
	}
	s.Spec.HealthCheckNodePort, err = choose(s.Spec.HealthCheckNodePort, field.NewPath("spec", "healthCheckNodePort"))
	return err
}

// ports are the node ports of a Service.
func ports(s *api.Service) map[int32]bool {
	out := map[int32]bool{}
	for _, p := range s.Spec.Ports {
		out[p.NodePort] = true
	}
	out[s.Spec.HealthCheckNodePort] = true
	delete(out, 0)
	return out
}

// inUse reads the other Services of the logical cluster from the watch cache.
func (a *addresses) inUse(ctx context.Context, self *api.Service) (use, error) {
	u := use{ips: map[string]bool{}, ports: map[int32]bool{}}
	list, err := a.services.List(genericapirequest.WithNamespace(ctx, metav1.NamespaceAll), &metainternalversion.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return u, fmt.Errorf("listing services: %w", err)
	}
	for i := range list.(*api.ServiceList).Items {
		s := &list.(*api.ServiceList).Items[i]
		if s.Namespace == self.Namespace && s.Name == self.Name {
			continue
		}
		for _, ip := range s.Spec.ClusterIPs {
			u.ips[ip] = true
		}
		for p := range ports(s) {
			u.ports[p] = true
		}
	}
	delete(u.ips, api.ClusterIPNone)
	return u, nil
}

func (a *addresses) expire() {
	now := time.Now()
	for k, until := range a.given {
		if now.After(until) {
			delete(a.given, k)
		}
	}
}

// freeIP probes from a place that depends on the name: a Service that is made
// again tends to get the same address.
func freeIP(s *api.Service, taken func(string) bool) (string, error) {
	size := uint32(1) << (32 - serviceRange.Bits())
	base := be32(serviceRange.Addr().As4())
	for i, start := uint32(0), hash(s); i < size; i++ {
		offset := (start + i) % size
		if offset == 0 || offset == size-1 {
			continue
		}
		if ip := netip.AddrFrom4(bytes4(base + offset)).String(); !taken(ip) {
			return ip, nil
		}
	}
	return "", apierrors.NewInternalError(fmt.Errorf("no cluster IP is free in %s", serviceRange))
}

func freePort(s *api.Service, taken func(int32) bool) (int32, error) {
	for i, start := uint32(0), hash(s); i < nodePorts; i++ {
		if port := int32(firstNodePort + (start+i)%nodePorts); !taken(port) {
			return port, nil
		}
	}
	return 0, apierrors.NewInternalError(fmt.Errorf("no node port is free"))
}

func hash(s *api.Service) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Namespace + "/" + s.Name))
	return h.Sum32()
}

func be32(b [4]byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func bytes4(v uint32) [4]byte { return [4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)} }

func invalid(s *api.Service, err *field.Error) error {
	return apierrors.NewInvalid(api.Kind("Service"), s.Name, field.ErrorList{err})
}

// markedIP is what acceptIPs gives; no Service can ask for it.
const markedIP = "0.0.0.0"

// acceptIPs stands where upstream has its cluster-wide allocator, which sees
// neither the context nor the Service.
type acceptIPs struct{}

func (acceptIPs) Allocate(net.IP) error         { return nil }
func (acceptIPs) AllocateNext() (net.IP, error) { return net.ParseIP(markedIP), nil }
func (acceptIPs) Release(net.IP) error          { return nil }
func (acceptIPs) ForEach(func(net.IP))          {}
func (acceptIPs) CIDR() net.IPNet {
	return net.IPNet{IP: serviceRange.Addr().AsSlice(), Mask: net.CIDRMask(serviceRange.Bits(), 32)}
}
func (acceptIPs) IPFamily() api.IPFamily          { return api.IPv4Protocol }
func (acceptIPs) Has(net.IP) bool                 { return false }
func (acceptIPs) Destroy()                        {}
func (acceptIPs) EnableMetrics()                  {}
func (a acceptIPs) DryRun() ipallocator.Interface { return a }

// acceptPorts likewise; its marks are negative, a new one for each call.
type acceptPorts struct{ mark *atomic.Int32 }

func (acceptPorts) Allocate(int) error           { return nil }
func (a acceptPorts) AllocateNext() (int, error) { return int(a.mark.Add(-1) | math.MinInt32), nil }
func (acceptPorts) Release(int) error            { return nil }
func (acceptPorts) ForEach(func(int))            {}
func (acceptPorts) Has(int) bool                 { return false }
func (acceptPorts) Destroy()                     {}
func (acceptPorts) EnableMetrics()               {}
