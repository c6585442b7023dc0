package stamp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func kindIn(t *testing.T, group, name string) workload.Kind {
	t.Helper()
	kind, ok := workload.Builtin().ByKind(schema.GroupKind{Group: group, Kind: name})
	if !ok {
		t.Fatalf("there are no %ss", name)
	}
	return kind
}

// on is an override of some objects on some physical clusters.
func on(name string, objects *placementv1alpha1.ObjectSelection, physicalClusters ...string) placementv1alpha1.DecidedOverride {
	return placementv1alpha1.DecidedOverride{Name: name, PhysicalClusters: physicalClusters, Objects: objects, Patch: []placementv1alpha1.PatchOperation{
		{Op: placementv1alpha1.PatchRemove, Path: "/spec/" + name},
	}}
}

// permitting is one that permits more in the place of a patch.
func permitting(name string, objects *placementv1alpha1.ObjectSelection, physicalClusters ...string) placementv1alpha1.DecidedOverride {
	return placementv1alpha1.DecidedOverride{Name: name, PhysicalClusters: physicalClusters, Objects: objects, Permits: &fleetv1alpha1.Tenancy{StaticVolumes: true}}
}

// names shortens targets to the names of their overrides.
func names(targets placementv1alpha1.Targets) string {
	var out []string
	for _, name := range targets.Names() {
		one := name
		for _, o := range targets[name].Overrides {
			one += " " + o.Name
		}
		out = append(out, one)
	}
	return strings.Join(out, ", ")
}

func TestOverridesAreStampedOnTheTargetsThatTheyAreFor(t *testing.T) {
	t.Parallel()
	deployments, jobs := kindIn(t, "apps", "Deployment"), kindIn(t, "batch", "Job")
	both := UnitOn([]string{"east", "west"})
	kinds := &placementv1alpha1.ObjectSelection{Kinds: []placementv1alpha1.ObjectKind{{Group: "apps", Kind: "Deployment"}}}
	labelled := &placementv1alpha1.ObjectSelection{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}
	const has = `{"east":{"overrides":[{"name":"was","patch":[{"op":"remove","path":"/spec/was"}]}]},"west":{}}`
	for _, c := range []struct {
		name    string
		kind    workload.Kind
		current string
		unit    Unit
		rule    []placementv1alpha1.DecidedOverride
		want    string
	}{
		{"new", deployments, ``, both, []placementv1alpha1.DecidedOverride{on("a", nil, "east", "west"), on("b", nil, "east")}, "east a b, west a"},
		{"another one", deployments, has, both, []placementv1alpha1.DecidedOverride{on("a", nil, "east", "west")}, "east a, west a"},
		{"none any more", deployments, has, both, nil, "east, west"},
		{"of this kind", deployments, ``, both, []placementv1alpha1.DecidedOverride{on("a", kinds, "east")}, "east a, west"},
		{"of another kind", jobs, ``, both, []placementv1alpha1.DecidedOverride{on("a", kinds, "east")}, "east, west"},
		{"of these labels", deployments, ``, both, []placementv1alpha1.DecidedOverride{on("a", labelled, "east")}, "east a, west"},
		{"of another name", deployments, ``, both, []placementv1alpha1.DecidedOverride{on("a", &placementv1alpha1.ObjectSelection{Names: []string{"other"}}, "east")}, "east, west"},
		{"what cannot be changed keeps what it has", jobs, has, both, []placementv1alpha1.DecidedOverride{on("a", nil, "east", "west")}, "east was, west"},
		{"what is left keeps what it has", deployments, has, Unit{"east": PartLeaves, "west": PartStays}, []placementv1alpha1.DecidedOverride{on("a", nil, "west")}, "east was, west a"},
		{"what arrives", deployments, has, Unit{"east": PartLeaves, "west": PartLeaves, "north": PartArrives}, []placementv1alpha1.DecidedOverride{on("a", nil, "north")}, "east was, north a, west"},
		{"what is removed", deployments, has, Unit{"east": PartRemoves, "west": PartStays}, nil, "east, west"},
		{"a Namespace", kindIn(t, "", "Namespace"), ``, both, []placementv1alpha1.DecidedOverride{on("a", nil, "east")}, "east, west"},
		{"a Namespace where more is permitted to some", kindIn(t, "", "Namespace"), `{"east":{"overrides":[{"name":"was","permits":{}}]},"west":{"overrides":[{"name":"was","permits":{}}]}}`, both,
			[]placementv1alpha1.DecidedOverride{on("a", nil, "east"), permitting("b", kinds, "east"), permitting("c", nil, "east")}, "east b c, west"},
		{"of this kind, permitted", deployments, ``, both, []placementv1alpha1.DecidedOverride{permitting("a", kinds, "east")}, "east a, west"},
		{"of another kind, permitted", jobs, ``, both, []placementv1alpha1.DecidedOverride{permitting("a", kinds, "east")}, "east, west"},
		{"a quota", kindIn(t, "", "LimitRange"), ``, both, []placementv1alpha1.DecidedOverride{on("a", nil, "east")}, "east, west"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			obj := &metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"tier": "front"}, Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: c.current}}
			source := Source{Unit: c.unit, Overrides: c.rule, Runs: workload.RunsAnywhere}
			got := Targets(c.kind, "demo", obj, source)
			if diff := cmp.Diff(c.want, names(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			obj.Annotations[placementv1alpha1.TargetsAnnotation] = got.String()
			if again := Targets(c.kind, "demo", obj, source); !Equal(again, got) || !Equal(TargetsOf(obj.Annotations), got) {
				t.Errorf("asked again: %s", again)
			}
		})
	}
}

func TestOverridesTooLongForTheAnnotationAreSaidAndNotCutOff(t *testing.T) {
	t.Parallel()
	var clusters []string
	for i := range 64 {
		clusters = append(clusters, fmt.Sprint("c", i))
	}
	o := on(strings.Repeat("x", 1<<10), nil, clusters...)
	got := Targets(kindIn(t, "apps", "Deployment"), "demo", &metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Source{Unit: UnitOn(clusters), Overrides: []placementv1alpha1.DecidedOverride{o}})
	if len(got) != 64 || len(got.String()) > 16<<10 {
		t.Errorf("%d targets, %d bytes", len(got), len(got.String()))
	}
	for name, target := range got {
		if len(target.Overrides) != 1 || !strings.Contains(target.Overrides[0].Problem, "shorten them") {
			t.Errorf("%s: %+v", name, target)
		}
	}
}

func TestWhatIsInSeveralUnitsHasTheOverridesOfAllOnce(t *testing.T) {
	t.Parallel()
	got := MergeOverrides(
		[]placementv1alpha1.DecidedOverride{on("root", nil, "east"), on("front", nil, "east")},
		[]placementv1alpha1.DecidedOverride{on("root", nil, "west", "east"), on("back", nil, "west")},
	)
	want := []placementv1alpha1.DecidedOverride{on("root", nil, "east", "west"), on("front", nil, "east"), on("back", nil, "west")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
