package stamp

import (
	"fmt"
	"maps"
	"math/rand/v2"
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

// byWeights divides over these physical clusters by these weights.
func byWeights(weights map[string]int32) *placementv1alpha1.DecidedDivision {
	out := &placementv1alpha1.DecidedDivision{By: placementv1alpha1.DivideByWeights}
	for name, weight := range weights {
		out.Targets = append(out.Targets, placementv1alpha1.DecidedReplicas{PhysicalCluster: name, Weight: weight})
	}
	return out
}

var halves = byWeights(map[string]int32{"east": 1, "west": 1})

func wishOf(replicas int32) *Wish { return &Wish{Replicas: replicas} }

func TestReplicasAreRaisedBeforeOthersAreLowered(t *testing.T) {
	t.Parallel()
	both, third, onEast := UnitOn([]string{"east", "west"}), byWeights(map[string]int32{"east": 1, "west": 2}), byWeights(map[string]int32{"east": 1, "west": 0})
	for _, c := range []struct {
		name    string
		current string
		unit    Unit
		rule    *placementv1alpha1.DecidedDivision
		wish    *Wish
		want    string
	}{
		{"new", ``, both, halves, wishOf(5), `{"east":{"replicas":3},"west":{"replicas":2}}`},
		{"settled", `{"east":{"replicas":3},"west":{"replicas":2}}`, both, halves, wishOf(5), `{"east":{"replicas":3},"west":{"replicas":2}}`},
		{"more are wished", `{"east":{"replicas":3},"west":{"replicas":2}}`, both, halves, wishOf(8), `{"east":{"replicas":4},"west":{"replicas":4}}`},
		{"fewer are wished", `{"east":{"replicas":3},"west":{"replicas":2}}`, both, halves, wishOf(2), `{"east":{"replicas":1},"west":{"replicas":1}}`},
		{"none", `{"east":{"replicas":3},"west":{"replicas":2}}`, both, halves, wishOf(0), `{"east":{"replicas":0},"west":{"replicas":0}}`},
		{"other weights: what shrinks waits", `{"east":{"replicas":3},"west":{"replicas":3}}`, both, third, wishOf(6), `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`},
		{"and goes on waiting", `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`, both, third, wishOf(6), `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`},
		{"fewer are wished meanwhile", `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`, both, third, wishOf(2), `{"east":{"replicas":2,"share":1},"west":{"replicas":2,"share":1}}`},
		{"more are wished meanwhile", `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`, both, third, wishOf(9), `{"east":{"replicas":3},"west":{"replicas":6}}`},
		{"none are wished meanwhile", `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`, both, third, wishOf(0), `{"east":{"replicas":0},"west":{"replicas":0}}`},
		{"each had all", `{"east":{},"west":{}}`, both, halves, wishOf(6), `{"east":{"replicas":6,"share":3},"west":{"replicas":6,"share":3}}`},
		{"another one arrives", `{"east":{"replicas":6}}`, Unit{"east": PartStays, "west": PartArrives}, halves, wishOf(6), `{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`},
		{"one is left", `{"east":{"replicas":3},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartLeaves}, byWeights(map[string]int32{"east": 1}), wishOf(6), `{"east":{"replicas":6},"west":{"replicas":3}}`},
		{"fewer are wished while one leaves", `{"east":{"replicas":6},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartLeaves}, byWeights(map[string]int32{"east": 1}), wishOf(2), `{"east":{"replicas":2},"west":{"replicas":2}}`},
		{"none are wished while one leaves", `{"east":{"replicas":6},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartDrains}, byWeights(map[string]int32{"east": 1}), wishOf(0), `{"east":{"replicas":0},"west":{"replicas":0}}`},
		{"none are wished while one leaves that keeps more than its share", `{"east":{"replicas":6},"west":{"replicas":3,"share":1}}`, Unit{"east": PartStays, "west": PartLeaves}, byWeights(map[string]int32{"east": 1}), wishOf(0), `{"east":{"replicas":0},"west":{"replicas":0}}`},
		{"one is removed", `{"east":{"replicas":6},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartRemoves}, byWeights(map[string]int32{"east": 1}), wishOf(6), `{"east":{"replicas":6},"west":{"state":"Removing"}}`},
		{"one is replaced", `{"east":{"replicas":3},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartLeaves, "north": PartArrives}, byWeights(map[string]int32{"east": 1, "north": 1}), wishOf(6), `{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":3}}`},
		{"and that is taken back", `{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartStays, "north": PartDrains}, halves, wishOf(6), `{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":3}}`},
		{"and removed", `{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartStays, "north": PartRemoves}, halves, wishOf(6), `{"east":{"replicas":3},"north":{"state":"Removing"},"west":{"replicas":3}}`},
		{"one is replaced by less, and that is taken back: what others got waits", `{"east":{"replicas":5},"north":{"replicas":1},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartStays, "north": PartDrains}, halves, wishOf(6), `{"east":{"replicas":5,"share":3},"north":{"replicas":1},"west":{"replicas":3}}`},
		{"one is left, and that is taken back: what the other got waits", `{"east":{"replicas":6},"west":{"replicas":3}}`, both, halves, wishOf(6), `{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`},
		{"one comes back of which the removal has not ended", `{"east":{"replicas":0},"west":{"state":"Removing"}}`, both, halves, wishOf(6), `{"east":{"replicas":6},"west":{"state":"Removing"}}`},
		{"all come back of which the removal has not ended", `{"east":{"state":"Removing"},"west":{"state":"Removing"}}`, both, halves, wishOf(6), `{"east":{"state":"Removing"},"west":{"state":"Removing"}}`},
		{"only the metadata are known", `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`, both, third, nil, `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`},
		{"what was to be given up stays, and may not run yet", `{"east":{"replicas":2},"west":{"replicas":2,"share":0}}`, both, halves, wishOf(2), `{"east":{"replicas":2,"share":1},"west":{"replicas":2,"share":1}}`},
		{"one has all since a moment, and may not run it yet", `{"east":{},"west":{"replicas":5}}`, both, onEast, wishOf(5), `{"east":{"replicas":5},"west":{"replicas":5,"share":0}}`},
		{"fewer are wished, by other weights", `{"east":{"replicas":5},"west":{"replicas":5}}`, both, onEast, wishOf(2), `{"east":{"replicas":2},"west":{"replicas":2,"share":0}}`},
		{"divided no more", `{"east":{"replicas":3,"share":2},"west":{"replicas":4}}`, both, nil, wishOf(6), `{"east":{},"west":{}}`},
		{"divided no more, and one is left", `{"east":{"replicas":3},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartLeaves}, nil, wishOf(6), `{"east":{},"west":{"replicas":3}}`},
		{"fewer are wished meanwhile", `{"east":{},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartLeaves}, nil, wishOf(2), `{"east":{},"west":{"replicas":2}}`},
		{"none are wished meanwhile", `{"east":{},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartDrains}, nil, wishOf(0), `{"east":{},"west":{"replicas":0}}`},
		{"it is not known how many are", `{"east":{},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartDrains}, nil, nil, `{"east":{},"west":{"replicas":3}}`},
		{"and that is removed", `{"east":{},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartRemoves}, nil, wishOf(6), `{"east":{},"west":{"state":"Removing"}}`},
		{"an autoscaler is lowered while one leaves", `{"east":{"replicas":2,"max":6},"west":{"replicas":3,"max":6}}`, Unit{"east": PartStays, "west": PartLeaves}, byWeights(map[string]int32{"east": 1}), &Wish{Replicas: 1, Max: ptr.To[int32](4)}, `{"east":{"replicas":1,"max":4},"west":{"replicas":1,"max":4}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			obj := &metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: c.current}}
			source := Source{Unit: c.unit, Division: c.rule, Wish: c.wish}
			got := Targets(deploymentKind(t), "demo", obj, source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			obj.Annotations[placementv1alpha1.TargetsAnnotation] = got.String()
			if again := Targets(deploymentKind(t), "demo", obj, source); !Equal(again, got) {
				t.Errorf("asked again: %s", again)
			}
		})
	}
}

func deploymentKind(t *testing.T) workload.Kind {
	t.Helper()
	kind, ok := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if !ok {
		t.Fatal("there are no Deployments")
	}
	return kind
}

func TestAnAutoscalerWantsThePartThatIsTakenOver(t *testing.T) {
	t.Parallel()
	const even = `{"east":{"replicas":1,"max":5},"west":{"replicas":1,"max":5}}`
	both := byWeights(map[string]int32{"east": 1, "west": 1})
	for name, c := range map[string]struct {
		scales  string
		unit    Unit
		current string
		rule    *placementv1alpha1.DecidedDivision
		want    string
	}{
		"nothing is taken over":             {`{"east":{"replicas":3},"west":{"replicas":3}}`, UnitOn([]string{"east", "west"}), even, both, even},
		"more than a share is kept":         {`{"east":{"replicas":4},"west":{"replicas":6,"share":2}}`, UnitOn([]string{"east", "west"}), even, both, `{"east":{"replicas":4,"max":5},"west":{"replicas":5,"max":5}}`},
		"it does not want more than it may": {`{"east":{"replicas":9},"west":{"replicas":6,"share":1}}`, UnitOn([]string{"east", "west"}), even, both, `{"east":{"replicas":5,"max":5},"west":{"replicas":5,"max":5}}`},
		"it is over":                        {`{"east":{"replicas":4},"west":{"replicas":2}}`, UnitOn([]string{"east", "west"}), `{"east":{"replicas":4,"max":5},"west":{"replicas":1,"max":5}}`, both, `{"east":{"replicas":2,"share":1,"max":5},"west":{"replicas":1,"max":5}}`},
		"one leaves": {`{"east":{"replicas":6},"west":{"replicas":3}}`, Unit{"east": PartStays, "west": PartLeaves}, even, byWeights(map[string]int32{"east": 1}),
			`{"east":{"replicas":6,"max":10},"west":{"replicas":1,"max":5}}`},
		"what it scales is not known": {``, Unit{"east": PartStays, "west": PartLeaves}, even, byWeights(map[string]int32{"east": 1}),
			`{"east":{"replicas":2,"max":10},"west":{"replicas":1,"max":5}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wish := &Wish{Replicas: 2, Max: ptr.To[int32](10), Scales: TargetsOf(object(c.scales).GetAnnotations())}
			source := Source{Unit: c.unit, Division: c.rule, Wish: wish}
			got := Targets(kindOf("autoscaling", "HorizontalPodAutoscaler"), "shop", object(c.current), source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := Targets(kindOf("autoscaling", "HorizontalPodAutoscaler"), "shop", object(got.String()), source); !Equal(got, again) {
				t.Errorf("stamped again: %s", again)
			}
		})
	}
}

func TestWhatIsKeptIsGivenUpAsOthersTakeItOver(t *testing.T) {
	t.Parallel()
	const held = `{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`
	for _, c := range []struct {
		name, current string
		available     map[string]int32
		want          string
	}{
		{"nothing is known", held, nil, held},
		{"the others are not available", held, map[string]int32{"east": 6, "west": 0}, held},
		{"it is not known how the others are", held, map[string]int32{"east": 6}, held},
		{"some are", held, map[string]int32{"east": 6, "west": 2}, `{"east":{"replicas":4,"share":3},"west":{"replicas":3}}`},
		{"all are", held, map[string]int32{"east": 6, "west": 3}, `{"east":{"replicas":3},"west":{"replicas":3}}`},
		{"what counts is no more than is applied", held, map[string]int32{"east": 6, "west": 9}, `{"east":{"replicas":3},"west":{"replicas":3}}`},
		{"it loses nothing", held, map[string]int32{"east": 2, "west": 0}, `{"east":{"replicas":3},"west":{"replicas":3}}`},
		{"each had all, one of them works", `{"east":{"replicas":6,"share":3},"west":{"replicas":6,"share":3}}`, map[string]int32{"east": 6, "west": 0},
			`{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`},
		{"each had all, and works", `{"east":{"replicas":6,"share":3},"west":{"replicas":6,"share":3}}`, map[string]int32{"east": 6, "west": 6},
			`{"east":{"replicas":3},"west":{"replicas":3}}`},
		{"what goes does not count", `{"east":{"replicas":6,"share":3},"west":{"state":"Removing"}}`, map[string]int32{"east": 6, "west": 6},
			`{"east":{"replicas":6,"share":3},"west":{"state":"Removing"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			current, err := ParseTargets(c.current)
			if err != nil {
				t.Fatal(err)
			}
			got := Released(current, 6, c.available, c.available)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.current, current.String()); diff != "" {
				t.Errorf("what was asked about has changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatClientsDoNotReachIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		available, reached map[string]int32
		want               string
	}{
		{"none is reached", map[string]int32{"east": 6, "west": 3}, map[string]int32{"east": 6}, `{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`},
		{"one is not", map[string]int32{"east": 6, "west": 3}, map[string]int32{"east": 6, "west": 2}, `{"east":{"replicas":4,"share":3},"west":{"replicas":3}}`},
		{"what is given up counts by its pods", map[string]int32{"east": 6, "west": 0}, map[string]int32{"east": 2}, `{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			current, err := ParseTargets(`{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, Released(current, 6, c.available, c.reached).String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoStepLeavesFewerAvailable follows worlds of edits of wishes, weights and what is left, in
// which pods become available at random: what is applied never sums to less than the wish, no
// target has more than that, and giving up never leaves fewer available than the wish, or than
// there were.
func TestNoStepLeavesFewerAvailable(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	kind := deploymentKind(t)
	names := []string{"a", "b", "c"}
	kept, gaveUp := 0, 0
	for world := range 3000 {
		obj := &metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{}}
		wish, weights := r.Int32N(9), map[string]int32{"a": 1, "b": 1, "c": 1}
		available, unit := map[string]int32{}, UnitOn(names)
		sum := func() (n int32) {
			targets := TargetsOf(obj.Annotations)
			for name, target := range targets {
				n += min(available[name], ptr.Deref(target.Replicas, wish))
			}
			return n
		}
		for step := range 12 {
			switch r.IntN(4) {
			case 0:
				wish = r.Int32N(9)
			case 1:
				weights[names[r.IntN(3)]] = r.Int32N(4)
			case 2: // one of them at a time, which has a part
				if unit = UnitOn(names); step > 0 {
					unit[names[r.IntN(3)]] = []Part{PartStays, PartLeaves, PartDrains}[r.IntN(3)]
				}
			}
			over := maps.Clone(weights)
			maps.DeleteFunc(over, func(name string, _ int32) bool { return unit[name].Left() })
			targets := Targets(kind, "demo", obj, Source{Unit: unit, Division: byWeights(over), Wish: wishOf(wish)})
			stamped := fmt.Sprintf("world %d step %d: a wish of %d, weights %v: %s then %s", world, step, wish, weights, obj.Annotations[placementv1alpha1.TargetsAnnotation], targets)
			obj.Annotations[placementv1alpha1.TargetsAnnotation] = targets.String()
			applied := int32(0)
			for name, target := range targets {
				applied += *target.Replicas
				if *target.Replicas > wish {
					t.Fatalf("%s has more on %s", stamped, name)
				}
				available[name] = min(available[name]+r.Int32N(4), *target.Replicas)
			}
			if applied < wish {
				t.Fatalf("%s sums to %d", stamped, applied)
			}
			if Held(obj) {
				kept++
			}
			before := sum()
			next := Released(targets, wish, available, available)
			obj.Annotations[placementv1alpha1.TargetsAnnotation] = next.String()
			if after := sum(); after < min(before, wish) {
				t.Fatalf("%s: of %v it gave up too much: %s leaves %d available of %d", stamped, available, next, after, before)
			}
			if !Equal(next, targets) {
				gaveUp++
			}
			for name, target := range next {
				available[name] = min(available[name], *target.Replicas)
			}
		}
	}
	if kept < 1000 || gaveUp < 500 {
		t.Errorf("only %d times something was kept, and %d times given up", kept, gaveUp)
	}
}

func TestRoomIsWhatFitsIntoWhatIsFree(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for _, c := range []struct {
		name           string
		free, requests corev1.ResourceList
		want           int64
	}{
		{"by the scarcer one", list("4", "1Gi"), list("1", "512Mi"), 2},
		{"nothing is free", list("0", "1Gi"), list("1", "512Mi"), 0},
		{"it asks for nothing", list("1", "1Gi"), nil, 8},
		{"nothing was reported", nil, list("1", "512Mi"), maxRoom},
		{"zero is nothing", list("1", "1Gi"), list("0", "0"), 8},
	} {
		if got := room(c.free, c.requests); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
