package declared

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func widgets(name string, age int) *fleetv1alpha1.PlacedKind {
	p := &fleetv1alpha1.PlacedKind{Spec: fleetv1alpha1.PlacedKindSpec{Version: "v1", Kind: "Widget"}}
	p.Name, p.CreationTimestamp = name, metav1.NewTime(time.Unix(int64(1_000_000-age), 0))
	return p
}

func TestADeclarationMakesAKindThatIsPlacedBehindThoseOfKubernetes(t *testing.T) {
	p := widgets("widgets.example.com", 1)
	p.Spec.PodTemplates, p.Spec.Replicas, p.Spec.Changes = []string{"spec.workload.template", "spec.groups.*.template"}, "spec.size", fleetv1alpha1.ChangesRecreate
	p.Spec.Status.Counters, p.Spec.Status.ObservedGeneration, p.Spec.Status.Rule = []string{"ready"}, true, "{}"
	c, refused := Catalog(workload.Builtin(), []*fleetv1alpha1.PlacedKind{p})
	if len(refused) != 0 {
		t.Fatal(refused)
	}
	got, ok := c.ByResource(schema.GroupResource{Group: "example.com", Resource: "widgets"})
	want := workload.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Resource: "widgets",
		Role: workload.Placed, Declared: true, Recreate: true,
		PodTemplate: []string{"spec", "workload", "template"}, PodTemplates: [][]string{{"spec", "groups", "*", "template"}}, Replicas: []string{"spec", "size"},
		Status: workload.Status{Generation: true, Counters: []string{"ready"}, Rule: "{}"},
	}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	if diff := cmp.Diff(workload.Builtin().All(), c.Undeclared().All()); diff != "" {
		t.Error("what is not declared is not as before:", diff)
	}
}

func TestTheOldestDeclarationsCountInWhateverOrderTheyAreHeardOf(t *testing.T) {
	older, younger := widgets("widgets.example.com", 9), widgets("deployments.apps", 1)
	younger.Spec.Kind = "Deployment"
	twin := widgets("gadgets.example.com", 5) // another resource of the same kind
	for _, order := range [][]*fleetv1alpha1.PlacedKind{{older, younger, twin}, {twin, younger, older}} {
		c, refused := Catalog(workload.Builtin(), order)
		if _, ok := c.ByResource(ResourceOf(older)); !ok {
			t.Error("the older declaration is left out")
		}
		for _, name := range []string{younger.Name, twin.Name} {
			if r := refused[name]; r.Reason != fleetv1alpha1.ReasonRefused || !strings.Contains(r.Message, "kind") {
				t.Errorf("%s: got %+v, want it refused", name, r)
			}
		}
	}
}

func TestThereIsABoundOnDeclarations(t *testing.T) {
	var all []*fleetv1alpha1.PlacedKind
	for i := range fleetv1alpha1.MaxPlacedKinds + 1 {
		p := widgets(fmt.Sprintf("widgets%d.example.com", i), i)
		p.Spec.Kind = fmt.Sprintf("Widget%d", i)
		all = append(all, p)
	}
	_, refused := Catalog(workload.Builtin(), all)
	if len(refused) != 1 || refused["widgets0.example.com"].Reason != fleetv1alpha1.ReasonTooMany {
		t.Errorf("got %v, want the youngest refused", refused)
	}
}

func definition(change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Spec.Names.Kind, d.Spec.Scope = "Widget", apiextensionsv1.NamespaceScoped
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}},
		{Name: "v0", Served: true},
	}
	d.Status.StoredVersions = []string{"v1"}
	if change != nil {
		change(d)
	}
	return d
}

func TestADefinitionSuitsOnlyIfWhatIsStoredCanBeReadAsDeclared(t *testing.T) {
	webhook := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	}
	statusless := widgets("widgets.example.com", 1)
	statusless.Spec.Status.Source = fleetv1alpha1.StatusOfLogicalCluster
	none := func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Subresources = nil }
	for _, c := range []struct {
		name       string
		kind       workload.Kind
		definition *apiextensionsv1.CustomResourceDefinition
		problem    string
	}{
		{"as declared", Kind(widgets("widgets.example.com", 1)), definition(nil), ""},
		{"nothing", Kind(widgets("widgets.example.com", 1)), nil, "not defined"},
		{"cluster-scoped", Kind(widgets("widgets.example.com", 1)), definition(func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Scope = apiextensionsv1.ClusterScoped }), "not namespaced"},
		{"another kind", Kind(widgets("widgets.example.com", 1)), definition(func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Names.Kind = "Gadget" }), "Gadget"},
		{"not served", Kind(widgets("widgets.example.com", 1)), definition(func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[0].Served = false }), "does not serve"},
		{"no status", Kind(widgets("widgets.example.com", 1)), definition(none), "subresource status"},
		{"no status, and none declared", Kind(statusless), definition(none), ""},
		{"a webhook, stored as declared", Kind(widgets("widgets.example.com", 1)), definition(webhook), ""},
		{"a webhook, once stored otherwise", Kind(widgets("widgets.example.com", 1)), definition(func(d *apiextensionsv1.CustomResourceDefinition) {
			webhook(d)
			d.Status.StoredVersions = []string{"v0", "v1"}
		}), "conversion webhook"},
		{"names of versions differ, content does not", Kind(widgets("widgets.example.com", 1)), definition(func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Status.StoredVersions = []string{"v0", "v1"}
		}), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Problem(c.kind, c.definition)
			if (c.problem == "") != (got == "") || !strings.Contains(got, c.problem) {
				t.Errorf("got %q, want %q in it", got, c.problem)
			}
		})
	}
}
