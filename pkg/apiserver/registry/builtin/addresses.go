package builtin

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"
	api "k8s.io/kubernetes/pkg/apis/core"
	servicestrategy "k8s.io/kubernetes/pkg/registry/core/service"
	netutils "k8s.io/utils/net"

	atollstorage "github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/clusterips"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// The range of upstream's default. Nothing listens there: each physical cluster gives the copy a port of its own, but
// manifests, charts and clients expect a Service to have one, unique in its cluster.
const (
	firstNodePort = 30000
	nodePorts     = 2768
	// serverService is the Service of the API server in each logical cluster, in the namespace default.
	serverService = "kubernetes"
	// serverValue is what its address is claimed as.
	serverValue = "ip/" + clusterips.Server
)

// addresses gives Services their cluster IPs and node ports. What is in use the Services of the logical cluster say, by an
// index of the watch cache; requests that choose at the same time, at whichever server, are kept apart by claims.
//
//	the value is in use, as the watch cache knows    another one
//	another request has a claim to it                another one
//	it is in use, as etcd knows, once it is claimed  another one
//	else                                             it is given, and claimed until the request has ended
//
// Where the user chose the value there is no other: it is refused if it is in use, as etcd knows, and to be tried again if it
// is claimed.
type addresses struct {
	services lister
	claims   Claims
}

type lister interface {
	ListPredicate(context.Context, storage.SelectionPredicate, *metainternalversion.ListOptions) (runtime.Object, error)
}

// Claims keep a value to one request of all servers, see storage.Claims.
type Claims interface {
	Take(ctx context.Context, cluster logicalcluster.Name, value string) (claim *atollstorage.Claim, ok bool, err error)
	Release(ctx context.Context, claims ...*atollstorage.Claim)
}

// addressIndex finds Services by what their logical cluster has once.
const addressIndex = "atoll.dev/address"

// inUse are the addresses that a Service has, as they are claimed: all but the one that the Service of the API server
// has in each logical cluster, which no other may have.
func inUse(s *api.Service) []string {
	var all []string
	for _, ip := range s.Spec.ClusterIPs {
		if value, ok := ipValue(ip); ok && value != serverValue {
			all = append(all, value)
		}
	}
	for p := range ports(s) {
		all = append(all, portValue(p))
	}
	return all
}

// ipValue is how an IP is claimed, if it is one: a user may write it in several ways.
func ipValue(ip string) (string, bool) {
	parsed := netutils.ParseIPSloppy(ip)
	return "ip/" + parsed.String(), parsed != nil
}

func portValue(p int32) string { return fmt.Sprintf("port/%d", p) }

// indexed are the values under which the index has a Service.
func indexed(obj runtime.Object) []string {
	s, ok := obj.(*api.Service)
	if !ok {
		return nil
	}
	all := inUse(s)
	for i := range all {
		all[i] = logicalcluster.From(s).String() + "|" + all[i]
	}
	return all
}

// hook puts the allocation behind what upstream does when a Service is created
// or updated: upstream decides what has to be allocated, its allocators
// (acceptIPs, acceptPorts) leave marks, and the marks are replaced by free addresses.
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

// allocate replaces the marks in s, and refuses addresses that the user chose
// (old does not have them) and another Service has.
func (a *addresses) allocate(ctx context.Context, s, old *api.Service, dryRun bool) error {
	had := ports(old)
	changed := slices.ContainsFunc(s.Spec.ClusterIPs, func(ip string) bool { return isNew(ip, old) })
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
	c := choice{addresses: a, cluster: cluster, service: s, dryRun: dryRun, held: heldFrom(ctx)}
	if err := c.ips(ctx, old); err != nil {
		return err
	}
	return c.ports(ctx, had)
}

// choice is that of the addresses of a Service.
type choice struct {
	*addresses
	cluster logicalcluster.Name
	service *api.Service
	dryRun  bool
	held    held
}

// isNew says that a Service has a cluster IP, or a mark for one, which it had not.
func isNew(ip string, old *api.Service) bool {
	return ip != "" && ip != api.ClusterIPNone && !slices.Contains(old.Spec.ClusterIPs, ip)
}

func (c *choice) ips(ctx context.Context, old *api.Service) error {
	spec := &c.service.Spec
	spec.ClusterIPs = slices.Clone(spec.ClusterIPs) // upstream may have taken those of the old one
	for i, ip := range spec.ClusterIPs {
		if f, marked := markedBy(ip); marked {
			free, err := c.freeIP(ctx, f)
			if err != nil {
				return err
			}
			if spec.ClusterIPs[i] = free; i == 0 {
				spec.ClusterIP = free
			}
			continue
		}
		value, ok := ipValue(ip)
		if !ok || !isNew(ip, old) { // the validation says what is no address
			continue
		}
		if err := c.chosen(ctx, value, field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs, "failed to allocate IP "+ip+": provided IP is already allocated")); err != nil {
			return err
		}
	}
	return nil
}

func (c *choice) ports(ctx context.Context, had map[int32]bool) error {
	byMark := map[int32]int32{} // equal marks are one port
	named := ports(c.service)   // the ports that the user named are not free either
	choose := func(p int32, path *field.Path) (int32, error) {
		switch {
		case p > 0 && !had[p]:
			return p, c.chosen(ctx, portValue(p), field.Invalid(path, p, "provided port is already allocated"))
		case p >= 0:
			return p, nil
		case byMark[p] != 0:
			return byMark[p], nil
		}
		port, err := c.freePort(ctx, named)
		if err != nil {
			return 0, err
		}
		named[port], byMark[p] = true, port
		return port, nil
	}
	var err error
	for i := range c.service.Spec.Ports {
		p := &c.service.Spec.Ports[i]
		if p.NodePort, err = choose(p.NodePort, field.NewPath("spec", "ports").Index(i).Child("nodePort")); err != nil {
			return err
		}
	}
	c.service.Spec.HealthCheckNodePort, err = choose(c.service.Spec.HealthCheckNodePort, field.NewPath("spec", "healthCheckNodePort"))
	return err
}

// chosen takes what the user chose, or says why not.
func (c *choice) chosen(ctx context.Context, value string, used *field.Error) error {
	switch got, err := c.take(ctx, value); {
	case err != nil:
		return err
	case got == taken:
		return invalid(c.service, used)
	case got == claimed:
		return apierrors.NewServerTimeout(api.Resource("services"), "allocate "+value, 1)
	}
	return nil
}

// outcome is that of taking a value.
type outcome int

const (
	given outcome = iota
	// taken: another Service has it.
	taken
	// claimed: another request may be about to store a Service that has it.
	claimed
)

// take has a value given to the Service. What is read is not older than the claim, so that who had the claim before
// has either stored what it was for, or will not.
func (c *choice) take(ctx context.Context, value string) (outcome, error) {
	if c.held[value] == nil && !c.dryRun {
		claim, ok, err := c.claims.Take(ctx, c.cluster, value)
		switch {
		case err != nil:
			return 0, apierrors.NewInternalError(err)
		case !ok:
			return claimed, nil
		}
		c.held[value] = claim
	}
	return c.used(ctx, value, "")
}

// tryTake takes a value where another one would do, and claims none that is known to be in use.
func (c *choice) tryTake(ctx context.Context, value string) (bool, error) {
	if got, err := c.used(ctx, value, "0"); got == taken || err != nil {
		return false, err
	}
	got, err := c.take(ctx, value)
	return got == given, err
}

// used says whether a value is taken by another Service of the logical cluster, as of a resource version.
func (c *choice) used(ctx context.Context, value, version string) (outcome, error) {
	if value == serverValue {
		if c.service.Namespace != metav1.NamespaceDefault || c.service.Name != serverService {
			return taken, nil
		}
		return given, nil
	}
	ctx = genericapirequest.WithNamespace(scope.With(ctx, scope.Scope{Cluster: c.cluster}), metav1.NamespaceAll)
	list, err := c.services.ListPredicate(ctx, atollstorage.Indexed(addressIndex, c.cluster.String()+"|"+value, servicestrategy.GetAttrs), &metainternalversion.ListOptions{ResourceVersion: version})
	if err != nil {
		return 0, err //nolint:wrapcheck // a client hears when to try again
	}
	for i := range list.(*api.ServiceList).Items {
		s := &list.(*api.ServiceList).Items[i]
		if (s.Namespace != c.service.Namespace || s.Name != c.service.Name) && slices.Contains(inUse(s), value) {
			return taken, nil
		}
	}
	return given, nil
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

// freeIP probes from a place that depends on the name: a Service that is made
// again tends to get the same address.
func (c *choice) freeIP(ctx context.Context, f family) (string, error) {
	size := uint32(1) << (f.addresses.Addr().BitLen() - f.addresses.Bits())
	for i, start := uint32(0), hash(c.service); i < size; i++ {
		offset := (start + i) % size
		if offset == 0 || offset == size-1 {
			continue
		}
		ip := f.at(offset).String()
		if ok, err := c.tryTake(ctx, "ip/"+ip); err != nil || ok {
			return ip, err
		}
	}
	return "", apierrors.NewInternalError(fmt.Errorf("no cluster IP is free in %s", f.addresses))
}

// freePort does so with the ports that are not named.
func (c *choice) freePort(ctx context.Context, named map[int32]bool) (int32, error) {
	for i, start := uint32(0), hash(c.service); i < nodePorts; i++ {
		port := int32(firstNodePort + (start+i)%nodePorts)
		if named[port] {
			continue
		}
		if ok, err := c.tryTake(ctx, portValue(port)); err != nil || ok {
			return port, err
		}
	}
	return 0, apierrors.NewInternalError(fmt.Errorf("no node port is free"))
}

func hash(s *api.Service) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Namespace + "/" + s.Name))
	return h.Sum32()
}

func invalid(s *api.Service, err *field.Error) error {
	return apierrors.NewInvalid(api.Kind("Service"), s.Name, field.ErrorList{err})
}

// acceptPorts stands where upstream has its allocator of ports, as acceptIPs does; its marks are negative, a new one for each call.
type acceptPorts struct{ mark *atomic.Int32 }

func (acceptPorts) Allocate(int) error           { return nil }
func (a acceptPorts) AllocateNext() (int, error) { return int(a.mark.Add(-1) | math.MinInt32), nil }
func (acceptPorts) Release(int) error            { return nil }
func (acceptPorts) ForEach(func(int))            {}
func (acceptPorts) Has(int) bool                 { return false }
func (acceptPorts) Destroy()                     {}
func (acceptPorts) EnableMetrics()               {}
