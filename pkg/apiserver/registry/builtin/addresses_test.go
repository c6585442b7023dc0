package builtin

import (
	"context"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// shown is what the watch cache shows of the Services, by logical cluster.
type shown map[logicalcluster.Name][]api.Service

func (s shown) List(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, scope.ErrNoCluster
	}
	return &api.ServiceList{Items: s[c]}, nil
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
	if err != nil || !serviceRange.Contains(ip) || first.Spec.ClusterIPs[0] != first.Spec.ClusterIP {
		t.Fatalf("got %q %v, want an address in %s", first.Spec.ClusterIP, first.Spec.ClusterIPs, serviceRange)
	}
	if again := allocate(t, newAddresses(shown{}), "a", service("front", markedIP)); again.Spec.ClusterIP != first.Spec.ClusterIP {
		t.Errorf("made again it gets %s, had %s", again.Spec.ClusterIP, first.Spec.ClusterIP)
	}
	taken := shown{"a": {*service("other", first.Spec.ClusterIP)}}
	if other := allocate(t, newAddresses(taken), "a", service("front", markedIP)); other.Spec.ClusterIP == first.Spec.ClusterIP {
		t.Errorf("it gets %s, which another Service has", other.Spec.ClusterIP)
	}
}

func TestAnAddressThatTheCacheDoesNotShowYetIsNotGivenTwice(t *testing.T) {
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
	for what := range a.given {
		a.given[what] = time.Now().Add(-time.Second)
	}
	if later := allocate(t, a, "a", service("front", markedIP)); later.Spec.ClusterIP != first.Spec.ClusterIP {
		t.Errorf("a reservation that has expired still holds: %s", later.Spec.ClusterIP)
	}
}

func TestADryRunReservesNothing(t *testing.T) {
	t.Parallel()
	a := newAddresses(shown{})
	if err := a.allocate(inCluster(t, "a"), service("front", markedIP, mark(1)), &api.Service{}, true); err != nil {
		t.Fatal(err)
	}
	if len(a.given) != 0 {
		t.Errorf("reserved: %v", a.given)
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
