package builtin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	api "k8s.io/kubernetes/pkg/apis/core"

	atollstorage "github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/clusterips"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// shown is what the Services of logical clusters are.
type shown map[logicalcluster.Name][]api.Service

func (s shown) ListPredicate(ctx context.Context, p storage.SelectionPredicate, o *metainternalversion.ListOptions) (runtime.Object, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, scope.ErrNoCluster
	}
	value, ok := p.Field.RequiresExactMatch(addressIndex)
	if !ok || !slices.Equal(p.IndexFields, []string{addressIndex}) || genericapirequest.NamespaceValue(ctx) != "" {
		return nil, errors.New("it is not read by the index")
	}
	list := &api.ServiceList{}
	for name, services := range s {
		for _, service := range services {
			service.Annotations = map[string]string{logicalcluster.AnnotationKey: name.String()}
			if slices.Contains(indexed(&service), value) {
				if name != c {
					return nil, fmt.Errorf("in %s it sees %s", c, name)
				}
				list.Items = append(list.Items, service)
			}
		}
	}
	return list, nil
}

// later shows what the watch cache does not have yet.
type later struct{ shown }

func (l later) ListPredicate(ctx context.Context, p storage.SelectionPredicate, o *metainternalversion.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" {
		return &api.ServiceList{}, nil
	}
	return l.shown.ListPredicate(ctx, p, o)
}

// before shows what the watch cache still has.
type before struct{ shown }

func (b before) ListPredicate(ctx context.Context, p storage.SelectionPredicate, o *metainternalversion.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion != "0" {
		return &api.ServiceList{}, nil
	}
	return b.shown.ListPredicate(ctx, p, o)
}

// claimedBy are the claims of a server, by logical cluster and value.
type claimedBy map[string]*atollstorage.Claim

func (c claimedBy) Take(_ context.Context, cluster logicalcluster.Name, value string) (*atollstorage.Claim, bool, error) {
	key := cluster.String() + "|" + value
	if c[key] != nil {
		return nil, false, nil
	}
	c[key] = &atollstorage.Claim{}
	return c[key], true, nil
}

func (c claimedBy) Release(_ context.Context, claims ...*atollstorage.Claim) {
	maps.DeleteFunc(c, func(_ string, claim *atollstorage.Claim) bool { return slices.Contains(claims, claim) })
}

func newAddresses(services lister) *addresses {
	return &addresses{services: services, claims: claimedBy{}}
}

func service(name, ip string, nodePorts ...int32) *api.Service {
	s := &api.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}}
	s.Spec.ClusterIP = ip
	if ip != "" {
		s.Spec.ClusterIPs = []string{ip}
	}
	for _, p := range nodePorts {
		s.Spec.Ports = append(s.Spec.Ports, api.ServicePort{NodePort: p})
	}
	return s
}

// markedIP is what acceptIPs leaves of IPv4.
var markedIP = families[0].mark

// mark is what acceptPorts leaves.
func mark(n int32) int32 { return math.MinInt32 | -n }

func inCluster(t *testing.T, c logicalcluster.Name) context.Context {
	t.Helper()
	return scope.With(t.Context(), scope.Scope{Cluster: c})
}

func allocate(t *testing.T, a *addresses, c logicalcluster.Name, s *api.Service) *api.Service {
	t.Helper()
	if err := a.allocate(inCluster(t, c), s, &api.Service{}, false); err != nil {
		t.Fatalf("allocating for %s: %v", s.Name, err)
	}
	return s
}

func TestAServiceGetsAFreeAddressOfTheRangeAndTheSameOneAgain(t *testing.T) {
	t.Parallel()
	first := allocate(t, newAddresses(shown{}), "a", service("front", markedIP))
	ip, err := netip.ParseAddr(first.Spec.ClusterIP)
	if err != nil || !clusterips.IPv4.Contains(ip) || first.Spec.ClusterIPs[0] != first.Spec.ClusterIP {
		t.Fatalf("got %q %v, want an address in %s", first.Spec.ClusterIP, first.Spec.ClusterIPs, clusterips.IPv4)
	}
	if again := allocate(t, newAddresses(shown{}), "a", service("front", markedIP)); again.Spec.ClusterIP != first.Spec.ClusterIP {
		t.Errorf("made again it gets %s, had %s", again.Spec.ClusterIP, first.Spec.ClusterIP)
	}
	taken := shown{"a": {*service("other", first.Spec.ClusterIP)}}
	if other := allocate(t, newAddresses(taken), "a", service("front", markedIP)); other.Spec.ClusterIP == first.Spec.ClusterIP {
		t.Errorf("it gets %s, which another Service has", other.Spec.ClusterIP)
	}
}

func TestAnAddressThatAnotherRequestIsAboutToStoreIsNotGiven(t *testing.T) {
	t.Parallel()
	a := newAddresses(shown{})
	first := allocate(t, a, "a", service("front", markedIP, mark(1)))
	second := allocate(t, a, "a", service("front", markedIP, mark(1)))
	if first.Spec.ClusterIP == second.Spec.ClusterIP || first.Spec.Ports[0] == second.Spec.Ports[0] {
		t.Errorf("two Services got %s and %s, ports %d and %d", first.Spec.ClusterIP, second.Spec.ClusterIP, first.Spec.Ports[0].NodePort, second.Spec.Ports[0].NodePort)
	}
	elsewhere := allocate(t, a, "b", service("front", markedIP, mark(1)))
	if elsewhere.Spec.ClusterIP != first.Spec.ClusterIP || elsewhere.Spec.Ports[0] != first.Spec.Ports[0] {
		t.Errorf("another logical cluster feels it: %s, port %d", elsewhere.Spec.ClusterIP, elsewhere.Spec.Ports[0].NodePort)
	}
	for _, chosen := range []*api.Service{service("chosen", first.Spec.ClusterIP), service("chosen", "10.96.0.9", first.Spec.Ports[0].NodePort)} {
		if err := a.allocate(inCluster(t, "a"), chosen, &api.Service{}, false); !apierrors.IsServerTimeout(err) {
			t.Errorf("who chose it hears %v, want a server timeout", err)
		}
	}
}

func TestWhatWasStoredBeforeTheClaimIsFound(t *testing.T) {
	t.Parallel()
	first := allocate(t, newAddresses(shown{}), "a", service("front", markedIP, mark(1)))
	stored := later{shown{"a": {*service("other", first.Spec.ClusterIP, first.Spec.Ports[0].NodePort)}}}
	if second := allocate(t, newAddresses(stored), "a", service("front", markedIP, mark(1))); second.Spec.ClusterIP == first.Spec.ClusterIP || second.Spec.Ports[0] == first.Spec.Ports[0] {
		t.Errorf("it gets %s and port %d, which another Service has", second.Spec.ClusterIP, second.Spec.Ports[0].NodePort)
	}
	if err := newAddresses(stored).allocate(inCluster(t, "a"), service("chosen", first.Spec.ClusterIP), &api.Service{}, false); !apierrors.IsInvalid(err) {
		t.Errorf("who chose it hears %v, want Invalid", err)
	}
}

func TestWhatAUserChoseIsGivenOnceTheServiceIsGoneThatHadIt(t *testing.T) {
	t.Parallel()
	deleted := before{shown{"a": {*service("before", "10.96.0.9", 30009)}}}
	for _, dryRun := range []bool{false, true} {
		if err := newAddresses(deleted).allocate(inCluster(t, "a"), service("after", "10.96.0.9", 30009), &api.Service{}, dryRun); err != nil {
			t.Errorf("dry run %v: %v", dryRun, err)
		}
	}
}

// A store begins an update anew after a conflict: what the request has claimed is its own.
func TestARequestThatTriesAgainGetsTheSame(t *testing.T) {
	t.Parallel()
	claims := claimedBy{}
	ctx, release := services{claims: claims}.hold(inCluster(t, "a"))
	a := &addresses{services: shown{}, claims: claims}
	var got [2]*api.Service
	for i := range got {
		got[i] = service("front", markedIP, mark(1), mark(2), 30009)
		if err := a.allocate(ctx, got[i], &api.Service{}, false); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(got[0].Spec, got[1].Spec); diff != "" {
		t.Errorf("the second try (-first +second):\n%s", diff)
	}
	if len(claims) != 4 {
		t.Errorf("%d claims, want one for each of 4 addresses", len(claims))
	}
	if release(nil); len(claims) != 0 {
		t.Errorf("after the request %v are claimed", claims)
	}
}

func TestClaimsOutliveARequestOfWhichNobodyKnowsWhatItStored(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want bool
	}{
		{"it is stored", t.Context(), nil, true},
		{"it is refused", t.Context(), apierrors.NewConflict(api.Resource("services"), "front", errors.New("it changed")), true},
		{"it is to be tried again", t.Context(), apierrors.NewServerTimeout(api.Resource("services"), "allocate", 1), true},
		{"etcd does not answer in time", t.Context(), apierrors.NewTimeoutError("etcd", 1), false},
		{"etcd breaks off", t.Context(), errors.New("etcdserver: request timed out"), false},
		{"the client has gone", gone, nil, false},
	} {
		if got := settled(c.ctx, c.err); got != c.want {
			t.Errorf("%s: released %v, want %v", c.name, got, c.want)
		}
	}
}

// unready is a watch cache that begins.
type unready struct{}

func (unready) ListPredicate(context.Context, storage.SelectionPredicate, *metainternalversion.ListOptions) (runtime.Object, error) {
	return nil, apierrors.NewTooManyRequests("storage is (re)initializing", 1)
}

func TestWhoAsksAServerThatBeginsTriesAgain(t *testing.T) {
	t.Parallel()
	err := newAddresses(unready{}).allocate(inCluster(t, "a"), service("front", markedIP), &api.Service{}, false)
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Details.RetryAfterSeconds != 1 {
		t.Errorf("error %v, want one that says when to try again", err)
	}
}

func TestADryRunClaimsNothing(t *testing.T) {
	t.Parallel()
	a := newAddresses(shown{})
	if err := a.allocate(inCluster(t, "a"), service("front", markedIP, mark(1)), &api.Service{}, true); err != nil {
		t.Fatal(err)
	}
	if len(a.claims.(claimedBy)) != 0 {
		t.Errorf("claimed: %v", a.claims)
	}
}

// The index costs memory for each Service that has a value, and every logical cluster has this one.
func TestTheServiceOfTheAPIServerHasItsAddressForItself(t *testing.T) {
	t.Parallel()
	own := service(serverService, "10.96.0.1")
	own.Namespace = metav1.NamespaceDefault
	if values := inUse(own); len(values) != 0 {
		t.Errorf("the index has %v", values)
	}
	if err := newAddresses(shown{}).allocate(inCluster(t, "a"), own, &api.Service{}, false); err != nil {
		t.Errorf("it is refused its address: %v", err)
	}
	for _, ip := range []string{"10.96.0.1", "10.096.00.01"} {
		if err := newAddresses(shown{}).allocate(inCluster(t, "a"), service("front", ip), &api.Service{}, false); !apierrors.IsInvalid(err) {
			t.Errorf("another Service with %s: %v, want Invalid", ip, err)
		}
	}
}

func TestWhatAUserChoseIsGivenUnlessAnotherServiceHasIt(t *testing.T) {
	t.Parallel()
	others := shown{"a": {*service("other", "10.96.0.9", 30009), *service("headless", api.ClusterIPNone)}}
	for _, c := range []struct {
		name     string
		cluster  logicalcluster.Name
		new, old *api.Service
		want     string // in the error
	}{
		{"free", "a", service("front", "10.96.0.8", 30008), nil, ""},
		{"the address is taken", "a", service("front", "10.96.0.9"), nil, "spec.clusterIPs: Invalid value"},
		{"the address is taken, however it is written", "a", service("front", "10.096.0.09"), nil, "spec.clusterIPs: Invalid value"},
		{"no address at all, which the validation refuses", "a", service("front", "nowhere"), nil, ""},
		{"the port is taken", "a", service("front", "10.96.0.8", 30008, 30009), nil, "spec.ports[1].nodePort: Invalid value: 30009"},
		{"taken in another logical cluster", "b", service("front", "10.96.0.9", 30009), nil, ""},
		{"no address", "a", service("front", api.ClusterIPNone), nil, ""},
		{"its own", "a", service("other", "10.96.0.9", 30009), nil, ""},
		{"it had them before", "a", service("front", "10.96.0.9", 30009), service("front", "10.96.0.9", 30009), ""},
		{"a port is added that is taken", "a", service("front", "10.96.0.8", 30009), service("front", "10.96.0.8"), "spec.ports[0].nodePort"},
	} {
		before := c.new.DeepCopy()
		old := c.old
		if old == nil {
			old = &api.Service{}
		}
		err := newAddresses(others).allocate(inCluster(t, c.cluster), c.new, old, false)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if c.want == "" && (c.new.Spec.ClusterIP != before.Spec.ClusterIP || len(c.new.Spec.Ports) > 0 && c.new.Spec.Ports[0] != before.Spec.Ports[0]) {
			t.Errorf("%s: what the user chose was changed to %+v", c.name, c.new.Spec)
		}
	}
}

func TestPortsWithOneMarkAreOnePortAndNeverOneThatTheServiceNames(t *testing.T) {
	t.Parallel()
	probe := allocate(t, newAddresses(shown{}), "a", service("front", "", mark(1)))
	wouldGet := probe.Spec.Ports[0].NodePort

	s := service("front", "", mark(1), mark(1), mark(2), wouldGet)
	s.Spec.HealthCheckNodePort = mark(3)
	allocate(t, newAddresses(shown{}), "a", s)
	p := s.Spec.Ports
	if p[0] != p[1] {
		t.Errorf("equal marks became %d and %d", p[0].NodePort, p[1].NodePort)
	}
	seen := map[int32]bool{}
	for _, port := range []int32{p[0].NodePort, p[2].NodePort, p[3].NodePort, s.Spec.HealthCheckNodePort} {
		if port < firstNodePort || port >= firstNodePort+nodePorts {
			t.Errorf("port %d is outside of the range", port)
		}
		if seen[port] {
			t.Errorf("port %d was given twice", port)
		}
		seen[port] = true
	}
}

func TestWhenAllPortsAreTakenAServiceIsRefused(t *testing.T) {
	t.Parallel()
	full := service("other", "")
	for p := range int32(nodePorts) {
		full.Spec.Ports = append(full.Spec.Ports, api.ServicePort{NodePort: firstNodePort + p})
	}
	err := newAddresses(shown{"a": {*full}}).allocate(inCluster(t, "a"), service("front", "", mark(1)), &api.Service{}, false)
	if err == nil || !strings.Contains(err.Error(), "no node port is free") {
		t.Errorf("error %v", err)
	}
}

func TestWithoutALogicalClusterNothingIsAllocated(t *testing.T) {
	t.Parallel()
	if err := newAddresses(shown{}).allocate(t.Context(), service("front", markedIP), &api.Service{}, false); err == nil {
		t.Error("an address was allocated nowhere")
	}
}
