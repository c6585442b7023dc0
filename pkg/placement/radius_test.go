package placement

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func inRegion(name, region string) PhysicalCluster {
	return PhysicalCluster{PhysicalCluster: &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": region}}}}
}

// policyOf is a policy of a level with rules.
func policyOf(level placementv1alpha1.PolicyLevel, name string, change func(*placementv1alpha1.PolicyRules)) *Policy {
	p := &Policy{PolicyReference: placementv1alpha1.PolicyReference{Level: level, Name: name}, Rules: &placementv1alpha1.PolicyRules{}}
	change(p.Rules)
	return p
}

func TestWhatAnEditMoves(t *testing.T) {
	in := func(region string) func(*placementv1alpha1.PolicyRules) {
		return func(r *placementv1alpha1.PolicyRules) {
			r.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"region": region}}}
		}
	}
	global := func(change func(*placementv1alpha1.PolicyRules)) *Policy { return policyOf("Global", "p", change) }
	unit := func(change func(*placementv1alpha1.PolicyRules)) *Policy {
		p := policyOf("Namespace", "front", change)
		p.Unit = "front"
		return p
	}
	whole := func() *Policy { return policyOf("Namespace", "front", func(*placementv1alpha1.PolicyRules) {}) }
	for name, c := range map[string]struct {
		edit   Edit
		others []Policy
		unit   Unit
		home   []string
		moves  bool
	}{
		"to other places":                      {edit: Edit{global(in("eu")), global(in("us"))}, moves: true},
		"to the same places":                   {edit: Edit{global(in("us")), global(in("eu"))}},
		"it is new, and forbids":               {edit: Edit{nil, global(in("us"))}, moves: true},
		"it is new, and permits":               {edit: Edit{nil, global(in("eu"))}},
		"it goes, and with it what was wanted": {edit: Edit{global(func(r *placementv1alpha1.PolicyRules) { r.Count = new(int32(2)) }), nil}, unit: Unit{Decided: []string{"east", "north"}}, moves: true},
		"it would move before, too":            {edit: Edit{global(in("us")), global(func(r *placementv1alpha1.PolicyRules) { in("us")(r); r.MaxCount = new(int32(9)) })}},
		"one that kept it is lifted": {edit: Edit{global(func(r *placementv1alpha1.PolicyRules) {
			in("us")(r)
			r.Move = &placementv1alpha1.MoveRules{Mode: "Never"}
		}), global(in("us"))}, moves: true},
		"what is never moved":                       {edit: Edit{nil, global(in("us"))}, others: []Policy{*policyOf("Namespace", "n", func(r *placementv1alpha1.PolicyRules) { r.Move = &placementv1alpha1.MoveRules{Mode: "Never"} })}},
		"what another scheduler decides":            {edit: Edit{nil, global(in("us"))}, others: []Policy{*policyOf("Global", "s", func(r *placementv1alpha1.PolicyRules) { r.SchedulerName = "other" })}},
		"another place beside":                      {edit: Edit{nil, global(func(r *placementv1alpha1.PolicyRules) { r.Count = new(int32(2)) })}, moves: true},
		"affinity moves nothing":                    {edit: Edit{nil, global(func(r *placementv1alpha1.PolicyRules) { r.Affinity = []placementv1alpha1.UnitAffinity{{Type: "With"}} })}},
		"a unit is made, elsewhere":                 {edit: Edit{nil, unit(in("us"))}, unit: Unit{Name: "front"}, home: []string{"east"}, moves: true},
		"a unit is made where it is":                {edit: Edit{nil, unit(in("eu"))}, unit: Unit{Name: "front"}, home: []string{"east"}},
		"a unit ends, and the namespace is with it": {edit: Edit{unit(in("eu")), nil}, unit: Unit{Name: "front"}, home: []string{"east"}},
		"a unit ends, and the namespace is not":     {edit: Edit{unit(in("eu")), nil}, unit: Unit{Name: "front"}, home: []string{"west"}, moves: true},
		"a unit ends, and the namespace is nowhere": {edit: Edit{unit(in("eu")), nil}, unit: Unit{Name: "front"}},
		"a unit becomes the rest of the namespace":  {edit: Edit{unit(in("eu")), whole()}, unit: Unit{Name: "front"}, home: []string{"west"}, moves: true},
	} {
		u := c.unit
		if u.Decided == nil {
			u.Decided = []string{"east"}
		}
		s := Snapshot{Policies: c.others}
		for _, p := range []PhysicalCluster{inRegion("east", "eu"), inRegion("north", "eu"), inRegion("west", "us")} {
			if slices.Contains(u.Decided, p.Name) {
				s.PhysicalClusters = append(s.PhysicalClusters, p)
			}
		}
		if got := c.edit.Moves(s, u, c.home); got != c.moves {
			t.Errorf("%s: moves %v, want %v", name, got, c.moves)
		}
	}
}

// An edit that changes nothing moves nothing, and one that is taken back has moved what its
// opposite moves back, or keeps.
func TestAnEditThatChangesNothingMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawSnapshot(t), drawUnit(t)
		p := drawPolicy(t, "p")
		if (Edit{&p, &p}).Moves(s, u, nil) {
			t.Fatal("it moves the unit")
		}
		if after := drawPolicy(t, "p"); after.Level == p.Level && (Edit{&p, &after}).Moves(s, u, nil) && !(Edit{&p, &after}).Concerns(u) {
			t.Fatal("it moves a unit that it does not concern")
		}
	})
}

func TestABoundCountsTheUnitsOfItsPolicy(t *testing.T) {
	bound := func(name string, n int32, selector map[string]string) Policy {
		p := *policyOf("Global", name, func(*placementv1alpha1.PolicyRules) {})
		p.ConfirmAbove = &n
		if selector != nil {
			p.NamespaceSelector = &metav1.LabelSelector{MatchLabels: selector}
		}
		return p
	}
	edit := func(old, new int32) Edit {
		a, b := bound("p", old, nil), bound("p", new, nil)
		return Edit{&a, &b}
	}
	gold := map[string]string{"tier": "gold"}
	for name, c := range map[string]struct {
		edit        Edit
		others      []Policy
		gold, rest  int
		policy      string
		most, moved int
	}{
		"nobody bounds":                                 {gold: 100},
		"as many as are permitted":                      {others: []Policy{bound("a", 3, nil)}, gold: 1, rest: 2},
		"one more":                                      {others: []Policy{bound("a", 3, nil)}, gold: 2, rest: 2, policy: "policy a", most: 3, moved: 4},
		"of those that it selects":                      {others: []Policy{bound("a", 1, gold)}, gold: 1, rest: 9},
		"more of those that it selects":                 {others: []Policy{bound("a", 1, gold), bound("b", 8, nil)}, gold: 5, rest: 1, policy: "policy a", most: 1, moved: 5},
		"the edit itself lifts the bound":               {edit: edit(1, 100), gold: 2, policy: "policy p", most: 1, moved: 2},
		"the edit itself sets it":                       {edit: edit(100, 1), gold: 2, policy: "policy p", most: 1, moved: 2},
		"what is there under its name counts as edited": {edit: edit(100, 100), others: []Policy{bound("p", 0, nil)}, gold: 2},
	} {
		r := NewRadius(c.edit, c.others)
		for range c.gold {
			r.Add(Unit{NamespaceLabels: gold})
		}
		for range c.rest {
			r.Add(Unit{})
		}
		policy, most, moved, ok := r.Exceeds()
		if policy != c.policy || most != c.most || moved != c.moved || ok != (c.policy != "") || r.Units != c.gold+c.rest {
			t.Errorf("%s: %q permits %d of %d, of %d in all", name, policy, most, moved, r.Units)
		}
	}
}

func TestWhatReturnsByAnEdit(t *testing.T) {
	t.Parallel()
	rules := func(text string) *Policy {
		p := ruledBy(t, placementv1alpha1.PolicyGlobal, "p", text)
		return &p
	}
	const first, usFirst, stays = `{preferences: [{matchLabels: {region: us}}], move: {return: WhenPreferred}}`, `{preferences: [{matchLabels: {region: us}}]}`, `{preferences: [{matchLabels: {region: eu}}], move: {return: WhenPreferred}}`
	for name, c := range map[string]struct {
		edit    Edit
		pin     string
		returns bool
	}{
		"units may return":                 {edit: Edit{rules(usFirst), rules(first)}, returns: true},
		"it is new, and they may":          {edit: Edit{nil, rules(first)}, returns: true},
		"others are preferred":             {edit: Edit{rules(stays), rules(first)}, returns: true},
		"it would return before, too":      {edit: Edit{rules(first), rules(first)}},
		"what it has is preferred":         {edit: Edit{nil, rules(stays)}},
		"no policy lets units return":      {edit: Edit{nil, rules(usFirst)}},
		"they may no more":                 {edit: Edit{rules(first), nil}},
		"it has a pin":                     {edit: Edit{nil, rules(first)}, pin: "east"},
		"what makes a unit moves it first": {edit: Edit{nil, &Policy{Unit: "front", Rules: rules(first).Rules}}},
	} {
		s := Snapshot{PhysicalClusters: []PhysicalCluster{inRegion("east", "eu"), inRegion("west", "us")}}
		for _, pc := range s.PhysicalClusters {
			pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		}
		if got := c.edit.Returns(s, Unit{Decided: []string{"east"}, Pin: c.pin}); got != c.returns {
			t.Errorf("%s: %v", name, got)
		}
	}
}
