package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// oneCPU has a Deployment request a processor.
func oneCPU(d *appsv1.Deployment) {
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
}

// fence keeps what is in the logical cluster on these physical clusters.
func (w *world) fence(names ...string) {
	w.t.Helper()
	p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "fence"}}
	p.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: names}}}}
	if _, err := w.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(w.ctx, p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// change patches the spec of a physical cluster.
func (w *world) change(name, spec string) {
	w.t.Helper()
	if _, err := w.Atoll.FleetV1alpha1().PhysicalClusters().Patch(server.InRoot(w.t), name, types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// about leaves of messages what they say of these physical clusters; others come and go.
func about(messages []string, names ...string) []string {
	var out []string
	for _, m := range messages {
		if m == "" {
			continue
		}
		_, m, _ = strings.Cut(m, ": ")
		parts := slices.DeleteFunc(strings.Split(m, "; "), func(part string) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(part, name+": ") })
		})
		out = append(out, strings.Join(parts, "; "))
	}
	slices.Sort(out)
	return out
}

// Three namespaces and room for two elsewhere, and what a policy keeps where it is: the dry run
// says what the drain does then.
func TestADryRunOfADrainSaysWhatTheDrainDoes(t *testing.T) {
	w := newWorld(t, "sum")
	w.physical("sum-a", "sum-b")
	w.fence("sum-a", "sum-b")
	w.change("sum-b", `{"unschedulable":true}`)
	for _, namespace := range []string{"one", "two", "three"} {
		w.deploy(namespace, "", oneCPU)
	}
	if _, err := w.Kube.CoreV1().Namespaces().Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	front := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "front"}}
	front.Spec.Objects = &placementv1alpha1.ObjectSelection{Names: []string{"web"}}
	front.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"name": "sum-a"}}}
	if _, err := w.Atoll.PlacementV1alpha1().PlacementPolicies("web").Create(w.ctx, front, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.deployIn("web")
	server.Eventually(t, 30*time.Second, "the Placement of what the policy selects", func() error {
		_, err := w.Atoll.PlacementV1alpha1().Placements("web").Get(w.ctx, "front", metav1.GetOptions{})
		return err
	})
	w.Report(t, "sum-b", func(s *fleetv1alpha1.PhysicalClusterStatus) {
		s.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
	})
	w.change("sum-b", `{"unschedulable":false}`)

	w.ok("lc", "use", "root")
	out, _, err := w.run("drain", "sum-a", "--dry-run")
	if want := "sum-a would not become empty: 2 of the units on it cannot move"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for _, cells := range [][]string{
		{"sum", "one", "Moves", "sum-a", "sum-b"}, {"sum", "three", "Moves", "sum-a", "sum-b"}, {"sum", "two", "Pending", "sum-a", "<none>"},
		{"sum", "web/front", "Pending", "sum-a", "<none>"},
	} {
		if err := row(out, cells...); err != nil {
			t.Error(err)
		}
	}
	if want := "4 units: 2 would move, 2 would have nowhere to go, 0 stay where they are"; !strings.Contains(out, want) {
		t.Errorf("%s, want %q", out, want)
	}
	// A question takes nothing: the second answer is the first one.
	if again, _, _ := w.run("drain", "sum-a", "--dry-run"); again != out {
		t.Errorf("asked again:\n%s", cmp.Diff(out, again))
	}
	messages, _, err := w.run("drain", "sum-a", "--dry-run", "-o", `jsonpath={range .items[?(@.status.message!="placed on sum-b")]}{.status.message}{"\n"}{end}`)
	if err == nil {
		t.Error("it does not fail when it prints objects")
	}
	want := about(strings.Split(messages, "\n"), "sum-a", "sum-b")

	w.fails("sum-a is not drained, and the drain goes on", "drain", "sum-a")
	server.Eventually(t, 30*time.Second, "two that move and two that cannot", func() error {
		pc, err := w.Atoll.FleetV1alpha1().PhysicalClusters().Get(server.InRoot(t), "sum-a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := pc.Status.Drain; s == nil || s.Namespaces != 4 || s.Moving != 2 || s.Blocked != 2 {
			return fmt.Errorf("the drain: %+v", s)
		}
		var got []string
		for _, b := range pc.Status.Drain.Blockers {
			got = append(got, b.Message)
		}
		if diff := cmp.Diff(want, about(got, "sum-a", "sum-b")); diff != "" {
			return fmt.Errorf("blockers (-dry run +drain):\n%s", diff)
		}
		return nil
	})
}

// How many namespaces a physical cluster takes is room, too.
func TestADryRunCountsNamespaces(t *testing.T) {
	w := newWorld(t, "count")
	w.physical("count-a", "count-b")
	w.fence("count-a", "count-b")
	w.change("count-b", `{"unschedulable":true}`)
	w.deploy("one", "")
	w.deploy("two", "")
	w.change("count-b", `{"unschedulable":false,"bounds":{"count/namespaces":"1"}}`)
	w.ok("lc", "use", "root")
	w.fails("count-a would not become empty: 1 of the namespaces on it cannot move", "drain", "count-a", "--dry-run")
	w.wantRow([]string{"whatif", "--without", "count-a"}, "count", "one", "Moves", "count-a", "count-b")
	w.wantRow([]string{"whatif", "--without", "count-a"}, "count", "two", "Pending", "count-a", "<none>")
	// A tenant does not hear how many namespaces others have there: it asks without numbers.
	out := w.ok("whatif", "--without", "count-a", "-A", "--context", "count")
	if !strings.Contains(out, "2 would move, 0 would have nowhere to go") {
		t.Errorf("what if, in the logical cluster: %s", out)
	}
}

func TestAZoneIsSupposedGoneByItsLabels(t *testing.T) {
	w := newWorld(t, "zone")
	for name, zone := range map[string]string{"zone-a": "one", "zone-b": "one", "zone-c": "two"} {
		w.Register(t, name, map[string]string{"name": name, "zone": "zone-" + zone})
		t.Cleanup(func() { w.forget(name) })
	}
	w.Beat(t, "zone-a", "zone-b", "zone-c")
	w.fence("zone-a", "zone-b", "zone-c")
	w.change("zone-c", `{"unschedulable":true}`)
	placed := map[string]string{"one": "zone-a", "two": "zone-b"}
	for namespace, on := range placed {
		d := w.deploy(namespace, on, oneCPU)
		if _, err := w.Kube.CoreV1().Namespaces().Patch(w.ctx, d.Namespace, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+placementv1alpha1.PhysicalClusterAnnotation+`":null}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.change("zone-c", `{"unschedulable":false}`)
	for _, args := range [][]string{{"whatif", "-l", "zone=zone-one", "-A"}, {"whatif", "--without", "zone-b", "-l", "zone=zone-one", "--context", "root"}, {"drain", "-l", "zone=zone-one", "--dry-run", "--context", "root"}} {
		out := w.ok(args...)
		for namespace, on := range placed {
			cells := []string{namespace, "Moves", on, "zone-c"}
			if slices.Contains(args, "root") {
				cells = append([]string{"zone"}, cells...)
			}
			if err := row(out, cells...); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		}
	}
	// Without the labels each of the two would do.
	w.wantRow([]string{"whatif", "--without", "zone-a", "-n", "one"}, "one", "Moves", "zone-a")
	w.Report(t, "zone-c", func(s *fleetv1alpha1.PhysicalClusterStatus) {
		s.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
	})
	w.fails("zone-a, zone-b would not become empty: 1 of the namespaces on it cannot move", "drain", "-l", "zone=zone-one", "--dry-run", "--context", "root")
	w.fails("no physical cluster has the labels zone=none", "whatif", "-l", "zone=none", "-A")
	w.fails("no physical cluster has the labels zone=none", "drain", "-l", "zone=none", "--context", "root")
	w.fails("name a physical cluster, or select some with -l SELECTOR", "drain", "--context", "root")
	w.fails("name a physical cluster, or select some with -l SELECTOR", "drain", "zone-a", "-l", "zone=zone-one", "--context", "root")

	w.fails("zone-b is not drained, and the drain goes on", "drain", "-l", "zone=zone-one", "--context", "root")
	if out := w.ok("drain", "-l", "zone=zone-one", "--cancel", "--context", "root"); out != "physicalcluster.fleet.atoll.dev/zone-a not drained any more\nphysicalcluster.fleet.atoll.dev/zone-b not drained any more\n" {
		t.Errorf("canceled: %s", out)
	}
}
