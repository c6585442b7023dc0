package stamp

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func batchKind(t *testing.T, name string) workload.Kind {
	t.Helper()
	kind, ok := workload.Builtin().ByKind(schema.GroupKind{Group: "batch", Kind: name})
	if !ok {
		t.Fatalf("no %s", name)
	}
	return kind
}

func withMax(rule *placementv1alpha1.DecidedDivision, name string, most int32) *placementv1alpha1.DecidedDivision {
	out := rule.DeepCopy()
	for i := range out.Targets {
		if out.Targets[i].PhysicalCluster == name {
			out.Targets[i].Max = ptr.To(most)
		}
	}
	return out
}

func TestWhatCannotBeDividedRunsInOnePlaceOfADivision(t *testing.T) {
	t.Parallel()
	both, third := UnitOn([]string{"east", "west"}), byWeights(map[string]int32{"east": 1, "west": 2})
	onWest := byWeights(map[string]int32{"west": 1})
	three := byWeights(map[string]int32{"east": 1, "west": 1, "north": 5})
	free := func(name string) *placementv1alpha1.DecidedDivision {
		rule := &placementv1alpha1.DecidedDivision{By: placementv1alpha1.DivideByFree}
		for _, c := range []string{"east", "west"} {
			one := placementv1alpha1.DecidedReplicas{PhysicalCluster: c, Weight: 1, Free: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
			if c == name {
				one.Free[corev1.ResourceCPU] = resource.MustParse("8")
			}
			rule.Targets = append(rule.Targets, one)
		}
		return rule
	}
	numbered := &Wish{Alone: true, Runs: true}
	for _, c := range []struct {
		name    string
		kind    string // default CronJob
		current string
		unit    Unit
		rule    *placementv1alpha1.DecidedDivision
		wish    *Wish
		want    string
	}{
		{"new", "", ``, both, halves, nil, `{"east":{}}`},
		{"new, by weights", "", ``, both, third, nil, `{"west":{}}`},
		{"new, where there is room", "", ``, both, free("west"), &Wish{Alone: true}, `{"west":{}}`},
		{"new, not where nothing is to be", "", ``, both, withMax(third, "west", 0), nil, `{"east":{}}`},
		{"it stays by other weights", "", `{"east":{}}`, both, third, nil, `{"east":{}}`},
		{"and by other room", "", `{"east":{}}`, both, free("west"), nil, `{"east":{}}`},
		{"but not where nothing is to be: it is stopped first", "", `{"east":{}}`, both, withMax(halves, "east", 0), nil, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`},
		{"then it is begun", "", `{"west":{"state":"Waiting"}}`, both, withMax(halves, "east", 0), nil, `{"west":{}}`},
		{"another mind meanwhile: it goes where it waits to go", "", `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`, both, halves, nil, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`},
		{"each had all of it", "", `{"east":{},"west":{}}`, both, halves, nil, `{"east":{},"west":{"state":"Removing"}}`},
		{"each had all of it, by weights", "", `{"east":{},"west":{}}`, both, third, nil, `{"east":{"state":"Removing"},"west":{}}`},
		{"another place arrives", "", `{"east":{}}`, Unit{"east": PartStays, "north": PartArrives}, three, nil, `{"east":{}}`},
		{"its place is left", "", `{"east":{}}`, Unit{"east": PartLeaves, "west": PartStays, "north": PartArrives}, three, nil, `{"east":{},"north":{"state":"Waiting"}}`},
		{"it keeps the one that it waits for", "", `{"east":{},"west":{"state":"Waiting"}}`, Unit{"east": PartLeaves, "west": PartStays, "north": PartArrives}, three, nil, `{"east":{},"west":{"state":"Waiting"}}`},
		{"and removed", "", `{"east":{},"west":{"state":"Waiting"}}`, Unit{"east": PartRemoves, "west": PartStays}, onWest, nil, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`},
		{"another place is left", "", `{"east":{}}`, Unit{"east": PartStays, "west": PartLeaves}, byWeights(map[string]int32{"east": 1}), nil, `{"east":{}}`},
		{"the division is of before", "", `{"east":{}}`, both, onWest, nil, `{"east":{}}`},
		{"it is where the unit is not", "", `{"south":{}}`, both, halves, nil, `{"east":{"state":"Waiting"},"south":{}}`},
		{"divided no more", "", `{"east":{}}`, both, nil, nil, `{"east":{},"west":{}}`},
		{"a numbered Job is begun in one place", "Job", ``, both, third, numbered, `{"east":{"state":"Finished"},"west":{}}`},
		{"and stays there", "Job", `{"east":{"state":"Finished"},"west":{}}`, both, halves, numbered, `{"east":{"state":"Finished"},"west":{}}`},
		{"also if nothing is to be there", "Job", `{"east":{"state":"Finished"},"west":{}}`, both, withMax(halves, "west", 0), numbered, `{"east":{"state":"Finished"},"west":{}}`},
		{"and where its place is left", "Job", `{"east":{"state":"Finished"},"west":{}}`, Unit{"east": PartStays, "west": PartRemoves}, byWeights(map[string]int32{"east": 1}), numbered, `{"east":{"state":"Finished"},"west":{}}`},
		{"one that has begun in each stays in each", "Job", `{"east":{},"west":{}}`, both, halves, numbered, `{"east":{},"west":{}}`},
		{"one that waits has not begun", "Job", `{"west":{"state":"Waiting"}}`, both, third, numbered, `{"east":{"state":"Finished"},"west":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			kind, runs := batchKind(t, "CronJob"), workload.RunsOnce
			if c.kind != "" {
				kind, runs = batchKind(t, c.kind), workload.RunsToEnd
			}
			obj := &metav1.ObjectMeta{Name: "tick", Namespace: "shop", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: c.current}}
			source := Source{Unit: c.unit, Division: c.rule, Wish: c.wish, Runs: runs}
			got := Targets(kind, "demo", obj, source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			obj.Annotations[placementv1alpha1.TargetsAnnotation] = got.String()
			if again := Targets(kind, "demo", obj, source); !Equal(again, got) {
				t.Errorf("asked again: %s", again)
			}
		})
	}
}

// Whatever policies, moves and acknowledgements follow on one another, no two places run it, and
// where nothing changes any more it runs in one.
func TestWhatRunsInOnePlaceNeverRunsInTwo(t *testing.T) {
	t.Parallel()
	names := []string{"east", "north", "west"}
	parts := []Part{PartStays, PartArrives, PartLeaves, PartRemoves}
	cronJob := batchKind(t, "CronJob")
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test repeats
		obj := &metav1.ObjectMeta{Name: "tick", Namespace: "shop", Annotations: map[string]string{}}
		source := Source{Runs: workload.RunsOnce}
		decide := func(settled bool) {
			weights := map[string]int32{}
			source.Unit = Unit{}
			for _, name := range names {
				if p := parts[r.IntN(len(parts))]; r.IntN(4) > 0 {
					if settled {
						p = PartStays
					}
					if source.Unit[name] = p; !p.Left() {
						weights[name] = int32(r.IntN(3)) //nolint:gosec // it is small
					}
				}
			}
			source.Division = byWeights(weights)
		}
		step := func() {
			current := TargetsOf(obj.Annotations)
			if r.IntN(2) == 0 { // an acknowledgement
				current = Without(current, func(string) bool { return r.IntN(2) == 0 })
				Set(obj, current)
			}
			next := Targets(cronJob, "demo", obj, source)
			Set(obj, next)
			var on []string
			for _, name := range next.Names() {
				if next[name].Keeps() || next[name].State == placementv1alpha1.TargetStateRemoving {
					on = append(on, name)
				}
			}
			if len(on) > 1 {
				t.Fatalf("seed %d: on %v: %s, of %v", seed, on, next, source.Unit)
			}
		}
		for range 20 {
			decide(false)
			step()
		}
		for source.Unit = nil; len(source.Unit) == 0; {
			decide(true)
		}
		decided := source.Unit.Names()
		for _, name := range names { // as a transition ends
			if !slices.Contains(decided, name) {
				source.Unit[name] = PartRemoves
			}
		}
		for range 20 {
			step()
		}
		if on := Kept(obj); len(on) != 1 || !slices.Contains(decided, on[0]) {
			t.Errorf("seed %d: in the end on %v of %v: %s", seed, on, decided, obj.Annotations)
		}
	}
}
