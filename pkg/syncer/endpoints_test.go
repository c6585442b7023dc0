package syncer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// sliceOf is an EndpointSlice of a Service, with what its endpoints say about being ready.
func sliceOf(t *testing.T, conditions ...string) *unstructured.Unstructured {
	t.Helper()
	s := "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, uid: s, labels: {kubernetes.io/service-name: web}}\nendpoints:\n"
	for _, c := range conditions {
		s += fmt.Sprintf("- {addresses: [10.0.0.1], conditions: {%s}}\n", c)
	}
	return parse(t, s)
}

func TestWhetherAServiceLeadsAnywhere(t *testing.T) {
	for name, c := range map[string]struct {
		spec   string
		slices []*unstructured.Unstructured
		want   bool
	}{
		"to a pod that is ready":     {"selector: {app: web}", []*unstructured.Unstructured{sliceOf(t, "ready: true")}, false},
		"to one that does not say":   {"selector: {app: web}", []*unstructured.Unstructured{sliceOf(t, "")}, false},
		"to one of several":          {"selector: {app: web}", []*unstructured.Unstructured{sliceOf(t), sliceOf(t, "ready: false", "ready: true")}, false},
		"to none that is ready":      {"selector: {app: web}", []*unstructured.Unstructured{sliceOf(t, "ready: false")}, true},
		"to none":                    {"selector: {app: web}", []*unstructured.Unstructured{sliceOf(t)}, true},
		"without slices":             {"selector: {app: web}", nil, true},
		"to where users say":         {"ports: [{port: 80}]", nil, false},
		"it is another name of some": {"type: ExternalName, externalName: example.com, selector: {app: web}", nil, false},
	} {
		if got := LeadsNowhere(parse(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {"+c.spec+"}"), c.slices); got != c.want {
			t.Errorf("%s: nowhere %v", name, got)
		}
	}
}

// withAddresses is an object and its Copies. By target: its address, then the Services that lead to no pod.
func withAddresses(t *testing.T, targets map[string]string) (*unstructured.Unstructured, []*placementv1alpha1.Copy) {
	t.Helper()
	var entries []string
	var copies []*placementv1alpha1.Copy
	for target, says := range targets {
		entries = append(entries, fmt.Sprintf("%q:{}", target))
		address, nowhere, _ := strings.Cut(says, " ")
		status := `{"loadBalancer":{}}`
		if address != "" {
			status = `{"loadBalancer":{"ingress":[{"ip":"` + address + `"}]}}`
		}
		copies = append(copies, &placementv1alpha1.Copy{
			Spec:   placementv1alpha1.CopySpec{PhysicalCluster: target, Object: placementv1alpha1.ObjectReference{UID: "u"}},
			Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, NoEndpoints: strings.Fields(nowhere), Observed: &runtime.RawExtension{Raw: []byte(status)}},
		})
	}
	logical := parse(t, "apiVersion: v1\nkind: Any\nmetadata: {name: web, namespace: shop, uid: u}\nspec: {type: LoadBalancer, selector: {app: web}}")
	logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: "{" + strings.Join(entries, ",") + "}"})
	return logical, copies
}

// Who takes an address that leads to no pod is refused, while another one would serve him: a physical cluster whose share of
// the replicas is none, or whose pods all fail.
func TestAnAddressThatLeadsNowhereIsLeftOutBesideOthers(t *testing.T) {
	for name, c := range map[string]struct {
		// by target: its address, then the Services that lead to no pod.
		targets map[string]string
		want    []string
	}{
		"all lead somewhere":                {map[string]string{"east": "1", "west": "2"}, []string{"1", "2"}},
		"one does not":                      {map[string]string{"east": "1 a", "west": "2"}, []string{"2"}},
		"none does":                         {map[string]string{"east": "1 a", "west": "2 a"}, []string{"1", "2"}},
		"the only one does not":             {map[string]string{"east": "1 a"}, []string{"1"}},
		"the one that does has no address":  {map[string]string{"east": "1 a", "west": ""}, []string{"1"}},
		"one of three does not":             {map[string]string{"east": "1", "north": "3 a", "west": "2"}, []string{"1", "2"}},
		"one leads to less":                 {map[string]string{"east": "1 a b", "west": "2 b"}, []string{"2"}},
		"each leads to what others do not":  {map[string]string{"east": "1 a", "west": "2 b"}, []string{"1", "2"}},
		"one of these has none of both":     {map[string]string{"east": "1 a", "north": "3 a b", "west": "2 b"}, []string{"1", "2"}},
		"one to less, the other to nothing": {map[string]string{"east": "1 a", "west": "2 b c"}, []string{"1", "2"}},
	} {
		for _, kind := range []string{"Service", "Ingress"} {
			logical, copies := withAddresses(t, c.targets)
			status, _ := Summarize(kinds[kind], logical, copies, someTime)
			var got []string
			for _, address := range list(field(status, "loadBalancer"), "ingress") {
				got = append(got, fmt.Sprint(address["ip"]))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s (-want +got)\n%s", kind, name, diff)
			}
		}
	}
}

// A user who sees fewer addresses than physical clusters reads why.
func TestAServiceSaysWhichAddressesAreLeftOut(t *testing.T) {
	says := func(before map[string]any, now time.Time, targets map[string]string) (condition, status map[string]any, changed bool) {
		logical, copies := withAddresses(t, targets)
		if before != nil {
			logical.Object["status"] = before
		}
		status, changed = Summarize(kinds["Service"], logical, copies, now)
		return conditionOf(view{status: status}, AddressesCondition), status, changed
	}
	want := map[string]any{
		"type": "atoll.dev/AddressesLeftOut", "status": "True", "reason": "NoReadyPods", "lastTransitionTime": "2030-01-01T00:00:00Z",
		"message": "no pod is ready on north, west, where clients are not sent",
	}
	got, status, _ := says(nil, someTime, map[string]string{"east": "1", "middle": "", "north": "3 web", "west": "2 web"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	later := someTime.Add(time.Hour)
	if _, _, changed := says(status, later, map[string]string{"east": "1", "middle": "", "north": "3 web", "west": "2 web"}); changed {
		t.Error("it is written again and again")
	}
	want["message"] = "no pod is ready on west, where clients are not sent"
	got, status, changed := says(status, later, map[string]string{"east": "1", "north": "3", "west": "2 web"})
	if diff := cmp.Diff(want, got); diff != "" || !changed {
		t.Errorf("it holds since then, changed %v (-want +got)\n%s", changed, diff)
	}
	for name, targets := range map[string]map[string]string{
		"all lead somewhere": {"east": "1", "west": "2"}, "none does": {"east": "1 web", "west": "2 web"}, "one is left": {"west": "2 web"},
	} {
		if got, _, changed := says(status, later, targets); got != nil || !changed {
			t.Errorf("%s: %v, changed %v", name, got, changed)
		}
	}
}

// A physical cluster that was taken over may say whatever it likes.
func TestOfWhatLeadsNowhereNoMoreIsReadThanMayBeSaid(t *testing.T) {
	logical := parse(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, uid: u}")
	logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`})
	c := &placementv1alpha1.Copy{
		Spec:   placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{UID: "u"}},
		Status: placementv1alpha1.CopyStatus{NoEndpoints: make([]string, 100_000)},
	}
	if views := viewsOf(logical, []*placementv1alpha1.Copy{c}); len(views) != 1 || len(views[0].nowhere) != maxNoEndpoints {
		t.Errorf("%d views", len(views))
	}
}

func TestByWhichServicesAnAddressLeads(t *testing.T) {
	for name, c := range map[string]struct {
		kind, spec string
		want       []string
	}{
		"a load balancer":          {"Service", "type: LoadBalancer", []string{"web"}},
		"one without an address":   {"Service", "type: ClusterIP", nil},
		"an Ingress":               {"Ingress", "defaultBackend: {service: {name: db}}, rules: [{http: {paths: [{backend: {service: {name: b}}}, {backend: {service: {name: a}}}, {backend: {service: {name: b}}}]}}]", []string{"a", "b", "db"}},
		"one of resources":         {"Ingress", "defaultBackend: {resource: {kind: Bucket, name: b}}", nil},
		"what leads by no Service": {"Deployment", "replicas: 1", nil},
	} {
		if diff := cmp.Diff(c.want, ServicesOf(kinds[c.kind], parse(t, "apiVersion: v1\nkind: Any\nmetadata: {name: web}\nspec: {"+c.spec+"}"))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if got := ServicesOf(kinds["Service"], nil); got != nil {
		t.Errorf("of none: %v", got)
	}
}

// A change of where a Service leads is a report, although its copy is as it was: at once if it leads nowhere, and else after a
// while, as load balancers learn of pods later.
func TestWhereAnAddressLeadsIsReported(t *testing.T) {
	in := situation{kind: "Service", logical: "live", copy: "Synced"}.input()
	if err := unstructured.SetNestedField(in.Logical.Object, "LoadBalancer", "spec", "type"); err != nil {
		t.Fatal(err)
	}
	in.Physical = below(transformed(in.Logical, Placing{Ref: in.Ref, ControlPlane: controlPlane, Namespace: "shop-web-1"}))
	in.Physical.SetUID("p1")
	in.Copy.Status.PhysicalUID = "p1"
	in.Now = time.Unix(1_000_000, 0)
	for i, step := range []struct {
		after         time.Duration
		nowhere, says bool // that it leads nowhere
		left          time.Duration
	}{
		{0, true, true, 0},
		{time.Hour, true, true, 0},
		{0, false, true, settlingTime},
		{3 * time.Second, false, true, settlingTime - 3*time.Second},
		{time.Second, true, true, 0}, // it begins anew
		{time.Second, false, true, settlingTime},
		{settlingTime, false, false, 0},
		{time.Hour, false, false, 0},
		{0, true, true, 0},
	} {
		in.Now = in.Now.Add(step.after)
		in.Nowhere = func(service string) bool { return step.nowhere && service == in.Physical.GetName() }
		said := len(in.Copy.Status.NoEndpoints) > 0
		actions := Plan(in)
		wrote := false
		for _, a := range actions {
			if a.Verb == WriteCopy {
				wrote, in.Copy = true, a.Copy
			}
		}
		if says := len(in.Copy.Status.NoEndpoints) > 0; says != step.says || wrote != (says != said) {
			t.Errorf("step %d: it says %v, and said %v, after %s", i, says, said, describe(actions))
		}
		var left time.Duration
		if in.LedSince, left = Settling(in); left != step.left {
			t.Errorf("step %d: it settles for %s, want %s", i, left, step.left)
		}
	}
}

// Each Service behind an Ingress settles on its own.
func TestEachServiceBehindAnIngressSettles(t *testing.T) {
	ingress := parse(t, "apiVersion: v1\nkind: Any\nmetadata: {name: web}\nspec: {rules: [{http: {paths: [{backend: {service: {name: a}}}, {backend: {service: {name: b}}}, {backend: {service: {name: c}}}]}}]}")
	in := Input{Ref: Ref{Kind: kinds["Ingress"]}, Physical: ingress, Now: someTime, Copy: &placementv1alpha1.Copy{}}
	in.Copy.Status.NoEndpoints = []string{"a", "b"}
	for i, step := range []struct {
		after   time.Duration
		nowhere string
		says    string
		left    time.Duration
	}{
		{0, "a b", "a b", 0},
		{time.Second, "b", "a b", settlingTime},
		{2 * time.Second, "", "a b", 3 * time.Second},
		{3 * time.Second, "", "b", 2 * time.Second},
		{time.Second, "c", "b c", time.Second},
		{time.Second, "c", "c", 0},
		{time.Second, "", "c", settlingTime},
	} {
		in.Now = in.Now.Add(step.after)
		in.Nowhere = func(service string) bool { return slices.Contains(strings.Fields(step.nowhere), service) }
		in.Copy.Status.NoEndpoints = planner{Input: in}.noEndpoints()
		if got := strings.Join(in.Copy.Status.NoEndpoints, " "); got != step.says {
			t.Errorf("step %d: it says %q, want %q", i, got, step.says)
		}
		var left time.Duration
		if in.LedSince, left = Settling(in); left != step.left {
			t.Errorf("step %d: it settles for %s, want %s", i, left, step.left)
		}
	}
}

func TestWhatLeadsNowhereIsBounded(t *testing.T) {
	var paths []string
	for i := range 2 * maxNoEndpoints {
		paths = append(paths, fmt.Sprintf("{backend: {service: {name: s%03d}}}", i))
	}
	ingress := parse(t, "apiVersion: v1\nkind: Any\nmetadata: {name: web}\nspec: {rules: [{http: {paths: ["+strings.Join(paths, ", ")+"]}}]}")
	p := planner{Input: Input{Ref: Ref{Kind: kinds["Ingress"]}, Physical: ingress, Nowhere: func(string) bool { return true }}}
	if got := p.noEndpoints(); len(got) != maxNoEndpoints || !slices.IsSorted(got) {
		t.Errorf("%d: %v", len(got), got)
	}
}
