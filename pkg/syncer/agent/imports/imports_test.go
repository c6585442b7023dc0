package imports

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/names"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

const dnsNamespace = "atoll-dns"

var api = controller.Request{Cluster: viewtest.Cluster, Namespace: "web", Name: "api"}

// fixture is a Keeper on the physical cluster east, with a clock.
type fixture struct {
	*viewtest.World
	*Keeper
	now   time.Time
	names string
}

func newFixture(t *testing.T, below []runtime.Object, records ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{World: viewtest.New(t, []runtime.Object{viewtest.Namespace()}, below, records...), now: time.Now(), names: dnsNamespace}
	f.Keeper = New(Config{View: f.World.View, Down: f.World.Down(), Names: func() string { return f.names }, Permits: func() boundary.Permits { return boundary.Permits{} }, Now: func() time.Time { return f.now }})
	f.Watch(t)
	return f
}

// imported is a Service that is on west, as east imports it.
func imported(beside, own bool, addresses ...string) *placementv1alpha1.ServiceImport {
	imp := &placementv1alpha1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: api.Name, Annotations: map[string]string{logicalcluster.AnnotationKey: viewtest.Cluster.String()}},
		Spec: placementv1alpha1.ServiceImportSpec{Service: "s",
			Ports:     []placementv1alpha1.ImportedPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			Importers: []placementv1alpha1.Importer{{PhysicalCluster: viewtest.Target, Beside: beside, Own: own}}},
	}
	group := placementv1alpha1.ImportedEndpoints{PhysicalCluster: "west", Family: corev1.IPv4Protocol, Ports: []placementv1alpha1.ImportedPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 8080}}}
	for _, a := range addresses {
		group.Endpoints = append(group.Endpoints, placementv1alpha1.ImportedEndpoint{Address: a})
	}
	if len(addresses) > 0 {
		imp.Spec.Endpoints = []placementv1alpha1.ImportedEndpoints{group}
	}
	return imp
}

// set has an import be in view.
func (f *fixture) set(t *testing.T, imp *placementv1alpha1.ServiceImport) {
	t.Helper()
	client := f.Records.PlacementV1alpha1().ServiceImports(imp.Namespace)
	_, err := client.Create(f.Ctx, imp, metav1.CreateOptions{})
	if err != nil {
		imp.Annotations = map[string]string{logicalcluster.AnnotationKey: viewtest.Cluster.String()}
		if _, err = client.Update(f.Ctx, imp, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	viewtest.Eventually(t, "the import is in view", func() bool {
		seen, ok := f.World.Import(api)
		return ok && cmp.Equal(seen.Spec, imp.Spec)
	})
}

// reconcile looks at the import once the view shows what is below.
func (f *fixture) reconcile(t *testing.T) (controller.Result, error) {
	t.Helper()
	viewtest.Eventually(t, "the view shows what is below", func() bool { return slices.Equal(described(f.ImportedBelow(api)), f.below(t)) })
	return f.Reconcile(f.Ctx, api)
}

// below is what was made, see described.
func (f *fixture) below(t *testing.T) []string {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, kind := range []string{"Service", "EndpointSlice"} {
		list, err := f.World.Below.Resource(viewtest.Kind(kind).GroupVersionResource()).List(f.Ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return described(all)
}

// described are Services that were made with their standing, and slices with their addresses, sorted.
func described(objects []*unstructured.Unstructured) (out []string) {
	for _, obj := range objects {
		if obj.GetKind() == "Service" {
			if i, ok := names.MarkedImport(obj); ok && i.Retired {
				out = append(out, "service "+obj.GetNamespace()+" retired")
			} else if ok {
				out = append(out, "service "+obj.GetNamespace())
			}
			continue
		}
		endpoints, _, _ := unstructured.NestedSlice(obj.Object, "endpoints")
		text := "slice " + obj.GetNamespace()
		for _, e := range endpoints {
			addresses, _, _ := unstructured.NestedStringSlice(e.(map[string]any), "addresses")
			text += " " + strings.Join(addresses, " ")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (f *fixture) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if _, err := f.reconcile(t); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, f.below(t)); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func TestAServiceOfItsOwnFollowsItsImport(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, imported(false, true, "10.2.0.1"))
	f.expect(t, "it comes", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	writes := viewtest.Count(f.World.Below, "create") + viewtest.Count(f.World.Below, "patch")
	f.expect(t, "nothing changes", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	if n := viewtest.Count(f.World.Below, "create") + viewtest.Count(f.World.Below, "patch") - writes; n > 0 {
		t.Errorf("%d writes though nothing has changed", n)
	}
	f.set(t, imported(false, true, "10.2.0.2", "10.2.0.3"))
	f.expect(t, "pods change", "service atoll-dns", "slice atoll-dns 10.2.0.2 10.2.0.3")
	f.set(t, imported(false, true))
	f.expect(t, "there are no pods", "service atoll-dns")
	f.names = ""
	f.expect(t, "nobody answers names any more")
}

func TestWhoHoldsTheAddressOfAServiceThatArrivedGoesOnForAMinute(t *testing.T) {
	copied := viewtest.CopyOf(viewtest.Logical("Service", "web", "api", "s", `{"east":{}}`), "below-s")
	f := newFixture(t, []runtime.Object{copied})
	f.set(t, imported(false, true, "10.2.0.1"))
	f.expect(t, "it comes", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	f.set(t, imported(true, false, "10.2.0.1"))
	f.expect(t, "a copy receives", "service atoll-dns retired", "slice atoll-dns 10.2.0.1", "slice "+viewtest.PhysicalSpace+" 10.2.0.1")
	f.now = f.now.Add(retiredTime - time.Second)
	if result, err := f.reconcile(t); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("it is looked at again after %v %v", result.RequeueAfter, err)
	}
	f.expect(t, "less than a minute later", "service atoll-dns retired", "slice atoll-dns 10.2.0.1", "slice "+viewtest.PhysicalSpace+" 10.2.0.1")
	f.set(t, imported(true, true, "10.2.0.1"))
	f.expect(t, "it leaves again", "service atoll-dns", "slice atoll-dns 10.2.0.1", "slice "+viewtest.PhysicalSpace+" 10.2.0.1")
	f.set(t, imported(true, false, "10.2.0.1"))
	f.now = f.now.Add(time.Second)
	f.expect(t, "the minute begins anew", "service atoll-dns retired", "slice atoll-dns 10.2.0.1", "slice "+viewtest.PhysicalSpace+" 10.2.0.1")
	f.now = f.now.Add(retiredTime)
	f.expect(t, "a minute later", "slice "+viewtest.PhysicalSpace+" 10.2.0.1")
}

func TestWhatWasMadeOfAnImportThatIsOutOfViewGoesOnlyAfterAWhile(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, imported(false, true, "10.2.0.1"))
	f.expect(t, "it comes", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	remove := func() {
		t.Helper()
		if err := f.Records.PlacementV1alpha1().ServiceImports("web").Delete(f.Ctx, "api", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		viewtest.Eventually(t, "it is out of view", func() bool { _, ok := f.World.Import(api); return !ok })
	}
	remove()
	f.expect(t, "it is out of view", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	f.set(t, imported(false, true, "10.2.0.1"))
	f.now = f.now.Add(absentTime)
	f.expect(t, "it is back, as of a server that was restored", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	remove()
	f.expect(t, "it is out of view again", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	f.now = f.now.Add(absentTime)
	f.expect(t, "ten seconds later")
	if len(f.unneeded) > 0 {
		t.Errorf("what is gone is remembered: %v", f.unneeded)
	}
}

// A load balancer before the physical cluster that has no route for a moment says nothing of what is there.
func TestARemovalThatMetAPageIsTriedAgain(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, imported(false, true, "10.2.0.1"))
	f.expect(t, "it comes", "service "+dnsNamespace, "slice "+dnsNamespace+" 10.2.0.1")
	met := viewtest.PageOnce(f.World.Below, "delete", "endpointslices")
	f.set(t, imported(false, true))
	if _, err := f.reconcile(t); err == nil || !met() {
		t.Fatalf("it is left at that: met %t, error %v", met(), err)
	}
	f.expect(t, "it is tried again", "service "+dnsNamespace)
}

func TestAnObjectOfSomebodyElseIsNotTouched(t *testing.T) {
	theirs := viewtest.Object("Service", dnsNamespace, names.Imported{
		Tenant: names.Tenant{ControlPlane: viewtest.ControlPlane, Cluster: viewtest.Cluster.String()}, Namespace: "web", Name: "api",
	}.ServiceName(), "theirs")
	theirs.Object["spec"] = map[string]any{"selector": map[string]any{"app": "theirs"}}
	f := newFixture(t, []runtime.Object{theirs})
	f.set(t, imported(false, true))
	if _, err := f.reconcile(t); !errors.Is(err, syncer.ErrSupplyNotOurs) {
		t.Errorf("%v", err)
	}
	got, err := f.World.Below.Resource(viewtest.Kind("Service").GroupVersionResource()).Namespace(dnsNamespace).Get(f.Ctx, theirs.GetName(), metav1.GetOptions{})
	if err != nil || !cmp.Equal(got.Object, theirs.Object) {
		t.Errorf("%v %v", got, err)
	}
}

func TestASweepFindsImportsAndWhatIsLeftOfOthers(t *testing.T) {
	f := newFixture(t, nil)
	f.set(t, imported(false, true, "10.2.0.1"))
	f.expect(t, "it comes", "service atoll-dns", "slice atoll-dns 10.2.0.1")
	if err := f.Records.PlacementV1alpha1().ServiceImports("web").Delete(f.Ctx, "api", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "what is left is found", func() bool {
		_, ok := f.World.Import(api)
		return !ok && slices.Contains(f.Imports(), api)
	})
}

func TestAServerThatHasNoImportsHoldsUpNothingAndRemovesNothing(t *testing.T) {
	mine := viewtest.Object("Service", dnsNamespace, "atoll-import-1", "mine")
	names.Imported{Tenant: names.Tenant{ControlPlane: viewtest.ControlPlane, Cluster: viewtest.Cluster.String()}, Namespace: "web", Name: "api"}.Mark(mine)
	labels := mine.GetLabels()
	labels[syncer.SupplyLabel] = "import"
	mine.SetLabels(labels)
	f := &fixture{World: viewtest.New(t, nil, []runtime.Object{mine}), now: time.Now(), names: dnsNamespace}
	f.Lacks("serviceimports")
	f.Keeper = New(Config{View: f.World.View, Down: f.World.Down(), Names: func() string { return f.names }, Now: func() time.Time { return f.now }})
	f.Watch(t)
	viewtest.Eventually(t, "the view shows what is below", func() bool { return len(f.ImportedBelow(api)) == 1 })
	for range 2 {
		if _, err := f.Reconcile(f.Ctx, api); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(time.Hour)
	}
	if got := f.below(t); !slices.Equal(got, []string{"service atoll-dns"}) {
		t.Errorf("what is not known to be unneeded was removed: %v", got)
	}
}

func TestEndpointsAreBesideTheCopyAndNotBesideACopyOfThat(t *testing.T) {
	logical := viewtest.Logical("Service", "web", "api", "s", `{"east":{}}`)
	copied, clone := viewtest.CopyOf(logical, "below-s"), viewtest.CopyOf(logical, "below-c")
	clone.SetNamespace("a-clone-of-" + copied.GetNamespace())
	f := newFixture(t, []runtime.Object{copied, clone})
	f.set(t, imported(true, false, "10.2.0.1"))
	f.expect(t, "both have the marks", "slice "+viewtest.PhysicalSpace+" 10.2.0.1")
}
