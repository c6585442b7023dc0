package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// world is a unit with one Deployment and one ConfigMap on some physical clusters.
type world struct {
	waves   *placementv1alpha1.DecidedRollout
	objects map[string]*unstructured.Unstructured
	copies  map[string]map[string]*placementv1alpha1.Copy
	silent  map[string]string
	status  *placementv1alpha1.RolloutStatus
	approve string
	now     time.Time
	healthy time.Time
}

func kindOf(name string) workload.Kind {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Group: map[string]string{"Deployment": "apps"}[name], Kind: name})
	return kind
}

func object(kind, content string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "data": map[string]any{"v": content}}}
	if kind == "Deployment" {
		o.Object = map[string]any{"kind": kind, "spec": map[string]any{"replicas": int64(2), "v": content}}
	}
	o.SetName(strings.ToLower(kind))
	o.SetUID(types.UID(kind))
	o.SetGeneration(1)
	o.SetResourceVersion("1")
	return o
}

func newWorld(waves ...placementv1alpha1.DecidedWave) *world {
	w := &world{
		waves: &placementv1alpha1.DecidedRollout{Waves: waves}, now: noon, silent: map[string]string{},
		objects: map[string]*unstructured.Unstructured{}, copies: map[string]map[string]*placementv1alpha1.Copy{},
	}
	targets := placementv1alpha1.Targets{}
	for _, wave := range waves {
		for _, name := range wave.PhysicalClusters {
			targets[name] = placementv1alpha1.Target{}
		}
	}
	for _, kind := range []string{"ConfigMap", "Deployment"} {
		o := object(kind, "1")
		o.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets.String()})
		w.objects[kind], w.copies[kind] = o, map[string]*placementv1alpha1.Copy{}
		for name := range targets {
			w.sync(kind, name, true)
		}
	}
	return w
}

// write is what a user and admission do.
func (w *world) write(t rapid.TB, kind, content string) {
	old, obj := w.objects[kind], object(kind, content)
	obj.SetAnnotations(old.GetAnnotations())
	if err := stamp.Stage(old, obj, stamp.Content(kindOf(kind), old.Object), stamp.Content(kindOf(kind), obj.Object), w.waves); err != nil {
		t.Fatal(err)
	}
	obj.SetGeneration(old.GetGeneration() + 1)
	obj.SetResourceVersion(fmt.Sprint(obj.GetGeneration()))
	w.objects[kind] = obj
}

// sync is what a syncer does, and the controllers there.
func (w *world) sync(kind, name string, healthy bool) {
	o := w.objects[kind]
	available := 2
	if !healthy {
		available = 1
	}
	raw, _ := json.Marshal(map[string]any{"replicas": 2, "updatedReplicas": 2, "availableReplicas": available})
	c := &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{
		State: placementv1alpha1.CopySynced, AppliedGeneration: o.GetGeneration(), ObservedGeneration: o.GetGeneration(), Observed: &runtime.RawExtension{Raw: raw},
	}}
	if c.Spec.PhysicalCluster = name; !slices.Contains(stamp.Former(o), name) {
		c.Status.Revision = stamp.Revision(o)
	}
	w.copies[kind][name] = c
}

func (w *world) next() Step {
	s := State{Rollout: w.waves, Decided: []string{"a", "b", "c", "d"}, NotReady: w.silent, Status: w.status, Healthy: w.healthy, Approved: w.approve, Now: w.now}
	for _, kind := range []string{"ConfigMap", "Deployment"} {
		s.Objects = append(s.Objects, transition.Object{Kind: kindOf(kind), Logical: w.objects[kind], Copies: w.copies[kind]})
	}
	return Next(s)
}

// step is what the controller does.
func (w *world) step() Step {
	step := w.next()
	w.status = step.Status
	for _, o := range w.objects {
		if !stamp.Staged(o) {
			continue
		}
		if step.Done {
			stamp.Complete(o)
		} else {
			stamp.Open(o, step.Open)
		}
	}
	if step.Done {
		w.status = nil
	}
	return step
}

// has is what each target is to have: in the order of the names, "2" or "1".
func (w *world) has(kind string) string {
	out := ""
	for _, name := range stamp.TargetsOf(w.objects[kind].GetAnnotations()).Names() {
		out += w.on(kind, name)
	}
	return out
}

func (w *world) on(kind, name string) string {
	received, err := stamp.Received(kindOf(kind), w.objects[kind], name)
	if err != nil {
		return "?"
	}
	if kind == "Deployment" {
		v, _, _ := unstructured.NestedString(received.Object, "spec", "v")
		return v
	}
	v, _, _ := unstructured.NestedString(received.Object, "data", "v")
	return v
}

func wave(soak int32, approval placementv1alpha1.RolloutApproval, names ...string) placementv1alpha1.DecidedWave {
	return placementv1alpha1.DecidedWave{PhysicalClusters: names, SoakSeconds: soak, Approval: approval}
}

func TestAChangeGoesFromWaveToWave(t *testing.T) {
	w := newWorld(wave(60, "", "a"), wave(0, "", "b"), wave(0, placementv1alpha1.ApprovalManual, "c", "d"))
	check := func(what, reason, has string) {
		t.Helper()
		if step := w.step(); step.Reason != reason {
			t.Errorf("%s: %s (%s), want %s", what, step.Reason, step.Message, reason)
		}
		if got := w.has("Deployment"); got != has {
			t.Errorf("%s: targets have %s, want %s", what, got, has)
		}
	}
	check("nothing is under way", "", "1111")
	w.write(t, "Deployment", "2")
	check("the first has not applied it", "Unhealthy", "2111")
	w.sync("Deployment", "a", false)
	check("one pod is not available", "Unhealthy", "2111")
	w.sync("Deployment", "a", true)
	check("it has just become healthy", "Soaking", "2111")
	w.now = w.now.Add(59 * time.Second)
	w.silent["a"] = "it is silent"
	check("it is silent", "HealthUnknown", "2111")
	delete(w.silent, "a")
	w.now = w.now.Add(time.Second)
	check("it is back, and soaks anew", "Soaking", "2111")
	w.now = w.now.Add(60 * time.Second)
	check("it has soaked", "", "2211")
	check("the second has not applied it", "Unhealthy", "2211")
	w.sync("Deployment", "b", true)
	check("the third is for a person", "NeedsApproval", "2211")
	w.approve = "other/3"
	check("another change was approved", "NeedsApproval", "2211")
	w.approve = w.status.Revision + "/2"
	check("another wave was approved", "NeedsApproval", "2211")
	w.approve = w.status.Revision + "/3"
	check("it was approved", "", "2222")
	check("the last ones have not applied it", "Unhealthy", "2222")
	w.sync("Deployment", "c", true)
	w.sync("Deployment", "d", true)
	check("complete", "RolledOut", "2222")
	check("nothing is under way any more", "", "2222")
}

// Another server, whose clock is minutes behind or ahead, may have noted since when all is healthy.
func TestAWaveSoaksByTheClockOfWhoDecides(t *testing.T) {
	for _, ahead := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		w := newWorld(wave(60, "", "a"), wave(0, "", "b"))
		w.write(t, "Deployment", "2")
		w.step()
		w.sync("Deployment", "a", true)
		w.step()
		written := metav1.NewTime(w.now.Add(ahead))
		w.status.HealthySince, w.healthy = &written, w.now
		began := w.now
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{time.Second, placementv1alpha1.ReasonSoaking}, {59 * time.Second, placementv1alpha1.ReasonSoaking}, {time.Minute, ""}} {
			w.now = began.Add(c.after)
			step := w.next()
			if step.Reason != c.want || (len(step.Open) > 0) != (c.want == "") {
				t.Errorf("a clock %s ahead, after %s: %q, opens %v: %s", ahead, c.after, step.Reason, step.Open, step.Message)
			}
			if !step.Status.HealthySince.Equal(&written) {
				t.Errorf("a clock %s ahead: it writes %s", ahead, step.Status.HealthySince)
			}
		}
	}
}

func TestAnUnhealthyChangeStopsAndIsTakenBack(t *testing.T) {
	w := newWorld(wave(0, "", "a"), wave(0, "", "b"))
	w.write(t, "Deployment", "2")
	w.sync("Deployment", "a", false)
	step := w.step()
	want := Step{
		Status: &placementv1alpha1.RolloutStatus{Revision: step.Status.Revision, Wave: 1, Waves: 2, Objects: []string{"Deployment/deployment"}},
		Reason: "Unhealthy", Message: "wave 2 of 2 (b) waits: Deployment deployment on a: 1 of 2 pods are available",
	}
	if diff := cmp.Diff(want, step); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.approve = step.Status.Revision + "/2"
	if step := w.next(); !slices.Equal(step.Open, []string{"b"}) {
		t.Errorf("a person approved it, and it is %v", step)
	}
	w.write(t, "Deployment", "1")
	if step := w.step(); step.Status != nil || w.has("Deployment") != "11" {
		t.Errorf("it was taken back: %v, %s", step, w.has("Deployment"))
	}
}

func TestAConfigMapIsHeldByTheDeploymentThatItBreaks(t *testing.T) {
	w := newWorld(wave(0, "", "a"), wave(0, "", "b"))
	w.write(t, "ConfigMap", "2")
	w.sync("ConfigMap", "a", true)
	w.sync("Deployment", "a", false)
	if step := w.step(); step.Reason != "Unhealthy" || w.has("ConfigMap") != "21" {
		t.Errorf("%v, %s", step, w.has("ConfigMap"))
	}
	w.sync("Deployment", "b", false) // it was broken by itself
	if w.step(); w.has("ConfigMap") != "22" {
		t.Error("what is broken everywhere holds it")
	}
}

func TestWithoutWavesAPersonApproves(t *testing.T) {
	w := newWorld(wave(0, "", "a"), wave(0, "", "b"), wave(0, "", "c"))
	w.write(t, "Deployment", "2")
	w.sync("Deployment", "a", true)
	w.waves = nil
	step := w.step()
	if step.Reason != "NeedsApproval" || step.Status.Waves != 2 || w.has("Deployment") != "211" {
		t.Errorf("%v", step)
	}
	w.approve = step.Status.Revision + "/2"
	if w.step(); w.has("Deployment") != "222" {
		t.Error("it was approved")
	}
}

// Whatever happens, in whatever order: no target gets a change before all of the waves before
// it had it and were healthy, unless a person approved; there are two contents of an
// object at most; it ends, or says why it waits; and it can be taken back.
func TestNoWaveIsAheadOfTheOneBefore(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		manual := placementv1alpha1.RolloutApproval("")
		if rapid.Bool().Draw(t, "manual") {
			manual = placementv1alpha1.ApprovalManual
		}
		w := newWorld(wave(rapid.Int32Range(0, 3).Draw(t, "soak"), "", "a"), wave(0, manual, "b"), wave(0, "", "c"))
		healthy := map[string]bool{} // kind, name and revision: seen so by the controller
		content := 1
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			kind := rapid.SampledFrom([]string{"ConfigMap", "Deployment"}).Draw(t, "kind")
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0:
				content++
				w.write(t, kind, fmt.Sprint(content))
			case 1, 2, 3:
				w.sync(kind, name, true)
			case 4:
				w.sync(kind, name, false)
			case 5:
				w.now = w.now.Add(time.Second)
			case 6:
				w.silent = map[string]string{}
				if rapid.Bool().Draw(t, "silent") {
					w.silent[name] = "silent"
				}
			case 7:
				if w.status != nil && rapid.Bool().Draw(t, "approves") {
					w.approve = fmt.Sprintf("%s/%d", w.status.Revision, w.status.Wave+1)
				}
			case 8:
				delete(w.copies[kind], name)
			}
			before := map[string]string{}
			for _, kind := range []string{"ConfigMap", "Deployment"} {
				for _, name := range names {
					c := w.copies[kind][name]
					revision := stamp.Revision(w.objects[kind])
					raw := ""
					if c != nil {
						raw = string(c.Status.Observed.Raw)
					}
					if c != nil && w.silent[name] == "" && c.Status.Revision == revision && c.Status.AppliedGeneration == w.objects[kind].GetGeneration() && (kind == "ConfigMap" || !strings.Contains(raw, `"availableReplicas":1`)) {
						healthy[kind+name+revision] = true
					}
				}
				before[kind] = strings.Join(stamp.Former(w.objects[kind]), "")
			}
			step := w.step()
			for _, kind := range []string{"ConfigMap", "Deployment"} {
				o := w.objects[kind]
				former := stamp.Former(o)
				for i, name := range names {
					opened := strings.Contains(before[kind], name) && !slices.Contains(former, name)
					for _, earlier := range names[:i] {
						if !opened || step.Done {
							continue
						}
						if slices.Contains(former, earlier) {
							t.Fatalf("%s of %s has it before %s", kind, name, earlier)
						}
						if !strings.HasPrefix(w.approve, step.Status.Revision+"/") && !healthy[kind+earlier+stamp.Revision(o)] {
							t.Fatalf("%s of %s has it, and %s never was healthy", kind, name, earlier)
						}
					}
				}
				if stamp.Staged(o) && step.Reason == "" && len(step.Open) == 0 {
					t.Fatalf("it waits, and does not say why: %+v", step)
				}
			}
		}
		// With everybody healthy and a person who approves, it ends.
		w.silent = map[string]string{}
		for range 20 {
			for _, kind := range []string{"ConfigMap", "Deployment"} {
				for _, name := range names {
					w.sync(kind, name, true)
				}
			}
			if w.status != nil {
				w.approve = fmt.Sprintf("%s/%d", w.status.Revision, w.status.Wave+1)
			}
			w.now = w.now.Add(time.Minute)
			w.step()
		}
		if w.status != nil || stamp.Staged(w.objects["Deployment"]) || stamp.Staged(w.objects["ConfigMap"]) {
			t.Fatalf("it does not end: %+v", w.status)
		}
		// And it can be taken back at any time: what was complete last is everywhere.
		last := w.has("Deployment")
		w.write(t, "Deployment", "new")
		for range rapid.IntRange(0, 3).Draw(t, "waves") {
			w.sync("Deployment", rapid.SampledFrom(names).Draw(t, "synced"), true)
			w.now = w.now.Add(time.Minute)
			if step := w.step(); step.Done {
				return
			}
		}
		w.write(t, "Deployment", last[:len(last)/3])
		if got := w.has("Deployment"); got != last || stamp.Staged(w.objects["Deployment"]) {
			t.Fatalf("taken back, targets have %s, not %s", got, last)
		}
	})
}

func TestAnApprovalIsForOneChange(t *testing.T) {
	for _, approved := range []string{"", "/", "x/1", "r/", "r/0", "r/one", "r"} {
		if (State{Approved: approved}).approved("r", 1) {
			t.Errorf("%q approves", approved)
		}
	}
	if !(State{Approved: "r/2"}).approved("r", 1) {
		t.Error("a later wave is approved, and this is not")
	}
}
