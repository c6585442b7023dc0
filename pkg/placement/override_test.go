package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/override"
)

const paused = `patch: [{op: add, path: /spec/paused, value: true}]`

// holding says which overrides hold where.
func holding(list []placementv1alpha1.DecidedOverride) string {
	var out []string
	for _, o := range list {
		one := o.Name + " on " + strings.Join(o.PhysicalClusters, ",")
		if o.Problem != "" {
			one += ": " + o.Problem
		}
		out = append(out, one)
	}
	return strings.Join(out, "; ")
}

func TestOverridesOfAllPoliciesHoldTheMostSpecificLast(t *testing.T) {
	t.Parallel()
	two := []PhysicalCluster{sized("east", "4", map[string]string{"region": "east"}), sized("west", "8", nil)}
	const here, there = `{term: {matchLabels: {region: east}}, ` + paused + `}`, `{term: {matchLabels: {region: north}}, ` + paused + `}`
	for _, c := range []struct {
		name     string
		policies []Policy
		want     string
	}{
		{"none", []Policy{ruledBy(t, placementv1alpha1.PolicyGlobal, "all", `{count: 2}`)}, ""},
		{"one of each level", []Policy{
			ruledBy(t, placementv1alpha1.PolicyNamespace, "own", `{count: 2, overrides: [`+here+`]}`),
			ruledBy(t, placementv1alpha1.PolicyGlobal, "b", `{overrides: [{`+paused+`}]}`),
			ruledBy(t, placementv1alpha1.PolicyLogicalCluster, "c", `{overrides: [`+here+`]}`),
			ruledBy(t, placementv1alpha1.PolicyGlobal, "a", `{overrides: [`+there+`, `+here+`]}`),
		}, "overrides[1] of policy a on east; overrides[0] of policy b on east,west; overrides[0] of policy c of the logical cluster on east; overrides[0] of policy own of the namespace on east"},
		{"one that cannot be read: it says so, and the policy holds otherwise", []Policy{
			ruledBy(t, placementv1alpha1.PolicyNamespace, "own", `{count: 2, overrides: [{term: {matchExpressions: [{key: a, operator: Near}]}, `+paused+`}, {patch: [{op: replace, path: /kind, value: Pod}]}]}`),
		}, `overrides[0] of policy own of the namespace on east,west: `},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Snapshot{PhysicalClusters: two, Policies: c.policies}
			d := Decide(s, Unit{Name: placementv1alpha1.NamespaceUnit})
			if got := holding(d.Overrides); got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if len(d.PhysicalClusters) != 2 {
				t.Errorf("placed on %v: an override moves nothing", d.PhysicalClusters)
			}
			v := Verify(s, Unit{Name: placementv1alpha1.NamespaceUnit, Decided: d.PhysicalClusters})
			if !v.Satisfied || !SameOverrides(v.Overrides, d.Overrides) {
				t.Errorf("verified: %+v", v)
			}
			if on := OverridesOn(s, Unit{Name: placementv1alpha1.NamespaceUnit}, []string{"west"}); strings.Contains(holding(on), "east") {
				t.Errorf("on west alone: %s", holding(on))
			}
		})
	}
}

func TestTooManyOverridesOfAllPoliciesAreSaidAndNotLeftOut(t *testing.T) {
	t.Parallel()
	var many []Policy
	for i := range 5 {
		list := strings.TrimSuffix(strings.Repeat("{"+paused+"}, ", override.MaxOfPolicy), ", ")
		many = append(many, ruledBy(t, placementv1alpha1.PolicyGlobal, fmt.Sprint("p", i), `{overrides: [`+list+`]}`))
	}
	long := `{patch: [{op: add, path: /metadata/labels/a, value: "` + strings.Repeat("x", 6<<10) + `"}]}`
	var large []Policy
	for i := range 3 {
		large = append(large, ruledBy(t, placementv1alpha1.PolicyGlobal, fmt.Sprint("p", i), `{overrides: [`+long+`]}`))
	}
	for n, policies := range map[int][]Policy{override.MaxOfUnit + 1: many, 3: large} {
		d := Decide(Snapshot{PhysicalClusters: []PhysicalCluster{sized("east", "4", nil)}, Policies: policies}, Unit{Name: placementv1alpha1.NamespaceUnit})
		if len(d.Overrides) != n {
			t.Fatalf("%d overrides, want %d", len(d.Overrides), n)
		}
		last := d.Overrides[n-1]
		if !strings.Contains(last.Problem, "shorten them") || last.Patch != nil || last.Objects != nil || d.Overrides[n-2].Problem != "" {
			t.Errorf("the last is %+v", last)
		}
		if !d.Possible() {
			t.Error("it cannot be placed any more")
		}
	}
}

func TestOverridesAreRefusedWithThePathOfTheField(t *testing.T) {
	t.Parallel()
	nine := strings.TrimSuffix(strings.Repeat("{"+paused+"}, ", override.MaxOfPolicy+1), ", ")
	text := `{op: add, path: /metadata/annotations/a, value: "` + strings.Repeat("x", 5<<10) + `"}`
	for rules, want := range map[string]string{
		`{overrides: [{` + paused + `}, {term: {matchLabels: {a: b}}, objects: {kinds: [{group: apps, kind: Deployment}], names: [web], labelSelector: {matchLabels: {a: b}}}, ` + paused + `}]}`: "",
		`{overrides: [{}]}`:                                                                                           "spec.overrides[0].patch",
		`{overrides: [{objects: {}, ` + paused + `}]}`:                                                                "spec.overrides[0].objects",
		`{overrides: [{objects: {kinds: [{kind: ""}]}, ` + paused + `}]}`:                                             "spec.overrides[0].objects.kinds[0].kind",
		`{overrides: [{term: {matchExpressions: [{key: a, operator: Near}]}, ` + paused + `}]}`:                       "spec.overrides[0].term.matchExpressions[0].operator",
		`{overrides: [{patch: [{op: add, path: /spec/a, value: 1}, {op: replace, path: /metadata/name, value: b}]}]}`: "spec.overrides[0].patch[1].path",
		`{overrides: [` + nine + `]}`:                                                                                 "spec.overrides",
		`{overrides: [{patch: [` + text + `]}, {patch: [` + text + `]}]}`:                                             "spec.overrides",
	} {
		p := ruledBy(t, placementv1alpha1.PolicyNamespace, "own", rules)
		var got []string
		for _, e := range ValidateRules(p.Rules, field.NewPath("spec")) {
			got = append(got, e.Field)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%.200s (-want +got):\n%s", rules, diff)
		}
	}
}

func TestWhatAnotherSchedulerBindsIsDividedAndOverriddenToo(t *testing.T) {
	t.Parallel()
	s := Snapshot{
		PhysicalClusters: []PhysicalCluster{sized("east", "4", nil), sized("west", "8", nil)},
		Policies:         []Policy{ruledBy(t, placementv1alpha1.PolicyNamespace, "own", `{count: 2, schedulerName: cheapest, replicas: {mode: Divide}, overrides: [{`+paused+`}]}`)},
	}
	d := Decide(s, Unit{Name: placementv1alpha1.NamespaceUnit, Bound: []string{"east", "west"}, BoundBy: "cheapest"})
	if d.Division == nil || len(d.Division.Targets) != 2 || holding(d.Overrides) != "overrides[0] of policy own of the namespace on east,west" {
		t.Errorf("%+v", d)
	}
}

// Whatever is stored, nobody but an admin permits anything, and only to those whom he selects.
func TestPoliciesOfAdminsPermitMoreAndOthersNothing(t *testing.T) {
	t.Parallel()
	const rules = `{overrides: [{term: {matchLabels: {region: east}}, permits: {staticVolumes: true}}]}`
	with := func(level placementv1alpha1.PolicyLevel, labels map[string]string) Policy {
		p := ruledBy(t, level, "a", rules)
		if labels != nil {
			p.LogicalClusterSelector = &metav1.LabelSelector{MatchLabels: labels}
		}
		return p
	}
	mine := map[string]string{"team": "a"}
	for name, c := range map[string]struct {
		policy  Policy
		on      string
		selects bool
		want    bool
	}{
		"an admin":                              {with(placementv1alpha1.PolicyGlobal, mine), "east", true, true},
		"of other objects":                      {with(placementv1alpha1.PolicyGlobal, mine), "east", false, false},
		"on another physical cluster":           {with(placementv1alpha1.PolicyGlobal, mine), "west", true, false},
		"to another logical cluster":            {with(placementv1alpha1.PolicyGlobal, map[string]string{"team": "b"}), "east", true, false},
		"an admin, to everybody":                {with(placementv1alpha1.PolicyGlobal, nil), "east", true, false},
		"a logical cluster":                     {with(placementv1alpha1.PolicyLogicalCluster, nil), "east", true, false},
		"a logical cluster that selects itself": {with(placementv1alpha1.PolicyLogicalCluster, mine), "east", true, false},
		"a namespace":                           {with(placementv1alpha1.PolicyNamespace, nil), "east", true, false},
	} {
		two := []PhysicalCluster{sized("east", "4", map[string]string{"region": "east"}), sized("west", "8", nil)}
		s := Snapshot{PhysicalClusters: two, Policies: []Policy{c.policy}}
		u := Unit{Name: placementv1alpha1.NamespaceUnit, LogicalClusterLabels: mine}
		at := two[0]
		if c.on == "west" {
			at = two[1]
		}
		selects := func(*placementv1alpha1.ObjectSelection) bool { return c.selects }
		if got := PermitsOn(s, u, at, selects).StaticVolumes; got != c.want {
			t.Errorf("%s permits it: %v, want %v", name, got, c.want)
		}
	}
}

// What a policy may say is permitted adds to what the physical cluster permits; all else is refused,
// and not ignored.
func TestWhatAPolicyPermitsCountsOrIsRefused(t *testing.T) {
	t.Parallel()
	for permits, counts := range map[string]bool{
		`{podSecurity: privileged}`: true, `{taints: [a]}`: true, `{externalIPs: [192.0.2.1]}`: true,
		`{network: {isolation: None}}`: false, `{runtimeClasses: [kata]}`: false, `{endpointCIDRs: [192.0.2.0/24]}`: false,
		`{storageClassNames: {fast: gp3}}`: false, `{ingressClassNames: {nginx: inside}}`: false,
	} {
		o := ruledBy(t, placementv1alpha1.PolicyGlobal, "more", `{overrides: [{permits: `+permits+`}]}`).Rules.Overrides[0]
		refused := validateChange(o, true, field.NewPath("o"))
		adds := !cmp.Equal(fleetv1alpha1.Tenancy{}.With(*o.Permits), fleetv1alpha1.Tenancy{})
		if adds != counts || (len(refused) == 0) != counts {
			t.Errorf("%s adds to it %v, and is refused with %v", permits, adds, refused)
		}
	}
}
