package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTheBuiltInKindsAreValid(t *testing.T) {
	c, err := New(builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	var copied, observed []string
	for _, k := range c.Kinds() {
		copied = append(copied, k.Kind)
	}
	for _, k := range c.Observed() {
		observed = append(observed, k.Kind)
	}
	want := []string{
		"Namespace", "LimitRange", "ResourceQuota", "Secret", "ConfigMap", "PersistentVolumeClaim", "Service", "Deployment", "StatefulSet",
		"DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "Pod", "Ingress", "NetworkPolicy", "PodDisruptionBudget",
		"HorizontalPodAutoscaler", "Manifest",
	}
	if diff := cmp.Diff(want, copied); diff != "" {
		t.Errorf("kinds that have copies, in order (-want +got)\n%s", diff)
	}
	want = []string{"PersistentVolumeClaim", "ReplicaSet", "Job", "Pod", "ControllerRevision", "EndpointSlice"}
	if diff := cmp.Diff(want, observed); diff != "" {
		t.Errorf("kinds that are mirrored, in order (-want +got)\n%s", diff)
	}
	if len(c.All()) != len(builtin()) || c.Container().Kind != "Namespace" {
		t.Errorf("%d kinds in all, container %s", len(c.All()), c.Container().Kind)
	}
}

func TestAKindIsFoundByResourceAndByKindInAnyVersion(t *testing.T) {
	c := Builtin()
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	revisions := schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}
	if k, ok := c.ByResource(deployments); !ok || k.Kind != "Deployment" {
		t.Errorf("%s: %s %v", deployments, k.Kind, ok)
	}
	if k, ok := c.ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"}); !ok || k.Resource != "deployments" {
		t.Errorf("Deployment: %s %v", k.Resource, ok)
	}
	if _, ok := c.ObservedByResource(deployments); ok {
		t.Error("Deployments are said to be mirrored")
	}
	if _, ok := c.ByResource(revisions); ok {
		t.Error("what is only mirrored is said to have copies")
	}
	if _, ok := c.ByKind(schema.GroupKind{Group: "apps", Kind: "ControllerRevision"}); ok {
		t.Error("a kind that is only mirrored is said to have copies")
	}
	for name, find := range map[string]func(schema.GroupResource) (Kind, bool){"mirrored": c.ObservedByResource, "any": c.Find} {
		if k, ok := find(revisions); !ok || k.Kind != "ControllerRevision" {
			t.Errorf("%s: %s %v", name, k.Kind, ok)
		}
	}
	for _, gr := range []schema.GroupResource{{Resource: "deployments"}, {Group: "apps", Resource: "events"}} {
		if _, ok := c.Find(gr); ok {
			t.Errorf("%s is found", gr)
		}
	}
}

func TestTheZeroCatalogHasNoKinds(t *testing.T) {
	var c Catalog
	_, found := c.Find(Secrets)
	_, byKind := c.ByKind(schema.GroupKind{Kind: "Pod"})
	if found || byKind || c.Kinds() != nil || c.Observed() != nil || c.All() != nil || c.Container().Kind != "" {
		t.Error("it has")
	}
}

func TestACatalogDoesNotChangeWithWhatItWasMadeOf(t *testing.T) {
	kinds := builtin()
	c, err := New(kinds...)
	if err != nil {
		t.Fatal(err)
	}
	kinds[0].Kind = "Changed"
	_ = append(c.Kinds(), Kind{Resource: "more"})
	_ = append(c.Observed(), Kind{Resource: "more"})
	if c.All()[0].Kind != "Namespace" || slices.ContainsFunc(c.All(), func(k Kind) bool { return k.Resource == "more" }) {
		t.Error("it did")
	}
}

func TestAnInvalidCatalogIsRefusedWithKindAndField(t *testing.T) {
	widget := Kind{GroupVersionKind: gvk("example.com", "v1", "Widget"), Resource: "widgets", Role: Placed}
	with := func(change func(*Kind)) []Kind {
		k := widget
		change(&k)
		return append(builtin()[:len(builtin())-2:len(builtin())-2], k)
	}
	for _, c := range []struct {
		name  string
		kinds []Kind
		want  string
	}{
		{"nothing wrong", with(func(*Kind) {}), ""},
		{"no kinds", nil, "0 kinds with the role Container"},
		{"two containers", append(builtin()[:1:1], func() Kind { k := widget; k.Role = Container; return k }()), "2 kinds with the role Container"},
		{"the same kind twice", append(with(func(*Kind) {}), widget), "kind Widget.example.com: there are two of it"},
		{"the same resource twice", append(with(func(*Kind) {}), func() Kind { k := widget; k.Kind = "Other"; return k }()), "kind Other.example.com: resource: another kind has widgets.example.com"},
		{"no version", with(func(k *Kind) { k.Version = "" }), "version and kind must be set"},
		{"no resource", with(func(k *Kind) { k.Resource = "" }), "resource must be set"},
		{"no role", with(func(k *Kind) { k.Role = "" }), `role: there is none called ""`},
		{"out of order", with(func(k *Kind) { k.Role = Referenced }), "role: Referenced comes before Placed"},
		{"mirrored, but not observed", with(func(k *Kind) { k.Role = Mirrored }), "observed: nothing else happens"},
		{"a rule that is observed", with(func(k *Kind) { k.Role, k.Observed = Ruling, true }), "observed: only what is placed"},
		{"two numbers of pods", with(func(k *Kind) { k.PodTemplate, k.Replicas, k.Parallelism = template, template, template }), "parallelism: replicas say"},
		{"pods without a template", with(func(k *Kind) { k.Replicas = template }), "podTemplate: there is a number of pods"},
		{"a time to live without an end", with(func(k *Kind) { k.TTL = template }), "ttl: finished.conditions"},
		{"a sum of no rule", with(func(k *Kind) { k.InSum = true }), "inSum: only what rules"},
		{"fields of no status", with(func(k *Kind) { k.Status = Status{None: true, Counters: []string{"a"}} }), "status: there is none"},
		{"unknown semantics", with(func(k *Kind) { k.Semantics = "Magic" }), `semantics: there is nothing called "Magic"`},
		{"a path without a name", with(func(k *Kind) { k.PodTemplate = []string{"spec", ""} }), "podTemplate: a field has no name"},
		{"a reference to nothing", with(func(k *Kind) { k.References = []ReferencePath{{Path: template}} }), "references: the resource must be set"},
		{"a reference from nowhere", with(func(k *Kind) { k.References = []ReferencePath{{Resource: Secrets}} }), "references: either path or annotation"},
		{"adopts what is not mirrored", with(func(k *Kind) { k.Adopts = []schema.GroupKind{{Kind: "Service"}} }), "adopts: Service is no kind of the catalog that is copied and mirrored"},
		{"numbers what is unknown", with(func(k *Kind) { k.Numbers = schema.GroupKind{Kind: "Unknown"} }), "numbers: Unknown is no kind of the catalog"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.kinds...)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v does not say %q", err, c.want)
			}
		})
	}
}

func TestWhatFieldsSayOfAKind(t *testing.T) {
	c := Builtin()
	pods, refers, below := []string{}, []string{}, []string{}
	for _, k := range c.All() {
		if k.IsPod() {
			pods = append(pods, k.Kind)
		}
		if k.Refers() && k.PodTemplate == nil {
			refers = append(refers, k.Kind)
		}
		if k.DeletedBelow() {
			below = append(below, k.Kind)
		}
	}
	got := map[string][]string{"is a pod": pods, "refers without a template": refers, "is deleted below first": below}
	want := map[string][]string{
		"is a pod": {"Pod"}, "refers without a template": {"Ingress"}, "is deleted below first": {"PersistentVolumeClaim", "ReplicaSet", "Job"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReplicaSetsNumberDeployments(t *testing.T) {
	c := Builtin()
	if k, ok := c.NumberingOf(schema.GroupResource{Group: "apps", Resource: "deployments"}); !ok || k.Kind != "ReplicaSet" {
		t.Errorf("Deployments are numbered by %s %v", k.Kind, ok)
	}
	if _, ok := c.NumberingOf(schema.GroupResource{Group: "apps", Resource: "replicasets"}); ok {
		t.Error("ReplicaSets are numbered")
	}
}

func TestWhatCameAndWhatWentIsTheDifferenceOfTwoCatalogs(t *testing.T) {
	names := func(kinds []Kind) []string {
		var out []string
		for _, k := range kinds {
			out = append(out, k.Kind)
		}
		return out
	}
	made := func(kinds ...Kind) Catalog {
		c, err := New(kinds...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	copied := builtin()[: len(builtin())-2 : len(builtin())-2] // no revisions, no slices of endpoints
	widget := Kind{GroupVersionKind: gvk("example.com", "v1", "Widget"), Resource: "widgets", Role: Placed}
	before := made(append(copied, widget)...)
	widget.Recreate = true
	for name, c := range map[string]struct {
		after      Catalog
		came, gone []string
	}{
		"the same":                  {before, nil, nil},
		"another with the same":     {made(before.All()...), nil, nil},
		"one less":                  {made(copied...), nil, []string{"Widget"}},
		"two more":                  {made(append(before.All(), builtin()[len(copied):]...)...), []string{"ControllerRevision", "EndpointSlice"}, nil},
		"one that is declared anew": {made(append(copied, widget)...), []string{"Widget"}, []string{"Widget"}},
	} {
		came, gone := c.after.Since(before)
		if diff := cmp.Diff([][]string{c.came, c.gone}, [][]string{names(came), names(gone)}); diff != "" {
			t.Errorf("%s: came, gone (-want +got)\n%s", name, diff)
		}
	}
	if came, gone := before.Since(Catalog{}); len(came) != len(before.All()) || len(gone) > 0 {
		t.Errorf("at first %d come and %d go", len(came), len(gone))
	}
}
