package supplies

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/names"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

const dnsNamespace = "atoll-dns"

// namesFixture is a physical cluster where atoll-dns is ready, or not; its API server gives
// Services an address.
func namesFixture(t *testing.T, ready bool) *fixture {
	t.Helper()
	f := newFixture(t, nil, nil)
	f.Names = func() string { return dnsNamespace }
	f.Keeper.Names = f.Names
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: dnsNamespace, Name: "a", Labels: map[string]string{discoveryv1.LabelServiceName: names.AppName}}}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}
	if _, err := f.Kube.DiscoveryV1().EndpointSlices(dnsNamespace).Create(f.Ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	taken := 0
	f.Kube.PrependReactor("create", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s := a.(clienttesting.CreateAction).GetObject().(*corev1.Service)
		if s.Spec.ClusterIP == "" {
			taken++
			s.Spec.ClusterIP = fmt.Sprintf("10.96.0.%d", taken)
		}
		s.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		return false, nil, nil
	})
	f.Watch(t)
	return f
}

// ports are the Services: name, logical cluster and address.
func (f *fixture) ports(t *testing.T) []string {
	t.Helper()
	list, err := f.Kube.CoreV1().Services(dnsNamespace).List(f.Ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		_, tenant, server, err := names.PortOf(&list.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Join([]string{list.Items[i].Name, tenant.Cluster, list.Items[i].Spec.ClusterIP, server.String()}, " "))
	}
	slices.Sort(out)
	return out
}

func portNames(c logicalcluster.Name, n int) []string {
	var out []string
	for _, port := range (names.Tenant{ControlPlane: viewtest.ControlPlane, Cluster: c.String()}).Candidates(n) {
		out = append(out, names.PortName(port))
	}
	return out
}

func TestALogicalClusterGetsItsPortOnceAndKeepsIt(t *testing.T) {
	f := namesFixture(t, true)
	if got := f.Nameserver(viewtest.Cluster); got != (syncer.Nameserver{Offered: true}) {
		t.Fatalf("before: %+v", got)
	}
	port := (names.Tenant{ControlPlane: viewtest.ControlPlane, Cluster: viewtest.Cluster.String()}).Candidates(1)[0]
	want := syncer.Nameserver{Offered: true, Address: "10.96.0.1", Port: port, Namespace: dnsNamespace, Label: names.AppLabel, App: names.AppName}
	for range 2 {
		if err := f.FindNames(f.Ctx, viewtest.Cluster); err != nil {
			t.Fatal(err)
		}
		if got := f.Nameserver(viewtest.Cluster); got != want {
			t.Fatalf("%+v", got)
		}
	}
	// A syncer that starts finds what its predecessor made, whether or not anything is ready.
	next := New(f.Config)
	next.Config.Names = f.Names
	if err := next.FindNames(f.Ctx, viewtest.Cluster); err != nil || next.Nameserver(viewtest.Cluster) != want {
		t.Errorf("the successor: %+v %v", next.Nameserver(viewtest.Cluster), err)
	}
	if diff := cmp.Diff([]string{portNames(viewtest.Cluster, 1)[0] + " " + viewtest.Cluster.String() + " 10.96.0.1 10.0.0.1 6443"}, f.ports(t)); diff != "" {
		t.Error(diff)
	}
	policy, err := f.Kube.NetworkingV1().NetworkPolicies(dnsNamespace).Get(f.Ctx, portNames(viewtest.Cluster, 1)[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from := policy.Spec.Ingress[0].From[0].NamespaceSelector.MatchLabels
	if diff := cmp.Diff(map[string]string{boundary.TenantLabel: boundary.Tenant(viewtest.ControlPlane, viewtest.Cluster.String())}, from); diff != "" {
		t.Errorf("who may ask: %s", diff)
	}
}

func TestAPortIsNeverTwoTenants(t *testing.T) {
	f := namesFixture(t, true)
	// Somebody else has the first port: another control plane, another logical cluster, nobody at all.
	first := portNames(viewtest.Cluster, 4)
	for i, tenant := range []names.Tenant{{ControlPlane: "other", Cluster: viewtest.Cluster.String()}, {ControlPlane: viewtest.ControlPlane, Cluster: "bank"}, {}} {
		s := names.PortService(dnsNamespace, names.FirstPort, tenant, names.Server{})
		s.Name = first[i]
		if _, err := f.Kube.CoreV1().Services(dnsNamespace).Create(f.Ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.FindNames(f.Ctx, viewtest.Cluster); err != nil {
		t.Fatal(err)
	}
	s, err := f.Kube.CoreV1().Services(dnsNamespace).Get(f.Ctx, first[3], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port, tenant, _, err := names.PortOf(s)
	if err != nil || tenant.Cluster != viewtest.Cluster.String() || s.Spec.Ports[0].TargetPort.IntValue() != port || s.Spec.Ports[1].TargetPort.IntValue() != port {
		t.Errorf("%+v %v", s, err)
	}
}

func TestWithoutAReadyPodNobodyIsSentToAskThere(t *testing.T) {
	f := namesFixture(t, false)
	if err := f.FindNames(f.Ctx, viewtest.Cluster); !errors.Is(err, syncer.ErrNamesNotReady) {
		t.Fatal(err)
	}
	if got := f.ports(t); len(got) > 0 {
		t.Errorf("made: %v", got)
	}
	if got := f.Nameserver(viewtest.Cluster); got.Address != "" {
		t.Errorf("%+v", got)
	}
}

// A Namespace of the logical cluster is below from here on.
func (f *fixture) inhabit(t *testing.T) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "still-there", Labels: map[string]string{
		boundary.TenantLabel: boundary.Tenant(viewtest.ControlPlane, viewtest.Cluster.String()),
	}}}
	if _, err := f.Kube.CoreV1().Namespaces().Create(f.Ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAPortGoesWithTheLastNamespaceAndNotBefore(t *testing.T) {
	f := namesFixture(t, true)
	if err := f.FindNames(f.Ctx, viewtest.Cluster); err != nil {
		t.Fatal(err)
	}
	f.inhabit(t)
	if err := f.SweepNames(f.Ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := f.ports(t); len(got) != 1 {
		t.Fatalf("removed although a list shows a namespace that the watch lacks: %v", got)
	}
	if err := f.Kube.CoreV1().Namespaces().Delete(f.Ctx, "still-there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.SweepNames(f.Ctx, time.Now().Add(-59*time.Minute)); err != nil || len(f.ports(t)) != 1 {
		t.Fatalf("removed when it was just made: %v", err)
	}
	if err := f.SweepNames(f.Ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := f.ports(t); len(got) > 0 || f.Nameserver(viewtest.Cluster).Address != "" {
		t.Errorf("left: %v", got)
	}
	if list, err := f.Kube.NetworkingV1().NetworkPolicies(dnsNamespace).List(f.Ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("left: %v %v", list, err)
	}
}

func TestWhenAllPortsAreTakenThatIsSaid(t *testing.T) {
	f := namesFixture(t, true)
	for _, name := range portNames(viewtest.Cluster, maxPortsTried) {
		s := names.PortService(dnsNamespace, names.FirstPort, names.Tenant{ControlPlane: "other", Cluster: "bank"}, names.Server{})
		s.Name = name
		if _, err := f.Kube.CoreV1().Services(dnsNamespace).Create(f.Ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.FindNames(f.Ctx, viewtest.Cluster); !errors.Is(err, syncer.ErrNoPort) {
		t.Error(err)
	}
}

// A Service that somebody deletes is made again as it was.
func TestAPortThatSomebodyDeletedIsMadeAgainWithItsAddress(t *testing.T) {
	f := namesFixture(t, true)
	if err := f.FindNames(f.Ctx, viewtest.Cluster); err != nil {
		t.Fatal(err)
	}
	before := f.ports(t)
	name := portNames(viewtest.Cluster, 1)[0]
	drop := func() {
		t.Helper()
		if err := f.Kube.CoreV1().Services(dnsNamespace).Delete(f.Ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	used := map[logicalcluster.Name]bool{viewtest.Cluster: true}
	drop()
	if err := f.restoreNames(f.Ctx, dnsNamespace, used, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, f.ports(t)); diff != "" {
		t.Error(diff)
	}
	// Its address is somebody else's by now: it is found anew, and all that ask there are changed.
	drop()
	f.Kube.PrependReactor("create", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s := a.(clienttesting.CreateAction).GetObject().(*corev1.Service)
		if s.Spec.ClusterIP == "10.96.0.1" {
			return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, nil)
		}
		return false, nil, nil
	})
	changed := 0
	f.NamesChanged = func() { changed++ }
	if err := f.restoreNames(f.Ctx, dnsNamespace, used, nil); err != nil || changed != 1 {
		t.Fatal(err, changed)
	}
	if err := f.FindNames(f.Ctx, viewtest.Cluster); err != nil || f.Nameserver(viewtest.Cluster).Address != "10.96.0.2" {
		t.Errorf("%+v %v", f.Nameserver(viewtest.Cluster), err)
	}
}
