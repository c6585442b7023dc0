package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// sized is a physical cluster that is Ready and has so much free.
func sized(name, cpu string, labels map[string]string) PhysicalCluster {
	c := &fleetv1alpha1.PhysicalCluster{}
	c.Name, c.Labels = name, labels
	c.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	c.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Gi")}
	return PhysicalCluster{PhysicalCluster: c}
}

func ruledBy(t *testing.T, level placementv1alpha1.PolicyLevel, name, rules string) Policy {
	t.Helper()
	p := Policy{PolicyReference: placementv1alpha1.PolicyReference{Level: level, Name: name}, Rules: &placementv1alpha1.PolicyRules{}}
	if err := yaml.UnmarshalStrict([]byte(rules), p.Rules); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheDivisionIsThatOfTheMostSpecificPolicyThatSaysSo(t *testing.T) {
	t.Parallel()
	two := []PhysicalCluster{sized("east", "4", map[string]string{"region": "east"}), sized("west", "8", nil)}
	const thirds = `{replicas: {mode: Divide, targets: [{term: {matchLabels: {region: east}}, weight: 2, max: 5}, {min: 1}]}}`
	global := ruledBy(t, placementv1alpha1.PolicyGlobal, "all", `{count: 2, replicas: {mode: Divide, by: Packed}}`)
	for _, c := range []struct {
		name     string
		policies []Policy
		pin      string
		want     *placementv1alpha1.DecidedDivision
	}{
		{"nobody says so", []Policy{ruledBy(t, placementv1alpha1.PolicyGlobal, "all", `{count: 2}`)}, "", nil},
		{"by weights", []Policy{global, ruledBy(t, placementv1alpha1.PolicyNamespace, "own", thirds)}, "", &placementv1alpha1.DecidedDivision{
			By: placementv1alpha1.DivideByWeights, Targets: []placementv1alpha1.DecidedReplicas{
				{PhysicalCluster: "east", Weight: 2, Max: ptr.To(int32(5))}, {PhysicalCluster: "west", Weight: 1, Min: ptr.To(int32(1))},
			},
		}},
		{"duplicated after all", []Policy{global, ruledBy(t, placementv1alpha1.PolicyNamespace, "own", `{replicas: {mode: Duplicate}}`)}, "", nil},
		{"by what is free", []Policy{global}, "", &placementv1alpha1.DecidedDivision{
			By: placementv1alpha1.DivideByPacked, Targets: []placementv1alpha1.DecidedReplicas{
				{PhysicalCluster: "east", Free: two[0].Status.Allocatable}, {PhysicalCluster: "west", Free: two[1].Status.Allocatable},
			},
		}},
		{"pinned", []Policy{global, ruledBy(t, placementv1alpha1.PolicyNamespace, "own", thirds)}, "east", &placementv1alpha1.DecidedDivision{
			By: placementv1alpha1.DivideByWeights, Targets: []placementv1alpha1.DecidedReplicas{{PhysicalCluster: "east", Weight: 2, Max: ptr.To(int32(5))}},
		}},
	} {
		s, u := Snapshot{PhysicalClusters: two, Policies: c.policies}, Unit{Name: placementv1alpha1.NamespaceUnit, Pin: c.pin}
		d := Decide(s, u)
		if diff := cmp.Diff(c.want, d.Division); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if u.Decided = d.PhysicalClusters; !SameDivision(Verify(s, u).Division, c.want) {
			t.Errorf("%s: Verify says otherwise", c.name)
		}
	}
}

func TestWhatIsDividedHasToFitInParts(t *testing.T) {
	t.Parallel()
	s := Snapshot{PhysicalClusters: []PhysicalCluster{sized("east", "4", nil), sized("west", "4", nil)}}
	u := Unit{Name: placementv1alpha1.NamespaceUnit, Needs: Needs{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}}}
	for rules, want := range map[string]bool{`{count: 2}`: false, `{count: 2, replicas: {mode: Divide}}`: true} {
		s.Policies = []Policy{ruledBy(t, placementv1alpha1.PolicyGlobal, "all", rules)}
		d := Decide(s, u)
		if d.Possible() != want {
			t.Errorf("%s: %v", rules, d.Possible())
		}
		if !want {
			continue
		}
		if diff := cmp.Diff(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3500m")}, d.Requests); diff != "" {
			t.Errorf("%s: each gets (-want +got):\n%s", rules, diff)
		}
	}
}

func TestOnlyMuchMoreOrLessRoomIsAnotherDivision(t *testing.T) {
	t.Parallel()
	free := func(east, west string) *placementv1alpha1.DecidedDivision {
		list := func(cpu string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
		return &placementv1alpha1.DecidedDivision{By: placementv1alpha1.DivideByFree, Targets: []placementv1alpha1.DecidedReplicas{
			{PhysicalCluster: "east", Free: list(east)}, {PhysicalCluster: "west", Free: list(west)},
		}}
	}
	for _, c := range []struct {
		name string
		a, b *placementv1alpha1.DecidedDivision
		want bool
	}{
		{"none", nil, nil, true},
		{"one", nil, free("1", "1"), false},
		{"the same", free("4", "4"), free("4", "4"), true},
		{"both have less", free("4", "4"), free("2", "2"), true},
		{"a little", free("4", "4"), free("4", "3500m"), true},
		{"much", free("4", "4"), free("4", "1"), false},
	} {
		if got := SameDivision(c.a, c.b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAMalformedDivisionIsRefusedWithThePathOfTheField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, replicas, want string }{
		{"by default", `{mode: Divide}`, ""},
		{"all of it", `{mode: Divide, by: Weights, targets: [{term: {matchLabels: {a: b}}, weight: 0, min: 1, max: 1}, {weight: 1000}]}`, ""},
		{"by room", `{mode: Divide, by: Free, targets: [{max: 3}]}`, ""},
		{"nothing is divided", `{by: Free, targets: [{weight: 1}]}`, "spec.replicas.by spec.replicas.targets spec.replicas.targets[0].weight"},
		{"unknown words", `{mode: Share, by: Luck}`, "spec.replicas.mode spec.replicas.by"},
		{"a weight by room", `{mode: Divide, by: Packed, targets: [{weight: 2}]}`, "spec.replicas.targets[0].weight"},
		{"out of bounds", `{mode: Divide, targets: [{weight: -1, min: -1, max: 100001}]}`, "spec.replicas.targets[0].weight spec.replicas.targets[0].min spec.replicas.targets[0].max"},
		{"more than the maximum", `{mode: Divide, targets: [{min: 2, max: 1}]}`, "spec.replicas.targets[0].min"},
		{"a target of nothing", `{mode: Divide, targets: [{term: {matchLabels: {"a b": c}}}]}`, "spec.replicas.targets[0].term.matchLabels spec.replicas.targets[0]"},
	} {
		var rules placementv1alpha1.PolicyRules
		if err := yaml.UnmarshalStrict([]byte("replicas: "+c.replicas), &rules); err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, err := range ValidateRules(&rules, field.NewPath("spec")) {
			fields = append(fields, err.Field)
		}
		if diff := cmp.Diff(c.want, strings.Join(fields, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
