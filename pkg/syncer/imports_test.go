package syncer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/names"
)

// importOf is a Service on east and west, with some of these as importers.
func importOf(importers ...placementv1alpha1.Importer) *placementv1alpha1.ServiceImport {
	port := placementv1alpha1.ImportedPort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}
	at := func(target, address string) placementv1alpha1.ImportedEndpoints {
		in := port
		in.Port = 8080
		return placementv1alpha1.ImportedEndpoints{PhysicalCluster: target, Family: corev1.IPv4Protocol, Ports: []placementv1alpha1.ImportedPort{in},
			Endpoints: []placementv1alpha1.ImportedEndpoint{{Address: address, Hostname: "pod"}}}
	}
	return &placementv1alpha1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", Annotations: map[string]string{logicalcluster.AnnotationKey: "acme"}},
		Spec: placementv1alpha1.ServiceImportSpec{Service: "s", Importers: importers, Ports: []placementv1alpha1.ImportedPort{port},
			Endpoints: []placementv1alpha1.ImportedEndpoints{at("east", "10.1.0.1"), at("west", "10.2.0.1")}},
	}
}

// typed is an object as its type.
func typed[T any](t *testing.T, obj *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// leadsTo is objects with what they lead to.
func leadsTo(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var out []string
	for _, obj := range objects {
		if obj.GetKind() == "Service" {
			s := typed[corev1.Service](t, obj)
			i, ok := names.ImportOf(s)
			out = append(out, fmt.Sprintf("service %s %v %v port %d retired %v", s.Namespace, ok, i.Cluster+"/"+i.Namespace+"/"+i.Name, s.Spec.Ports[0].Port, i.Retired))
			continue
		}
		s := typed[discoveryv1.EndpointSlice](t, obj)
		of := s.Labels[discoveryv1.LabelServiceName]
		if strings.HasPrefix(of, "atoll-import-") {
			of = "import"
		}
		out = append(out, fmt.Sprintf("slice %s of %s: %s:%d %s", s.Namespace, of, s.Endpoints[0].Addresses[0], *s.Ports[0].Port, *s.Endpoints[0].Hostname))
	}
	return out
}

func TestWhatAPhysicalClusterHasOfAServiceThatIsElsewhere(t *testing.T) {
	t.Parallel()
	at := ImportPlace{ControlPlane: "cp", Target: "west", Names: "atoll-dns", Physical: "acme-shop-1"}
	without := func(change func(*ImportPlace)) ImportPlace { p := at; change(&p); return p }
	own, retired := "service atoll-dns true acme/shop/api port 80 retired false", "service atoll-dns true acme/shop/api port 80 retired true"
	all := []string{"slice atoll-dns of import: 10.1.0.1:8080 pod", "slice atoll-dns of import: 10.2.0.1:8080 pod"}
	beside := "slice acme-shop-1 of api: 10.1.0.1:8080 pod"
	for name, c := range map[string]struct {
		importer placementv1alpha1.Importer
		at       ImportPlace
		before   bool
		want     []string
	}{
		"of its own":                        {placementv1alpha1.Importer{PhysicalCluster: "west", Own: true}, at, false, append(slices.Clone(all), own)},
		"beside":                            {placementv1alpha1.Importer{PhysicalCluster: "west", Beside: true}, at, false, []string{beside}},
		"both":                              {placementv1alpha1.Importer{PhysicalCluster: "west", Beside: true, Own: true}, at, true, append(append([]string{beside}, all...), own)},
		"a copy receives, and there is one": {placementv1alpha1.Importer{PhysicalCluster: "west", Beside: true}, at, true, append(append([]string{beside}, all...), retired)},
		"nobody answers names":              {placementv1alpha1.Importer{PhysicalCluster: "west", Own: true, Beside: true}, without(func(p *ImportPlace) { p.Names = "" }), true, []string{beside}},
		"the copy is not there":             {placementv1alpha1.Importer{PhysicalCluster: "west", Beside: true}, without(func(p *ImportPlace) { p.Physical = "" }), false, nil},
		"somebody else imports it":          {placementv1alpha1.Importer{PhysicalCluster: "north", Own: true, Beside: true}, at, true, nil},
	} {
		if diff := cmp.Diff(c.want, leadsTo(t, ImportedOf(importOf(c.importer), c.at, c.before))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// Networks may have the same addresses: those of another one lead to somebody else.
func TestEndpointsInAnotherNetworkAreNotImported(t *testing.T) {
	t.Parallel()
	imp := importOf(placementv1alpha1.Importer{PhysicalCluster: "west", Network: "n", Beside: true, Own: true})
	for i := range imp.Spec.Endpoints {
		imp.Spec.Endpoints[i].Network = "n"
	}
	far := *imp.Spec.Endpoints[0].DeepCopy()
	far.PhysicalCluster, far.Network, far.Endpoints[0].Address = "far", "m", "10.1.0.9"
	imp.Spec.Endpoints = append(imp.Spec.Endpoints, far)
	at := ImportPlace{ControlPlane: "cp", Target: "west", Names: "atoll-dns", Physical: "acme-shop-1"}
	want := []string{"slice acme-shop-1 of api: 10.1.0.1:8080 pod", "slice atoll-dns of import: 10.1.0.1:8080 pod", "slice atoll-dns of import: 10.2.0.1:8080 pod",
		"service atoll-dns true acme/shop/api port 80 retired false"}
	if diff := cmp.Diff(want, leadsTo(t, ImportedOf(imp, at, false))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEndpointsOfOneImportFillSlicesThatKeepTheirFamily(t *testing.T) {
	t.Parallel()
	imp := importOf(placementv1alpha1.Importer{PhysicalCluster: "north", Own: true})
	imp.Spec.Headless = true
	imp.Spec.Endpoints[1].Family = corev1.IPv6Protocol
	for i := range 249 {
		imp.Spec.Endpoints[0].Endpoints = append(imp.Spec.Endpoints[0].Endpoints, placementv1alpha1.ImportedEndpoint{Address: fmt.Sprintf("10.1.1.%d", i)})
	}
	o := ImportedOf(imp, ImportPlace{ControlPlane: "cp", Target: "north", Names: "atoll-dns"}, false)
	if s := typed[corev1.Service](t, ImportedService(o)); s.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("a headless Service has the address %q", s.Spec.ClusterIP)
	}
	var got []string
	seen := map[string]bool{}
	for _, obj := range o[:len(o)-1] {
		s := typed[discoveryv1.EndpointSlice](t, obj)
		_, suffix, _ := strings.Cut(strings.TrimPrefix(s.Name, "atoll-import-"), "-")
		got = append(got, fmt.Sprintf("%s %s %d", suffix, s.AddressType, len(s.Endpoints)))
		if seen[s.Name] || !IsImported("cp", s) {
			t.Errorf("slice %s: %v", s.Name, s.Labels)
		}
		if _, ok := s.Labels[corev1.IsHeadlessService]; !ok {
			t.Errorf("slice %s does not say that the Service is headless, so that kube-proxy would look for it", s.Name)
		}
		seen[s.Name] = true
	}
	if diff := cmp.Diff([]string{"ipv4-0 IPv4 100", "ipv4-1 IPv4 100", "ipv4-2 IPv4 50", "ipv6-0 IPv6 1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAChangeOfAnImportIsSeenBelow(t *testing.T) {
	t.Parallel()
	at := ImportPlace{ControlPlane: "cp", Target: "north", Names: "atoll-dns"}
	importer := placementv1alpha1.Importer{PhysicalCluster: "north", Own: true}
	made := ImportedOf(importOf(importer), at, false)
	if again := ImportedOf(importOf(importer), at, false); !SameImported(made[0], again[0]) || !SameImported(made[2], again[2]) {
		t.Error("the same import makes something else")
	}
	changed := importOf(importer)
	changed.Spec.Ports[0].Port, changed.Spec.Endpoints[0].Endpoints[0].Address = 81, "10.1.0.2"
	other := ImportedOf(changed, at, false)
	if SameImported(made[2], other[2]) || SameImported(made[0], other[0]) || !SameImported(made[1], other[1]) {
		t.Error("a change is not seen, or one where there is none")
	}
	cluster, namespace, name, ok := ImportRequest("cp", made[0])
	if !ok || cluster != "acme" || namespace != "shop" || name != "api" {
		t.Errorf("%s %s %s %v", cluster, namespace, name, ok)
	}
	if _, _, _, ok := ImportRequest("another", made[0]); ok {
		t.Error("what another control plane made is ours")
	}
}

func TestAServiceKeepsItsAddressWhenItsImportChanges(t *testing.T) {
	t.Parallel()
	at, importer := ImportPlace{ControlPlane: "cp", Target: "north", Names: "atoll-dns"}, placementv1alpha1.Importer{PhysicalCluster: "north", Own: true}
	there := ImportedService(ImportedOf(importOf(importer), at, false)).DeepCopy()
	there.SetUID("u")
	field(there.Object, "spec")["clusterIP"] = "10.96.0.7"
	there.SetLabels(nil)
	changed := importOf(importer)
	changed.Spec.Ports[0].Port, changed.Spec.SessionAffinity = 81, corev1.ServiceAffinityClientIP
	wanted := ImportedService(ImportedOf(changed, at, false))
	there.SetAnnotations(map[string]string{"atoll.dev/retired": "true"})
	patch, anew := Reimport(wanted, there)
	before, err := json.Marshal(there.Object)
	if err != nil {
		t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		t.Fatal(err)
	}
	var s corev1.Service
	if err := json.Unmarshal(after, &s); err != nil {
		t.Fatal(err)
	}
	if _, retired := s.Annotations["atoll.dev/retired"]; retired || anew || s.UID != "u" || s.Spec.ClusterIP != "10.96.0.7" || s.Spec.Ports[0].Port != 81 ||
		s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || !IsImported("cp", &s) {
		t.Errorf("anew %v: %+v", anew, s)
	}
	changed.Spec.Headless = true
	if _, anew := Reimport(ImportedService(ImportedOf(changed, at, false)), there); !anew {
		t.Error("a Service becomes headless without being made anew, which the API refuses")
	}
}

// kube-proxy takes endpoints of a node's own zone if all say theirs, and any if none is in it.
func TestEndpointsElsewhereAreNotCloseToAServiceThatPrefersWhatIs(t *testing.T) {
	t.Parallel()
	at := ImportPlace{ControlPlane: "cp", Target: "west", Physical: "acme-shop-1"}
	imp := importOf(placementv1alpha1.Importer{PhysicalCluster: "west", Beside: true})
	zone := func() string {
		s := typed[discoveryv1.EndpointSlice](t, ImportedOf(imp, at, false)[0])
		if s.Endpoints[0].Hints == nil {
			return ""
		}
		return s.Endpoints[0].Hints.ForZones[0].Name
	}
	if got := zone(); got != "" {
		t.Errorf("without a preference they have the zone %q", got)
	}
	before := ImportedOf(imp, at, false)[0]
	prefer := corev1.ServiceTrafficDistributionPreferClose
	imp.Spec.TrafficDistribution = &prefer
	if got := zone(); got != zoneElsewhere || SameImported(before, ImportedOf(imp, at, false)[0]) {
		t.Errorf("they have the zone %q", got)
	}
}

// What users wrote is taken as far as the physical cluster permits it, beside a copy and elsewhere.
func TestOfEndpointsThatUsersWroteThoseArePermittedThatAnAdminNames(t *testing.T) {
	t.Parallel()
	imp := importOf(placementv1alpha1.Importer{PhysicalCluster: "west", Beside: true, Own: true})
	written := imp.Spec.Endpoints[:1:1]
	written[0].PhysicalCluster = ""
	written[0].Endpoints = nil
	for _, a := range []string{"10.2.0.9", "192.0.2.7", "192.0.2.200", "no address"} {
		written[0].Endpoints = append(written[0].Endpoints, placementv1alpha1.ImportedEndpoint{Address: a, Hostname: "db"})
	}
	imp.Spec.Endpoints, imp.Spec.Written = nil, written
	at := ImportPlace{ControlPlane: "cp", Target: "west", Names: "atoll-dns", Physical: "acme-shop-1"}
	service := "service atoll-dns true acme/shop/api port 80 retired false"
	if diff := cmp.Diff([]string{service}, leadsTo(t, ImportedOf(imp, at, false))); diff != "" {
		t.Errorf("by default (-want +got)\n%s", diff)
	}
	at.Permits = boundary.Permits{EndpointCIDRs: []string{"10.0.0.0/8", "192.0.2.0/25"}, Network: fleetv1alpha1.Network{PodCIDRs: []string{"10.2.0.0/16"}}}
	made := ImportedOf(imp, at, false)
	want := []string{"slice acme-shop-1 of api: 192.0.2.7:8080 db", "slice atoll-dns of import: 192.0.2.7:8080 db", service}
	if diff := cmp.Diff(want, leadsTo(t, made)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, obj := range made[:2] {
		if n := len(typed[discoveryv1.EndpointSlice](t, obj).Endpoints); n != 1 {
			t.Errorf("%s has %d endpoints", obj.GetName(), n)
		}
	}
}

// Those of pods of the namespace are taken where these are, and in their network, whatever is permitted.
func TestOfEndpointsThatUsersWroteThoseOfTheirPodsAreTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		on, network, importersNetwork string
		taken                         bool
	}{
		"here":                      {"west", "", "", true},
		"here, in a network":        {"west", "n", "n", true},
		"here, which joins one now": {"west", "", "n", true},
		"in its network":            {"east", "n", "n", true},
		"in no network":             {"east", "", "", false},
		"in another network":        {"east", "m", "n", false},
	} {
		imp := importOf(placementv1alpha1.Importer{PhysicalCluster: "west", Network: c.importersNetwork, Beside: true, Own: true})
		imp.Spec.Written = []placementv1alpha1.ImportedEndpoints{{PhysicalCluster: c.on, Network: c.network, Family: corev1.IPv4Protocol,
			Ports: []placementv1alpha1.ImportedPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 8080}}, Endpoints: []placementv1alpha1.ImportedEndpoint{{Address: "10.2.0.9", Hostname: "db"}}}}
		imp.Spec.Endpoints = nil
		var want []string
		if c.taken {
			want = []string{"slice acme-shop-1 of api: 10.2.0.9:8080 db", "slice atoll-dns of import: 10.2.0.9:8080 db"}
		}
		at := ImportPlace{ControlPlane: "cp", Target: "west", Names: "atoll-dns", Physical: "acme-shop-1", Permits: boundary.Permits{Network: fleetv1alpha1.Network{PodCIDRs: []string{"10.2.0.0/16"}}}}
		got := leadsTo(t, ImportedOf(imp, at, false))
		if got = got[:len(got)-1]; !slices.Equal(want, got) { // without the Service
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A name is not believed more than that of a copy.
func TestANameOfAServiceElsewhereIsWhatACopyWouldHave(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"db.example.com": "db.example.com", "db": "db.", "169.254.169.254": "nothing.invalid.", "metadata": "nothing.invalid.",
		"web.other.svc.cluster.local": "", "web.other.svc": "",
	} {
		imp := importOf(placementv1alpha1.Importer{PhysicalCluster: "west", Own: true})
		imp.Spec = placementv1alpha1.ServiceImportSpec{Service: "s", ExternalName: name, Importers: imp.Spec.Importers}
		got := ""
		made := ImportedOf(imp, ImportPlace{ControlPlane: "cp", Target: "west", Names: "atoll-dns"}, false)
		if len(made) > 0 {
			s := typed[corev1.Service](t, made[0])
			if got = s.Spec.ExternalName; s.Spec.Type != corev1.ServiceTypeExternalName || len(s.Spec.Ports) > 0 {
				t.Errorf("%s: %+v", name, s.Spec)
			}
		}
		if got != want || len(made) > 1 {
			t.Errorf("%s leads to %q by %d objects", name, got, len(made))
		}
	}
	service := ImportedOf(importOf(placementv1alpha1.Importer{PhysicalCluster: "west", Own: true}), ImportPlace{ControlPlane: "cp", Target: "west", Names: "atoll-dns"}, false)[2]
	named := importOf(placementv1alpha1.Importer{PhysicalCluster: "west", Own: true})
	named.Spec = placementv1alpha1.ServiceImportSpec{Service: "s", ExternalName: "db.example.com", Importers: named.Spec.Importers}
	leads := ImportedOf(named, ImportPlace{ControlPlane: "cp", Target: "west", Names: "atoll-dns"}, false)[0]
	if _, anew := Reimport(leads, service); !anew {
		t.Error("a Service with an address becomes one of a name by a patch")
	}
	other := leads.DeepCopy()
	setNested(other.Object, "other.example.com", "spec", "externalName")
	if patch, anew := Reimport(other, leads); anew || !strings.Contains(string(patch), "other.example.com") {
		t.Errorf("another name: %s, %v", patch, anew)
	}
}
