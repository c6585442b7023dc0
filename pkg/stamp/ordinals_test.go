package stamp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ranging divides over these physical clusters by these weights; each can have a range.
func ranging(weights map[string]int32) *placementv1alpha1.DecidedDivision {
	out := byWeights(weights)
	for i := range out.Targets {
		out.Targets[i].Ordinals = true
	}
	return out
}

func ordinals(replicas, start int32) *Wish {
	return &Wish{Replicas: replicas, Ordinals: &Ordinals{Start: start}}
}

func claiming(replicas int32) *Wish {
	return &Wish{Replicas: replicas, Ordinals: &Ordinals{Claims: true}}
}

func TestARangeOfOrdinalsIsLoweredBeforeAnotherIsRaised(t *testing.T) {
	t.Parallel()
	both, halves := UnitOn([]string{"east", "west"}), ranging(map[string]int32{"east": 1, "west": 1})
	third, one := ranging(map[string]int32{"east": 1, "west": 2}), ranging(map[string]int32{"east": 1})
	three := ranging(map[string]int32{"east": 1, "north": 1, "west": 1})
	unable := ranging(map[string]int32{"east": 1, "west": 1})
	unable.Targets[0].Ordinals = false
	const sixes = `{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":3,"ordinals":{"start":3,"revision":1}}}`
	for _, c := range []struct {
		name    string
		current string
		unit    Unit
		rule    *placementv1alpha1.DecidedDivision
		wish    *Wish
		want    string
	}{
		{"new", ``, both, halves, ordinals(5, 0), `{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":2,"ordinals":{"start":3,"revision":1}}}`},
		{"new, from another ordinal", ``, both, halves, ordinals(3, 10), `{"east":{"replicas":2,"ordinals":{"start":10,"revision":1}},"west":{"replicas":1,"ordinals":{"start":12,"revision":1}}}`},
		{"new, where pods of an earlier one may run", ``, both, halves, &Wish{Replicas: 4, Ordinals: &Ordinals{Unclear: map[string]bool{"west": true}}},
			`{"east":{"replicas":0,"share":2,"ordinals":{"start":0,"revision":1}},"west":{"replicas":2,"ordinals":{"start":2,"held":{"start":0,"end":2147483647},"revision":1}}}`},
		{"settled", sixes, both, halves, ordinals(6, 0), sixes},
		{"the last range grows at once", sixes, both, ranging(map[string]int32{"east": 3, "west": 5}), ordinals(8, 0),
			`{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":5,"ordinals":{"start":3,"revision":2}}}`},
		{"fewer are wished", sixes, both, halves, ordinals(5, 0),
			`{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":2,"ordinals":{"start":3,"held":{"start":3,"end":6},"revision":2}}}`},
		{"and more again: what it may run already it gets at once", `{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":2,"ordinals":{"start":3,"held":{"start":3,"end":6},"revision":2}}}`,
			both, halves, ordinals(6, 0), `{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":3,"ordinals":{"start":3,"revision":3}}}`},
		{"other weights: what grows waits", sixes, both, third, ordinals(6, 0),
			`{"east":{"replicas":2,"ordinals":{"start":0,"held":{"start":0,"end":3},"revision":2}},"west":{"replicas":3,"share":4,"ordinals":{"start":3,"revision":1}}}`},
		{"until it is gone", `{"east":{"replicas":2,"ordinals":{"start":0,"revision":2}},"west":{"replicas":3,"share":4,"ordinals":{"start":3,"revision":1}}}`, both, third, ordinals(6, 0),
			`{"east":{"replicas":2,"ordinals":{"start":0,"revision":2}},"west":{"replicas":4,"ordinals":{"start":2,"revision":3}}}`},
		{"none", sixes, both, halves, ordinals(0, 0), `{"east":{"replicas":0,"ordinals":{"start":0,"held":{"start":0,"end":3},"revision":2}},"west":{"replicas":0,"ordinals":{"start":0,"held":{"start":3,"end":6},"revision":2}}}`},
		{"one had all", `{"east":{}}`, Unit{"east": PartStays, "west": PartArrives}, halves, ordinals(6, 0),
			`{"east":{"replicas":3,"ordinals":{"start":0,"held":{"start":0,"end":2147483647},"revision":1}},"west":{"replicas":0,"share":3,"ordinals":{"start":3,"revision":1}}}`},
		{"each had all", `{"east":{},"west":{}}`, both, halves, ordinals(6, 0),
			`{"east":{"replicas":3,"ordinals":{"start":0,"held":{"start":0,"end":2147483647},"revision":1}},"west":{"replicas":3,"ordinals":{"start":3,"held":{"start":0,"end":2147483647},"revision":1}}}`},
		{"each had all, with claims", `{"east":{},"west":{}}`, both, halves, claiming(6), `{"east":{},"west":{}}`},
		{"a physical cluster cannot have ranges", `{"east":{},"west":{}}`, both, unable, ordinals(6, 0), `{"east":{},"west":{}}`},
		{"or not any more", sixes, both, unable, ordinals(4, 0), sixes},
		{"only the metadata are known", sixes, both, third, nil, sixes},

		{"one is left: nothing is begun that runs there", sixes, Unit{"east": PartStays, "west": PartLeaves}, one, ordinals(6, 0),
			`{"east":{"replicas":3,"share":6,"ordinals":{"start":0,"revision":1}},"west":{"replicas":3,"ordinals":{"start":3,"revision":1}}}`},
		{"one is removed", sixes, Unit{"east": PartStays, "west": PartRemoves}, one, ordinals(6, 0),
			`{"east":{"replicas":3,"share":6,"ordinals":{"start":0,"revision":1}},"west":{"replicas":3,"ordinals":{"start":3,"revision":1},"state":"Removing"}}`},
		{"one is gone", `{"east":{"replicas":3,"share":6,"ordinals":{"start":0,"revision":1}}}`, UnitOn([]string{"east"}), one, ordinals(6, 0), `{"east":{"ordinals":{"start":0,"revision":2}}}`},
		{"one of two is replaced", sixes, Unit{"east": PartStays, "west": PartLeaves, "north": PartArrives}, ranging(map[string]int32{"east": 1, "north": 1}), ordinals(6, 0),
			`{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"north":{"replicas":0,"share":3,"ordinals":{"start":3,"revision":2},"state":"Waiting"},"west":{"replicas":3,"ordinals":{"start":3,"revision":1}}}`},
		{"a third one comes", sixes, UnitOn([]string{"east", "north", "west"}), three, ordinals(6, 0),
			`{"east":{"replicas":2,"ordinals":{"start":0,"held":{"start":0,"end":3},"revision":2}},"north":{"replicas":0,"share":2,"ordinals":{"start":4,"revision":2}},"west":{"replicas":1,"share":2,"ordinals":{"start":3,"held":{"start":3,"end":6},"revision":2}}}`},
		{"divided no more: each has all, as is wished", sixes, both, nil, ordinals(6, 0), `{"east":{"ordinals":{"start":0,"revision":2}},"west":{"ordinals":{"start":0,"revision":2}}}`},
		{"divided no more, and one is left", sixes, Unit{"east": PartStays, "west": PartLeaves}, nil, ordinals(6, 0),
			`{"east":{"replicas":3,"share":6,"ordinals":{"start":0,"revision":1}},"west":{"replicas":3,"ordinals":{"start":3,"revision":1}}}`},

		{"claims: other weights move nothing", sixes, both, third, claiming(6), sixes},
		{"claims: the last range grows", sixes, both, third, claiming(9),
			`{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":6,"ordinals":{"start":3,"revision":2}}}`},
		{"claims: and becomes smaller", sixes, both, third, claiming(2),
			`{"east":{"replicas":2,"ordinals":{"start":0,"held":{"start":0,"end":3},"revision":2}},"west":{"replicas":0,"ordinals":{"start":3,"held":{"start":3,"end":6},"revision":2}}}`},
		{"claims: what comes gets what is new", sixes, UnitOn([]string{"east", "north", "west"}), three, claiming(6),
			`{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"north":{"replicas":0,"ordinals":{"start":6,"revision":2}},"west":{"replicas":3,"ordinals":{"start":3,"revision":1}}}`},
		{"claims: what comes takes the place of what leaves", sixes, Unit{"north": PartArrives, "west": PartStays, "east": PartLeaves}, ranging(map[string]int32{"north": 1, "west": 1}), claiming(6),
			`{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"north":{"replicas":0,"share":3,"ordinals":{"start":0,"revision":2},"state":"Waiting"},"west":{"replicas":3,"ordinals":{"start":3,"revision":1}}}`},
		{"claims of an earlier one", ``, both, halves, &Wish{Replicas: 6, Ordinals: &Ordinals{Claims: true, Former: map[string]placementv1alpha1.OrdinalRange{"east": {Start: 4, End: 6}, "west": {Start: 0, End: 4}}}},
			`{"east":{"replicas":2,"ordinals":{"start":4,"revision":1}},"west":{"replicas":4,"ordinals":{"start":0,"revision":1}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := Source{Unit: c.unit, Division: c.rule, Wish: c.wish, Runs: workload.RunsOnce}
			got := Targets(kindOf("apps", "StatefulSet"), "demo", object(c.current), source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := Targets(kindOf("apps", "StatefulSet"), "demo", object(got.String()), source); !Equal(again, got) {
				t.Errorf("asked again: %s", again)
			}
		})
	}
}

func TestOnlyWhatACopySaysOfTheSameRevisionVacatesOrdinals(t *testing.T) {
	t.Parallel()
	const lowered = `{"east":{"replicas":2,"ordinals":{"start":0,"held":{"start":0,"end":4},"revision":5}}}`
	for _, c := range []struct {
		name string
		runs placementv1alpha1.CopyOrdinals
		want string
	}{
		{"nothing said", placementv1alpha1.CopyOrdinals{}, lowered},
		{"of the range before", placementv1alpha1.CopyOrdinals{Revision: 4, Start: 0, End: 2}, lowered},
		{"a pod still runs", placementv1alpha1.CopyOrdinals{Revision: 5, Start: 0, End: 3}, `{"east":{"replicas":2,"ordinals":{"start":0,"held":{"start":0,"end":3},"revision":5}}}`},
		{"more than it may is no news", placementv1alpha1.CopyOrdinals{Revision: 5, Start: 0, End: 9}, lowered},
		{"all gone", placementv1alpha1.CopyOrdinals{Revision: 5, Start: 0, End: 2}, `{"east":{"replicas":2,"ordinals":{"start":0,"revision":5}}}`},
		{"less than it is to run", placementv1alpha1.CopyOrdinals{Revision: 5, Start: 1, End: 1}, `{"east":{"replicas":2,"ordinals":{"start":0,"revision":5}}}`},
		{"it knows a later range than a database that was restored", placementv1alpha1.CopyOrdinals{Revision: 7, Start: 1, End: 5},
			`{"east":{"replicas":1,"share":2,"ordinals":{"start":1,"held":{"start":0,"end":2147483647},"revision":8}}}`},
	} {
		got := Vacated(TargetsOf(object(lowered).GetAnnotations()), map[string]placementv1alpha1.CopyOrdinals{"east": c.runs})
		if diff := cmp.Diff(c.want, got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// fleet is a dumb model of what ranges are about: an object, and physical clusters that hear of
// it late, if at all.
type fleet struct {
	random  *rand.Rand
	obj     *metav1.ObjectMeta
	source  Source
	members map[string]*member
	reports map[string]placementv1alpha1.CopyOrdinals
}

// member is a physical cluster with a StatefulSet, whose controller starts and ends pods.
type member struct {
	dead bool
	// seen are targets that the syncer has read, applied is the entry that it wrote, and acted
	// the one on which the controller acts.
	seen           placementv1alpha1.Targets
	applied, acted *placementv1alpha1.Target
	pods           map[int32]bool
	// said is a report on its way.
	said *placementv1alpha1.CopyOrdinals
}

var everywhere = []string{"east", "north", "south", "west"}

func newFleet(seed uint64, claims bool) *fleet {
	f := &fleet{random: rand.New(rand.NewPCG(seed, 1)), obj: &metav1.ObjectMeta{Name: "db", Namespace: "shop"}, members: map[string]*member{}, reports: map[string]placementv1alpha1.CopyOrdinals{}}
	for _, name := range everywhere {
		f.members[name] = &member{pods: map[int32]bool{}}
	}
	f.source = Source{Runs: workload.RunsOnce, Wish: &Wish{Replicas: 4, Ordinals: &Ordinals{Claims: claims}}}
	f.decide("east", "west")
	f.stamp()
	return f
}

// decide has the unit be on some physical clusters; what it was on before is left, and removed.
func (f *fleet) decide(names ...string) {
	unit := UnitOn(names)
	for name := range f.targets() {
		if _, stays := unit[name]; !stays {
			unit[name] = []Part{PartLeaves, PartRemoves}[f.random.IntN(2)]
		}
	}
	weights := map[string]int32{}
	for _, name := range names {
		weights[name] = f.random.Int32N(4)
	}
	f.source.Unit, f.source.Division = unit, ranging(weights)
	if len(names) == 1 && f.random.IntN(2) == 0 {
		f.source.Division = nil
	}
}

func (f *fleet) targets() placementv1alpha1.Targets { return TargetsOf(f.obj.Annotations) }

func (f *fleet) stamp() {
	Set(f.obj, Targets(kindOf("apps", "StatefulSet"), "demo", f.obj, f.source))
}

// step is one thing that happens.
func (f *fleet) step() string {
	name := everywhere[f.random.IntN(len(everywhere))]
	m := f.members[name]
	switch f.random.IntN(14) {
	case 0:
		f.source.Wish = &Wish{Replicas: f.random.Int32N(8), Ordinals: &Ordinals{Claims: f.source.Wish.Ordinals.Claims, Start: f.source.Wish.Ordinals.Start}}
		if !f.source.Wish.Ordinals.Claims && f.random.IntN(4) == 0 {
			f.source.Wish.Ordinals.Start = f.random.Int32N(3)
		}
		f.stamp()
		return "wish"
	case 1:
		if f.random.IntN(3) == 0 {
			some := slices.Clone(everywhere)
			f.random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			f.decide(some[:1+f.random.IntN(3)]...)
			f.stamp()
		}
		return "decide"
	case 2:
		if f.random.IntN(8) == 0 {
			m.dead = !m.dead
		}
		return "dies or comes back: " + name
	case 3, 4:
		m.seen = f.targets()
	case 5, 6:
		f.sync(name, m)
	case 7, 8, 9:
		m.act(f.random)
	case 10:
		f.say(m)
	case 11:
		if m.said != nil {
			f.reports[name], m.said = *m.said, nil
		}
	default:
		f.control()
		return "control"
	}
	return name
}

// sync is what a syncer does, from what it has read.
func (f *fleet) sync(name string, m *member) {
	entry, ok := m.seen[name]
	switch {
	case m.dead || !ok || entry.NoCopy():
	case entry.State == placementv1alpha1.TargetStateRemoving:
		m.applied, m.acted = nil, nil
		for o := range m.pods {
			delete(m.pods, o)
		}
		if now, ok := f.targets()[name]; ok && now.State == placementv1alpha1.TargetStateRemoving { // acknowledged
			Set(f.obj, Without(f.targets(), func(target string) bool { return target == name }))
			delete(f.reports, name)
			m.seen, m.said = nil, nil
		}
	case m.applied == nil || revisionOf(entry) > revisionOf(*m.applied):
		m.applied = &entry
	}
}

func revisionOf(t placementv1alpha1.Target) int64 {
	if t.Ordinals == nil {
		return 0
	}
	return t.Ordinals.Revision
}

// act is what the controller below does, also of a physical cluster that nobody reaches.
func (m *member) act(random *rand.Rand) {
	if random.IntN(3) == 0 {
		m.acted = m.applied
	}
	if m.acted == nil {
		return
	}
	r := m.runs()
	o := random.Int32N(12)
	switch in := o >= r.Start && o < r.End; {
	case in:
		m.pods[o] = true
	default:
		delete(m.pods, o)
	}
}

// runs is the range on which the controller acts: all of it, if it has no range.
func (m *member) runs() span {
	if r, ok := RangeOf(*m.acted); ok {
		return r
	}
	return span{Start: 0, End: 10}
}

// say is a report: it is made once the controller acts on what was applied.
func (f *fleet) say(m *member) {
	if m.dead || m.applied == nil || m.acted != m.applied || m.applied.Replicas == nil {
		return
	}
	hull := m.runs()
	for o := range m.pods {
		hull = around(hull, span{Start: o, End: o + 1})
	}
	m.said = &placementv1alpha1.CopyOrdinals{Revision: m.applied.Ordinals.Revision, Start: hull.Start, End: hull.End}
}

func (f *fleet) control() {
	Set(f.obj, Vacated(f.targets(), f.reports))
	f.stamp()
}

// twice names an ordinal that runs on two physical clusters.
func (f *fleet) twice() error {
	on := map[int32]string{}
	for _, name := range everywhere {
		for o := range f.members[name].pods {
			if other, ok := on[o]; ok {
				return fmt.Errorf("ordinal %d runs on %s and on %s: %s", o, other, name, f.targets())
			}
			on[o] = name
		}
	}
	return nil
}

// settle lets everything come back and take note of everything, and says what is wrong then.
func (f *fleet) settle() error {
	for name, part := range f.source.Unit {
		if part.Left() {
			f.source.Unit[name] = PartRemoves
		}
	}
	for range 60 {
		f.stamp()
		for _, name := range everywhere {
			m := f.members[name]
			m.dead, m.seen = false, f.targets()
			f.sync(name, m)
			if m.acted = m.applied; m.acted != nil {
				r := m.runs()
				if _, ranged := RangeOf(*m.acted); !ranged {
					r = from(f.source.Wish.Ordinals.Start, int64(f.source.Wish.Replicas))
				}
				m.pods = map[int32]bool{}
				for o := r.Start; o < r.End; o++ {
					m.pods[o] = true
				}
			}
			if f.say(m); m.said != nil {
				f.reports[name] = *m.said
			}
			if err := f.twice(); err != nil {
				return err
			}
		}
		f.control()
	}
	want, got := map[int32]bool{}, map[int32]bool{}
	for o := range f.source.Wish.Replicas {
		want[o+f.source.Wish.Ordinals.Start] = true
	}
	for _, name := range everywhere {
		for o := range f.members[name].pods {
			got[o] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("what runs (-want +got):\n%s%s", diff, f.targets())
	}
	if Held(f.obj) {
		return fmt.Errorf("something is held for ever: %s", f.targets())
	}
	return nil
}

func TestNoOrdinalEverRunsTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		f := newFleet(seed, seed%3 == 0)
		var log []string
		for range 300 {
			log = append(log, f.step())
			if err := f.twice(); err != nil {
				t.Fatalf("seed %d, after %d steps (%s): %v", seed, len(log), log[max(0, len(log)-8):], err)
			}
		}
		if err := f.settle(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestTheModelOfRangesFindsAnOrdinalThatIsGivenTooEarly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		f := newFleet(seed, false)
		for range 300 {
			f.step()
			for name, target := range f.targets() { // as if lowering it were the end of it
				if target.Ordinals != nil && target.Ordinals.Held != nil {
					all := f.targets()
					target.Ordinals.Held = nil
					all[name] = target
					Set(f.obj, all)
				}
			}
			if f.twice() != nil {
				return
			}
		}
	}
	t.Error("nothing was found")
}

func TestABudgetOfAStatefulSetIsDividedByItsRanges(t *testing.T) {
	t.Parallel()
	set := Other{Kind: kindOf("apps", "StatefulSet"), Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "db", "annotations": map[string]any{
			placementv1alpha1.TargetsAnnotation: `{"east":{"replicas":3,"ordinals":{"start":0,"revision":1}},"west":{"replicas":2,"share":3,"ordinals":{"start":4,"revision":1}}}`,
		}},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "db"}}}},
	}}}
	budget := map[string]any{"spec": map[string]any{"minAvailable": int64(5), "selector": map[string]any{"matchLabels": map[string]any{"app": "db"}}}}
	got := WishOf(kindOf("policy", "PodDisruptionBudget"), budget, []Other{set})
	if diff := cmp.Diff(&Wish{Replicas: 5, Weights: map[string]int32{"east": 3, "west": 3}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
