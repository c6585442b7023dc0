package serve

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/names"
)

const (
	own = "atoll-dns"
	api = "api.web.svc.cluster.local."
)

func apiOf(t names.Tenant) names.Imported {
	return names.Imported{Tenant: t, Namespace: "web", Name: "api"}
}

// below is a Service of a physical namespace with our mark; the address is None for a headless
// one.
func below(namespace, name, address string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{placementv1alpha1.ManagedByLabel: "cp"}}}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = address, []string{address}
	return s
}

// importOf is one that leads to i.
func importOf(i names.Imported, address string) *corev1.Service {
	s := below(own, i.ServiceName(), address)
	i.Mark(s)
	return s
}

// sliceOf has the endpoints of a Service.
func sliceOf(s *corev1.Service, addresses ...string) *discoveryv1.EndpointSlice {
	e := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name,
		Labels: map[string]string{placementv1alpha1.ManagedByLabel: "cp", discoveryv1.LabelServiceName: s.Name},
	}}
	for _, a := range addresses {
		e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return e
}

// namespaceOf is a physical namespace of a logical cluster, in which it is called web.
func namespaceOf(t names.Tenant, physical string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: physical, Labels: map[string]string{placementv1alpha1.ManagedByLabel: t.ControlPlane},
		Annotations: map[string]string{placementv1alpha1.LogicalClusterAnnotation: t.Cluster, placementv1alpha1.NamespaceAnnotation: "web"},
	}}
}

// world is a physical cluster that is watched.
type world struct {
	t     *testing.T
	kube  kubernetes.Interface
	zones *zones
}

func watched(t *testing.T, objects ...runtime.Object) world {
	t.Helper()
	w := world{t: t, kube: fake.NewClientset(objects...), zones: newZones(names.Policy{})}
	watcher, err := newWatcher(w.kube, own, w.zones, func() {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	synced, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		watcher.run(ctx, func() { close(synced) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-synced:
	case <-time.After(10 * time.Second):
		t.Fatal("the first lists do not end")
	}
	return w
}

// apply writes an object, over the one that is there.
func (w world) apply(objects ...runtime.Object) {
	w.t.Helper()
	for _, obj := range objects {
		var err, made error
		switch o := obj.(type) {
		case *corev1.Namespace:
			if _, err = w.kube.CoreV1().Namespaces().Update(w.t.Context(), o, metav1.UpdateOptions{}); err != nil {
				_, made = w.kube.CoreV1().Namespaces().Create(w.t.Context(), o, metav1.CreateOptions{})
			}
		case *corev1.Service:
			if _, err = w.kube.CoreV1().Services(o.Namespace).Update(w.t.Context(), o, metav1.UpdateOptions{}); err != nil {
				_, made = w.kube.CoreV1().Services(o.Namespace).Create(w.t.Context(), o, metav1.CreateOptions{})
			}
		case *discoveryv1.EndpointSlice:
			if _, err = w.kube.DiscoveryV1().EndpointSlices(o.Namespace).Update(w.t.Context(), o, metav1.UpdateOptions{}); err != nil {
				_, made = w.kube.DiscoveryV1().EndpointSlices(o.Namespace).Create(w.t.Context(), o, metav1.CreateOptions{})
			}
		}
		if err != nil && made != nil {
			w.t.Fatal(err, made)
		}
	}
}

func (w world) remove(s *corev1.Service) {
	w.t.Helper()
	if err := w.kube.CoreV1().Services(s.Namespace).Delete(w.t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// says is what a logical cluster answers: addresses, or a code.
func says(z *zones, t names.Tenant, name string) string {
	a := z.answer(t, dns.Question{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}, 0)
	if a.Code != dns.RcodeSuccess {
		return dns.RcodeToString[a.Code]
	}
	var out []string
	for _, rr := range a.Records {
		out = append(out, rr.(*dns.A).A.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// eventually waits for an answer.
func (w world) eventually(what string, t names.Tenant, name, want string) {
	w.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for got := says(w.zones, t, name); got != want; got = says(w.zones, t, name) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: %s of %s is %q, want %q", what, name, t.Cluster, got, want)
		}
		<-time.After(time.Millisecond)
	}
}

func TestAnImportAnswersFromWhenItIsThereToWhenItHasGone(t *testing.T) {
	w := watched(t, namespaceOf(shop, "shop-web"))
	pets := names.Imported{Tenant: shop, Namespace: "web", Name: "pets"}
	s := importOf(pets, "None")
	const name = "pets.web.svc.cluster.local."
	w.apply(s, sliceOf(s, "10.2.0.1"))
	w.eventually("an import", shop, name, "10.2.0.1")
	w.apply(sliceOf(s, "10.2.0.1", "10.2.0.2"))
	w.eventually("its endpoints change", shop, name, "10.2.0.1 10.2.0.2")
	copied := below("shop-web", "pets", "None")
	w.apply(sliceOf(copied, "10.1.0.1"), copied)
	w.apply(sliceOf(s, "10.2.0.3"))
	w.eventually("the copy comes", shop, name, "10.2.0.3")
	pets.Retired = true
	pets.Mark(s)
	w.apply(s)
	w.eventually("the import is retired", shop, name, "10.1.0.1")
	w.remove(copied)
	w.eventually("the copy goes again", shop, name, "10.2.0.3")
	w.remove(s)
	w.eventually("the import goes", shop, name, "NXDOMAIN")
}

func TestAServiceThatIsNoImportAnyMoreLeadsNowhere(t *testing.T) {
	w := watched(t)
	for what, change := range map[string]func(*corev1.Service){
		"without its label": func(s *corev1.Service) { delete(s.Labels, names.ImportLabel) },
		"as of another":     func(s *corev1.Service) { apiOf(bank).Mark(s) },
	} {
		s := importOf(apiOf(shop), "10.97.0.10")
		w.apply(s)
		w.eventually("an import", shop, api, "10.97.0.10")
		change(s)
		w.apply(s)
		w.eventually(what, shop, api, "NXDOMAIN")
		if got := says(w.zones, bank, api); got != "NXDOMAIN" {
			t.Errorf("%s: another says %s", what, got)
		}
	}
	w.zones.mu.RLock()
	defer w.zones.mu.RUnlock()
	if len(w.zones.byName) != 0 || len(w.zones.imports) != 0 {
		t.Errorf("zones without names stay: %v %v", w.zones.byName, w.zones.imports)
	}
}

func TestLabelsInANamespaceOfATenantMakeNoImport(t *testing.T) {
	forged := importOf(apiOf(bank), "10.96.66.66")
	forged.Namespace = "shop-web"
	for _, when := range []string{"at the start", "later"} {
		var w world
		if when == "later" {
			w = watched(t, namespaceOf(shop, "shop-web"))
			w.apply(forged, sliceOf(forged, "10.1.66.66"))
		} else {
			w = watched(t, namespaceOf(shop, "shop-web"), forged, sliceOf(forged, "10.1.66.66"))
		}
		// Under its own name it is a Service as any other.
		w.eventually(when, shop, forged.Name+".web.svc.cluster.local.", "10.96.66.66")
		for _, tenant := range []names.Tenant{shop, bank} {
			if got := says(w.zones, tenant, api); got != "NXDOMAIN" {
				t.Errorf("%s: %s says %s", when, tenant.Cluster, got)
			}
		}
		// Nor does it replace or remove the one of its name.
		w.apply(importOf(apiOf(bank), "10.97.0.20"))
		w.eventually(when, bank, api, "10.97.0.20")
		w.remove(forged)
		w.eventually(when, shop, forged.Name+".web.svc.cluster.local.", "NXDOMAIN")
		if got := says(w.zones, bank, api); got != "10.97.0.20" {
			t.Errorf("%s: the import says %s", when, got)
		}
	}
}

func TestEqualNamesOfTwoLogicalClustersAreOfEach(t *testing.T) {
	other := names.Tenant{ControlPlane: "other", Cluster: "shop"}
	w := watched(t, importOf(apiOf(shop), "10.97.0.10"))
	w.apply(importOf(apiOf(bank), "10.97.0.20"), importOf(apiOf(other), "10.97.0.30"))
	w.eventually("the first", shop, api, "10.97.0.10")
	w.eventually("the second", bank, api, "10.97.0.20")
	w.eventually("that of another control plane", other, api, "10.97.0.30")
	w.remove(importOf(apiOf(bank), ""))
	w.eventually("the second has gone", bank, api, "NXDOMAIN")
	if got := []string{says(w.zones, shop, api), says(w.zones, other, api)}; !slices.Equal(got, []string{"10.97.0.10", "10.97.0.30"}) {
		t.Errorf("the others say %v", got)
	}
}

func TestItsOwnNamespaceIsNoTenants(t *testing.T) {
	s := importOf(apiOf(bank), "10.97.0.20")
	w := watched(t, namespaceOf(shop, own), below(own, "first", "10.96.66.66"), s)
	w.eventually("the import", bank, api, "10.97.0.20")
	check := func(when string) {
		t.Helper()
		for _, tenant := range []names.Tenant{shop, bank} {
			got := map[string]string{}
			for _, name := range []string{"first", "second", s.Name} {
				got[name] = says(w.zones, tenant, name+".web.svc.cluster.local.")
			}
			if diff := cmp.Diff(map[string]string{"first": "NXDOMAIN", "second": "NXDOMAIN", s.Name: "NXDOMAIN"}, got); diff != "" {
				t.Errorf("%s says %s\n%s", tenant.Cluster, when, diff)
			}
		}
		if got := says(w.zones, bank, api); got != "10.97.0.20" {
			t.Errorf("%s the import says %s", when, got)
		}
	}
	check("at the start")
	// What a tenant has later is known once all before it is.
	w.apply(namespaceOf(bank, own), namespaceOf(shop, "shop-web"))
	w.apply(below(own, "second", "10.96.66.66"), below("shop-web", "last", "10.96.0.1"))
	w.eventually("a Service of a tenant", shop, "last.web.svc.cluster.local.", "10.96.0.1")
	check("later")
}

// TestImportsAreThereBeforeHandlersAreCalled: ports are opened after everything.
func TestImportsAreThereBeforeHandlersAreCalled(t *testing.T) {
	z := newZones(names.Policy{})
	w, err := newWatcher(fake.NewClientset(), own, z, func() {})
	if err != nil {
		t.Fatal(err)
	}
	s := importOf(apiOf(shop), "None")
	for _, add := range []error{w.services.GetStore().Add(s), w.slices.GetStore().Add(sliceOf(s, "10.2.0.1"))} {
		if add != nil {
			t.Fatal(add)
		}
	}
	w.everything()
	if got := says(z, shop, api); got != "10.2.0.1" {
		t.Error(got)
	}
}

func TestAnImportThatIsRemovedLeavesTheServer(t *testing.T) {
	w := watched(t, importOf(apiOf(shop), "10.97.0.10"))
	w.zones.setServer(shop, names.Server{Host: "192.168.9.9", Port: 6443})
	w.remove(importOf(apiOf(shop), ""))
	w.eventually("the import", shop, api, "NXDOMAIN")
	w.eventually("the server", shop, "kubernetes.default.svc.cluster.local.", "192.168.9.9")
}
