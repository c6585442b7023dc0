package stamp

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func kindNamed(t testing.TB, name string) workload.Kind {
	t.Helper()
	for _, k := range workload.Builtin().Kinds() {
		if k.Kind == name {
			return k
		}
	}
	t.Fatalf("there is no %s", name)
	return workload.Kind{}
}

func read(t *testing.T, content string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(content), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

func running(t *testing.T, kind, name, targets string) Other {
	t.Helper()
	o := read(t, `{"spec":{"template":{"metadata":{"labels":{"app":"web"}}}}}`)
	o.SetName(name)
	o.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets})
	return Other{Kind: kindNamed(t, kind), Unstructured: o}
}

func TestNumbersOfOtherKindsAreDivided(t *testing.T) {
	t.Parallel()
	const selector = `"selector":{"matchLabels":{"app":"web"}}`
	const scales = `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`
	even := []Other{running(t, "Deployment", "web", `{"east":{"replicas":3},"west":{"replicas":3}}`)}
	uneven := []Other{running(t, "Deployment", "web", `{"east":{"replicas":6},"west":{"replicas":1}}`)}
	scaler := Other{Kind: kindNamed(t, "HorizontalPodAutoscaler"), Unstructured: read(t, `{"spec":{`+scales+`}}`)}
	scaler.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"replicas":1,"max":2},"west":{"replicas":4,"max":5}}`})
	for _, c := range []struct {
		name, kind, current, spec string
		others                    []Other
		want                      string
	}{
		{"a Job runs once", "Job", ``, `{"parallelism":1,"completions":1}`, nil, `{"east":{"replicas":1,"completions":1},"west":{"replicas":0,"completions":0}}`},
		{"a Job without numbers runs once", "Job", ``, `{}`, nil, `{"east":{"replicas":1,"completions":1},"west":{"replicas":0,"completions":0}}`},
		{"a Job", "Job", ``, `{"parallelism":4,"completions":9}`, nil, `{"east":{"replicas":2,"completions":5},"west":{"replicas":2,"completions":4}}`},
		{"of which more run than have to succeed", "Job", ``, `{"parallelism":40,"completions":3}`, nil, `{"east":{"replicas":2,"completions":2},"west":{"replicas":1,"completions":1}}`},
		{"one at a time", "Job", ``, `{"parallelism":1,"completions":9}`, nil, `{"east":{"replicas":1,"completions":9},"west":{"replicas":0,"completions":0}}`},
		{"until one knows that the work is done", "Job", ``, `{"parallelism":3}`, nil, `{"east":{"replicas":2},"west":{"replicas":1}}`},
		{"one of these at a time", "Job", ``, `{"parallelism":1}`, nil, `{"east":{"replicas":1},"west":{"replicas":0,"completions":0}}`},
		{"nothing has to succeed", "Job", ``, `{"parallelism":1,"completions":0}`, nil, `{"east":{"replicas":0,"completions":0},"west":{"replicas":0,"completions":0}}`},
		{"its pods are numbered", "Job", ``, `{"parallelism":2,"completions":2,"completionMode":"Indexed"}`, nil, `{"east":{},"west":{"state":"Finished"}}`},
		{"it has begun", "Job", `{"east":{"replicas":1,"completions":6},"west":{"replicas":1,"completions":3}}`, `{"parallelism":8,"completions":9}`, nil,
			`{"east":{"replicas":1,"completions":6},"west":{"replicas":1,"completions":3}}`},
		{"it has begun as a whole", "Job", `{"east":{},"west":{}}`, `{"parallelism":8,"completions":9}`, nil, `{"east":{},"west":{}}`},
		{"it has begun in one place", "Job", `{"east":{}}`, `{"parallelism":8,"completions":9}`, nil, `{"east":{},"west":{"state":"Finished"}}`},

		{"at least", "PodDisruptionBudget", ``, `{"minAvailable":5,` + selector + `}`, even, `{"east":{"replicas":3},"west":{"replicas":2}}`},
		{"at least, no more than there are", "PodDisruptionBudget", ``, `{"minAvailable":6,` + selector + `}`, uneven, `{"east":{"replicas":5},"west":{"replicas":1}}`},
		{"at least, more than there are", "PodDisruptionBudget", ``, `{"minAvailable":9,` + selector + `}`, uneven, `{"east":{"replicas":8},"west":{"replicas":1}}`},
		{"at most", "PodDisruptionBudget", ``, `{"maxUnavailable":1,` + selector + `}`, even, `{"east":{"replicas":1},"west":{"replicas":0}}`},
		{"at most, where it was", "PodDisruptionBudget", `{"east":{"replicas":0},"west":{"replicas":1}}`, `{"maxUnavailable":1,` + selector + `}`, even, `{"east":{"replicas":0},"west":{"replicas":1}}`},
		{"a percentage", "PodDisruptionBudget", `{"east":{"replicas":3},"west":{"replicas":2}}`, `{"minAvailable":"50%",` + selector + `}`, even, `{"east":{},"west":{}}`},
		{"it selects nothing", "PodDisruptionBudget", ``, `{"minAvailable":5,` + selector + `}`, []Other{}, `{"east":{},"west":{}}`},
		{"others are not known", "PodDisruptionBudget", `{"east":{"replicas":3},"west":{"replicas":2}}`, `{"minAvailable":7,` + selector + `}`, nil, `{"east":{"replicas":3},"west":{"replicas":2}}`},
		{"something it selects is not divided", "PodDisruptionBudget", ``, `{"minAvailable":5,` + selector + `}`, append(even[:1:1], running(t, "StatefulSet", "db", `{"east":{},"west":{}}`)), `{"east":{},"west":{}}`},
		{"what it selects is scaled below", "PodDisruptionBudget", ``, `{"minAvailable":5,` + selector + `}`, append(even[:1:1], scaler), `{"east":{"replicas":2},"west":{"replicas":3}}`},
		{"each had all of it", "PodDisruptionBudget", `{"east":{},"west":{}}`, `{"minAvailable":5,` + selector + `}`, even, `{"east":{"replicas":5,"share":3},"west":{"replicas":5,"share":2}}`},
		{"each had all that may go", "PodDisruptionBudget", `{"east":{},"west":{}}`, `{"maxUnavailable":2,` + selector + `}`, even, `{"east":{"replicas":1},"west":{"replicas":1}}`},
		{"what protects comes first", "PodDisruptionBudget", `{"east":{"replicas":5},"west":{"replicas":0}}`, `{"minAvailable":5,` + selector + `}`, even, `{"east":{"replicas":5,"share":3},"west":{"replicas":2}}`},
		{"what permits comes after", "PodDisruptionBudget", `{"east":{"replicas":2},"west":{"replicas":0}}`, `{"maxUnavailable":2,` + selector + `}`, even, `{"east":{"replicas":1},"west":{"replicas":0,"share":1}}`},
		{"more may go", "PodDisruptionBudget", `{"east":{"replicas":1},"west":{"replicas":1}}`, `{"maxUnavailable":6,` + selector + `}`, even, `{"east":{"replicas":3},"west":{"replicas":3}}`},

		{"an autoscaler", "HorizontalPodAutoscaler", ``, `{"minReplicas":3,"maxReplicas":10,` + scales + `}`, []Other{}, `{"east":{"replicas":2,"max":5},"west":{"replicas":1,"max":5}}`},
		{"none starts from nothing", "HorizontalPodAutoscaler", ``, `{"maxReplicas":5,` + scales + `}`, []Other{}, `{"east":{"replicas":1,"max":3},"west":{"replicas":1,"max":2}}`},
		{"one replica in all", "HorizontalPodAutoscaler", ``, `{"maxReplicas":1,` + scales + `}`, []Other{}, `{"east":{"replicas":1,"max":1},"west":{"replicas":0,"max":0}}`},
		{"it scales what is not divided", "HorizontalPodAutoscaler", ``, `{"maxReplicas":5,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"}}`, []Other{running(t, "StatefulSet", "db", `{"east":{},"west":{}}`)}, `{"east":{},"west":{}}`},
		{"as few as many", "HorizontalPodAutoscaler", ``, `{"minReplicas":7,"maxReplicas":7,` + scales + `}`, []Other{}, `{"east":{"replicas":4,"max":4},"west":{"replicas":3,"max":3}}`},
		{"its least is kept until others are available", "HorizontalPodAutoscaler", `{"east":{"replicas":5,"max":8},"west":{"replicas":1,"max":2}}`, `{"minReplicas":6,"maxReplicas":10,` + scales + `}`, []Other{},
			`{"east":{"replicas":5,"share":3,"max":5},"west":{"replicas":3,"max":5}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			kind := kindNamed(t, c.kind)
			content := read(t, `{"spec":`+c.spec+`}`).Object
			obj := &metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: c.current}}
			source := Source{Unit: UnitOn([]string{"east", "west"}), Division: halves, Runs: workload.RunsOf(kind, content), Wish: WishOf(kind, content, c.others)}
			got := Targets(kind, "demo", obj, source)
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			obj.Annotations[placementv1alpha1.TargetsAnnotation] = got.String()
			if again := Targets(kind, "demo", obj, source); !Equal(again, got) {
				t.Errorf("asked again: %s", again)
			}
			if kind.Kind != "Job" {
				return
			}
			source.Division, source.Wish = nil, nil
			if again := Targets(kind, "demo", obj, source); !Equal(again, got) {
				t.Errorf("when nothing is divided any more: %s", again)
			}
		})
	}
}

func TestWhatWaitsForMoreGetsWhatOthersDoNotUse(t *testing.T) {
	t.Parallel()
	const waits = `{"east":{"replicas":1},"west":{"replicas":0,"share":1}}`
	for _, c := range []struct {
		name, current string
		used          map[string]int32
		want          string
	}{
		{"nothing is known", waits, nil, waits},
		{"the other one uses it as yet", waits, map[string]int32{"east": 2, "west": 0}, waits},
		{"it does not any more", waits, map[string]int32{"east": 1}, `{"east":{"replicas":1},"west":{"replicas":1}}`},
		{"it has none just now", waits, map[string]int32{"east": 0, "west": 0}, `{"east":{"replicas":1},"west":{"replicas":1}}`},
		{"what is removed uses none", `{"east":{"state":"Removing"},"west":{"replicas":0,"share":1}}`, nil, `{"east":{"state":"Removing"},"west":{"replicas":1}}`},
	} {
		current, err := ParseTargets(c.current)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, Granted(current, 2, c.used).String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestABudgetIsNeverWeaker follows worlds in which shares, budgets and what is healthy change at
// random, and each physical cluster applies its targets now or later: while the user wants
// the same, all of them together never permit more than one budget over all would.
func TestABudgetIsNeverWeaker(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	kind, names := kindNamed(t, "PodDisruptionBudget"), []string{"a", "b", "c"}
	rule, held, changed := byWeights(map[string]int32{"a": 1, "b": 1, "c": 1}), 0, 0
	for world := range 3000 {
		ceiling, n := world%2 == 0, r.Int32N(5)
		obj := &metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: map[string]string{}}
		weights, applied := map[string]int32{}, map[string]int32{}
		for _, name := range names {
			weights[name] = r.Int32N(5)
		}
		for step := range 14 {
			if step > 0 && r.IntN(3) == 0 {
				weights[names[r.IntN(3)]] = r.Int32N(5)
			}
			wish := &Wish{Replicas: n, Ceiling: ceiling, Weights: weights}
			targets := Targets(kind, "demo", obj, Source{Unit: UnitOn(names), Division: rule, Wish: wish})
			if r.IntN(2) == 0 {
				wants, protects := map[string]int32{}, map[string]int32{}
				for name := range applied {
					wants[name], protects[name] = applied[name], min(applied[name], r.Int32N(5))
				}
				next := Yielded(targets, n, wants, protects)
				if ceiling {
					next = Granted(targets, n, wants)
				}
				if !Equal(next, targets) {
					changed++
				}
				targets = next
			}
			obj.Annotations[placementv1alpha1.TargetsAnnotation] = targets.String()
			if Held(obj) {
				held++
			}
			total := int32(0)
			for _, name := range names {
				if step == 0 || r.IntN(2) == 0 {
					applied[name] = *targets[name].Replicas
				}
				total += applied[name]
			}
			if ceiling && total > n || !ceiling && total < n {
				t.Fatalf("world %d step %d: of %d, ceiling %t, %v is applied, %s wanted", world, step, n, ceiling, applied, targets)
			}
			sum := int32(0)
			for _, target := range targets {
				sum += ptr.Deref(target.Share, *target.Replicas)
			}
			if sum != n {
				t.Fatalf("world %d step %d: shares of %d are %s", world, step, n, targets)
			}
		}
	}
	if held < 1000 || changed < 500 {
		t.Errorf("only %d times something was held, and %d times changed", held, changed)
	}
}

func TestAJobAndAnAutoscalerAreDividedExactly(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	names := []string{"a", "b", "c"}
	for range 5000 {
		rule := byWeights(map[string]int32{"a": r.Int32N(4), "b": r.Int32N(4), "c": r.Int32N(4)})
		rule.By = []placementv1alpha1.DivideBy{placementv1alpha1.DivideByWeights, placementv1alpha1.DivideByFree, placementv1alpha1.DivideByPacked}[r.IntN(3)]
		completions := r.Int32N(20)
		parallelism := min(1+r.Int32N(10), completions)
		obj := &metav1.ObjectMeta{Name: "web", Namespace: "shop"}
		job := Targets(kindNamed(t, "Job"), "demo", obj, Source{Unit: UnitOn(names), Division: rule, Runs: workload.RunsToEnd,
			Wish: &Wish{Runs: true, Replicas: parallelism, Completions: &completions}})
		at, succeed := int32(0), int32(0)
		for _, target := range job {
			at, succeed = at+*target.Replicas, succeed+*target.Completions
			if (*target.Replicas == 0) != (*target.Completions == 0) {
				t.Fatalf("%d of %d: %s has a part that never ends", parallelism, completions, job)
			}
		}
		if at != parallelism || succeed != completions {
			t.Fatalf("%d of %d: %s", parallelism, completions, job)
		}

		most := 1 + r.Int32N(20)
		least := 1 + r.Int32N(most)
		scaler := Targets(kindNamed(t, "HorizontalPodAutoscaler"), "demo", obj, Source{Unit: UnitOn(names), Division: rule, Wish: &Wish{Replicas: least, Max: &most}})
		fewest, all := int32(0), int32(0)
		for _, target := range scaler {
			fewest, all = fewest+*target.Replicas, all+*target.Max
			if *target.Replicas > *target.Max {
				t.Fatalf("%d to %d by %s: %s", least, most, rule.By, scaler)
			}
		}
		if all != most || fewest < least || fewest > max(least, 3) {
			t.Fatalf("%d to %d by %s: %s", least, most, rule.By, scaler)
		}
	}
}
