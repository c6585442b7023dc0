package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// ownFirst prefers own premises, then a cloud, then the rest.
const ownFirst = `preferences: [{matchLabels: {site: own}}, {matchLabels: {site: cloud}}]`

func TestWherePreferencesWantAUnitMore(t *testing.T) {
	t.Parallel()
	const comesBack = ownFirst + `, move: {return: WhenPreferred}`
	const own, cloud, rest = `{name: own, labels: {site: own}, cpu: 4, memory: 4Gi}`, `{name: cloud, labels: {site: cloud}, cpu: 9, memory: 9Gi}`, `{name: rest, cpu: 9, memory: 9Gi}`
	const other = `{name: other, labels: {site: own}, cpu: 8, memory: 8Gi}`
	const tainted = `{name: own, labels: {site: own}, taints: [{key: a, effect: NoSchedule}]}`
	for name, c := range map[string]struct {
		clusters []string
		rules    string
		unit     string
		want     string // better, or settled, or wait
	}{
		"no policy says so":                           {[]string{own, cloud}, ownFirst, `{decided: [cloud]}`, "settled"},
		"a policy says that it never does":            {[]string{own, cloud}, ownFirst + `, move: {return: Never}`, `{decided: [cloud]}`, "settled"},
		"it is never moved":                           {[]string{own, cloud}, ownFirst + `, move: {return: WhenPreferred, mode: Never}`, `{decided: [cloud]}`, "settled"},
		"it is nowhere":                               {[]string{own, cloud}, comesBack, `{}`, "settled"},
		"it has a pin":                                {[]string{own, cloud}, comesBack, `{decided: [cloud], pin: cloud}`, "settled"},
		"another scheduler decides":                   {[]string{own, cloud}, comesBack + `, schedulerName: other`, `{decided: [cloud]}`, "settled"},
		"it may not stay":                             {[]string{own, cloud}, comesBack + `, terms: [{matchLabels: {site: own}}]`, `{decided: [cloud]}`, "wait"},
		"it is where it is preferred":                 {[]string{own, cloud}, comesBack, `{decided: [own]}`, "settled"},
		"the preferred has room":                      {[]string{own, cloud}, comesBack, `{decided: [cloud], requests: {cpu: 4}}`, "better own"},
		"the second is preferred to the rest":         {[]string{cloud, rest}, comesBack, `{decided: [rest]}`, "better cloud"},
		"the preferred has no room":                   {[]string{own, cloud}, comesBack, `{decided: [cloud], requests: {cpu: 5}}`, "wait"},
		"the preferred is cordoned":                   {[]string{`{name: own, labels: {site: own}, unschedulable: true}`, cloud}, comesBack, `{decided: [cloud]}`, "wait"},
		"the preferred is not ready":                  {[]string{`{name: own, labels: {site: own}, ready: "False"}`, cloud}, comesBack, `{decided: [cloud]}`, "wait"},
		"the preferred is tainted":                    {[]string{tainted, cloud}, comesBack, `{decided: [cloud]}`, "wait"},
		"the same preference with more room":          {[]string{own, other}, comesBack, `{decided: [own]}`, "settled"},
		"of two that are preferred alike the freer":   {[]string{own, other, cloud}, comesBack, `{decided: [cloud], requests: {cpu: 1}}`, "better other"},
		"but the one that it waits for, if it fits":   {[]string{own, other, cloud}, comesBack, `{decided: [cloud], requests: {cpu: 1}, awaited: [own]}`, "better own"},
		"which is left if it fits no more":            {[]string{own, other, cloud}, comesBack, `{decided: [cloud], requests: {cpu: 6}, awaited: [own]}`, "better other"},
		"of several, what is well placed stays":       {[]string{own, other, cloud, rest}, comesBack + `, count: 2`, `{decided: [own, rest]}`, "better other,own"},
		"of several, the one that is better counts":   {[]string{own, cloud, rest}, comesBack + `, count: 2`, `{decided: [own, rest]}`, "better cloud,own"},
		"one more of the same number is no return":    {[]string{own, cloud}, comesBack + `, count: 2, minCount: 1`, `{decided: [own]}`, "settled"},
		"a layout that only the rest has":             {[]string{own, `{name: cloud, labels: {site: cloud, zone: a}}`}, comesBack + `, topology: [{key: zone, count: 1}]`, `{decided: [cloud]}`, "wait"},
		"where it is does not answer, and it stays":   {[]string{own, `{name: cloud, labels: {site: cloud}, ready: Unknown, reason: HeartbeatLost}`}, comesBack, `{decided: [cloud]}`, "better own"},
		"without preferences all are preferred alike": {[]string{own, cloud}, `move: {return: WhenPreferred}`, `{decided: [cloud]}`, "settled"},
	} {
		var clusters []clusterYAML
		var unit struct {
			unitYAML `json:",inline"`
			Awaited  []string `json:"awaited"`
		}
		for text, into := range map[string]any{"[" + strings.Join(c.clusters, ", ") + "]": &clusters, c.unit: &unit} {
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		s := scene{clusters: clusters, unit: unit.unitYAML}
		snapshot, asked := s.snapshot(), s.asked()
		snapshot.Policies, asked.Awaited = []Policy{ruledBy(t, placementv1alpha1.PolicyGlobal, "p", "{"+c.rules+"}")}, unit.Awaited
		got := "wait"
		switch p := Preferred(snapshot, asked); {
		case p.Better:
			got = "better " + strings.Join(p.Decision.PhysicalClusters, ",")
		case p.Settled:
			got = "settled"
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhenAUnitReturns(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	waits := func(since int, names ...string) *placementv1alpha1.Awaited {
		return &placementv1alpha1.Awaited{PhysicalClusters: names, Since: metav1.NewTime(at(since))}
	}
	returned := func(since int, times int32) *placementv1alpha1.Returned {
		return &placementv1alpha1.Returned{At: metav1.NewTime(at(since)), Times: times}
	}
	const day = 24 * 60 * 60
	own := []string{"own"}
	for name, c := range map[string]struct {
		w    Waiting
		want string // since when it waits, at what it returns, and that it is now
	}{
		"nothing is preferred":                        {Waiting{}, "waits for nothing"},
		"nothing is preferred any more":               {Waiting{Awaited: waits(0, "own")}, "waits for nothing"},
		"something is, from now on":                   {Waiting{Preferred: own}, "1000 1300 false"},
		"something else is":                           {Waiting{Preferred: own, Awaited: waits(0, "other")}, "1000 1300 false"},
		"for less than the time":                      {Waiting{Preferred: own, Awaited: waits(701, "own")}, "701 1001 false"},
		"for the time":                                {Waiting{Preferred: own, Awaited: waits(700, "own")}, "700 1000 true"},
		"for long":                                    {Waiting{Preferred: own, Awaited: waits(0, "own")}, "0 300 true"},
		"for the time of the policy":                  {Waiting{Preferred: own, Awaited: waits(990, "own"), Move: placementv1alpha1.MoveRules{ReturnAfterSeconds: ptr.To[int32](10)}}, "990 1000 true"},
		"a time that no validation let pass":          {Waiting{Preferred: own, Awaited: waits(990, "own"), Move: placementv1alpha1.MoveRules{ReturnAfterSeconds: ptr.To[int32](-5)}}, "990 1000 true"},
		"it was not ready in between":                 {Waiting{Preferred: own, Awaited: waits(0, "own"), Ready: at(900)}, "900 1200 false"},
		"it was ready before":                         {Waiting{Preferred: own, Awaited: waits(500, "own"), Ready: at(100)}, "500 800 true"},
		"it says that it will be ready":               {Waiting{Preferred: own, Awaited: waits(0, "own"), Ready: at(9000)}, "9000 9300 false"},
		"this server has just begun to watch":         {Waiting{Preferred: own, Awaited: waits(0, "own"), Watched: at(990)}, "0 1290 false"},
		"it returned today":                           {Waiting{Preferred: own, Awaited: waits(700, "own"), Returned: returned(0, 1)}, "700 1300 false"},
		"it returned twice":                           {Waiting{Preferred: own, Awaited: waits(700, "own"), Returned: returned(0, 2)}, "700 1900 false"},
		"it returned more often than can be counted":  {Waiting{Preferred: own, Awaited: waits(700, "own"), Returned: returned(0, 1<<31-1)}, fmt.Sprintf("700 %d false", 700+day)},
		"it returned a day ago":                       {Waiting{Preferred: own, Awaited: waits(700, "own"), Returned: returned(1000-day, 9)}, "700 1000 true"},
		"what a policy says is not cut by the counts": {Waiting{Preferred: own, Awaited: waits(700, "own"), Returned: returned(0, 9), Move: placementv1alpha1.MoveRules{ReturnAfterSeconds: ptr.To[int32](day)}}, fmt.Sprintf("700 %d false", 700+day)},
	} {
		c.w.Now = at(1000)
		got := "waits for nothing"
		if r := c.w.When(); r.Awaited != nil {
			if diff := cmp.Diff(c.w.Preferred, r.Awaited.PhysicalClusters); diff != "" {
				t.Errorf("%s: awaits (-want +got):\n%s", name, diff)
			}
			got = fmt.Sprintf("%d %d %v", r.Awaited.Since.Unix()-start.Unix(), r.At.Unix()-start.Unix(), r.Now)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	next := func(r *placementv1alpha1.Returned) int32 {
		return Waiting{Returned: r, Now: at(1000)}.Next().Times
	}
	if a, b, c := next(nil), next(returned(0, 3)), next(returned(1000-day, 3)); a != 1 || b != 4 || c != 1 {
		t.Errorf("the first return counts %d, one after three of today %d, one after three of yesterday %d", a, b, c)
	}
}

// drawReturning draws a unit that was decided while some physical clusters were not there.
// Most of what is drawn may receive it: else little ever returns.
func drawReturning(t *rapid.T) (Snapshot, Unit, Preference) {
	s, u := drawSnapshot(t), drawUnit(t)
	for _, name := range names[len(s.PhysicalClusters):] {
		s.PhysicalClusters = append(s.PhysicalClusters, drawCluster(t, name))
	}
	u.Pin, u.Decided, u.Needs, u.PriorityClasses = "", nil, Needs{Requests: u.Requests}, nil
	if rapid.IntRange(0, 3).Draw(t, "needs room") > 0 {
		u.Requests = nil
	}
	area := func(value string) placementv1alpha1.PhysicalClusterTerm {
		return placementv1alpha1.PhysicalClusterTerm{MatchLabels: map[string]string{"area": value}}
	}
	s.Policies = append(s.Policies[:min(1, len(s.Policies))], drawPolicy(t, "z"))
	for i := range s.Policies {
		p := &s.Policies[i]
		p.LogicalClusterSelector, p.NamespaceSelector = nil, nil
		r := p.Rules
		r.Terms, r.Affinity, r.MaxCount = nil, nil, nil
		r.Preferences = nil
		for _, value := range rapid.Permutation([]string{"1", "2", "3"}).Draw(t, "preferences")[rapid.IntRange(0, 2).Draw(t, "not preferred"):] {
			r.Preferences = append(r.Preferences, area(value))
		}
		r.Move = &placementv1alpha1.MoveRules{Return: placementv1alpha1.ReturnWhenPreferred}
	}
	for i := range s.PhysicalClusters {
		pc := s.PhysicalClusters[i].PhysicalCluster
		delete(pc.Spec.Bounds, fleetv1alpha1.BoundNamespaces) // see below: that changes by the minute
		if rapid.IntRange(0, 3).Draw(t, "as drawn") > 0 {
			pc.Status.Conditions[0].Status, pc.Spec.Taints, pc.Spec.Forget, pc.Spec.Unschedulable, pc.DeletionTimestamp = metav1.ConditionTrue, nil, false, false, nil
		}
	}
	before := s
	before.PhysicalClusters = s.PhysicalClusters[rapid.IntRange(1, 3).Draw(t, "gone"):]
	u.Decided = Decide(before, u).PhysicalClusters
	if rapid.Bool().Draw(t, "awaits") {
		u.Awaited = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID[string]).Draw(t, "awaited")
	}
	return s, u, Preferred(s, u)
}

// Once it has returned, nothing wants it elsewhere but a change of what is asked about: not
// this rule, and no other.
func TestAUnitThatReturnedStays(t *testing.T) {
	t.Parallel()
	better := 0
	rapid.Check(t, func(t *rapid.T) {
		s, u, first := drawReturning(t)
		if !first.Better {
			return
		}
		better++
		if !Verify(s, u).Satisfied {
			t.Fatalf("%v returns, and may not be where it is", u.Decided)
		}
		u.Decided, u.Awaited = first.Decision.PhysicalClusters, nil
		if again := Preferred(s, u); again.Better {
			t.Fatalf("returned to %v, and then to %v", first.Decision.PhysicalClusters, again.Decision.PhysicalClusters)
		}
		if v := Verify(s, u); !v.Satisfied {
			t.Fatalf("returned to %v, where it may not be: %+v", u.Decided, v)
		}
		if d := Decide(s, u); !slices.Equal(d.PhysicalClusters, u.Decided) {
			t.Fatalf("returned to %v, and moves to %v", u.Decided, d.PhysicalClusters)
		}
	})
	t.Logf("%d returned", better)
	if better == 0 {
		t.Error("nothing ever returned: this shows nothing")
	}
}

// What a unit waits for does not depend on what is free by the minute, nor on who asks.
func TestWhatAUnitWaitsForIsTheSameWhenAskedAgain(t *testing.T) {
	t.Parallel()
	better := 0
	rapid.Check(t, func(t *rapid.T) {
		s, u, first := drawReturning(t)
		if !first.Better {
			return
		}
		better++
		fresh := u
		fresh.Decided = nil
		ranked, _ := compile(s, fresh).filter(s.PhysicalClusters)
		for _, name := range first.Decision.PhysicalClusters {
			if !slices.Contains(u.Decided, name) && !slices.ContainsFunc(ranked, func(c *candidate) bool { return c.name == name }) {
				t.Fatalf("returns to %s, which may not receive it", name)
			}
		}
		u.Awaited = first.Decision.PhysicalClusters
		s.PhysicalClusters = rapid.Permutation(s.PhysicalClusters).Draw(t, "order")
		for i := range s.PhysicalClusters {
			s.PhysicalClusters[i].Placements = rapid.IntRange(0, 9).Draw(t, "placements")
		}
		if again := Preferred(s, u); !slices.Equal(again.Decision.PhysicalClusters, first.Decision.PhysicalClusters) {
			t.Fatalf("waits for %v, and then for %v", first.Decision.PhysicalClusters, again.Decision.PhysicalClusters)
		}
	})
	t.Logf("%d returned", better)
	if better == 0 {
		t.Error("nothing ever returned: this shows nothing")
	}
}

func TestReturnRulesAreBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{move: {return: WhenPreferred, returnAfterSeconds: 10}}`: "",
		`{move: {return: Never}}`:                                 "",
		`{move: {return: Always}}`:                                "spec.move.return",
		`{move: {returnAfterSeconds: 9}}`:                         "spec.move.returnAfterSeconds",
		`{move: {returnAfterSeconds: 86401}}`:                     "spec.move.returnAfterSeconds",
	} {
		p := ruledBy(t, placementv1alpha1.PolicyGlobal, "p", text)
		got := ""
		for _, err := range ValidateRules(p.Rules, field.NewPath("spec")) {
			got += err.Field
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
