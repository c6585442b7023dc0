package stamp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var twoWaves = &placementv1alpha1.DecidedRollout{Waves: []placementv1alpha1.DecidedWave{
	{PhysicalClusters: []string{"east"}}, {PhysicalClusters: []string{"north", "west"}},
}}

func deployment(t *testing.T) workload.Kind {
	t.Helper()
	kind, ok := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if !ok {
		t.Fatal("no Deployment")
	}
	return kind
}

// web is a Deployment with an image and a number of replicas.
func web(image string, replicas int64, annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": image, "annotations": annotations},
		"spec":     map[string]any{"replicas": replicas, "template": map[string]any{"image": image}},
		"status":   map[string]any{"replicas": replicas},
	}}
}

// change is what admission does with an update.
func change(t *testing.T, old *unstructured.Unstructured, image string, replicas int64, rollout *placementv1alpha1.DecidedRollout) *unstructured.Unstructured {
	t.Helper()
	kind, obj := deployment(t), web(image, replicas, nil)
	obj.SetAnnotations(old.GetAnnotations())
	if err := Stage(old, obj, Content(kind, old.Object), Content(kind, obj.Object), rollout); err != nil {
		t.Fatal(err)
	}
	return obj
}

// seen is what each target is to have of an object: image and replicas.
func seen(t *testing.T, obj *unstructured.Unstructured) string {
	t.Helper()
	var out []string
	for _, name := range TargetsOf(obj.GetAnnotations()).Names() {
		received, err := Received(deployment(t), obj, name)
		if err != nil {
			t.Fatal(err)
		}
		image, _, _ := unstructured.NestedString(received.Object, "spec", "template", "image")
		n, _, _ := unstructured.NestedInt64(received.Object, "spec", "replicas")
		out = append(out, fmt.Sprintf("%s %s*%d", name, image, n))
	}
	return strings.Join(out, ", ")
}

func TestAChangeReachesTheFirstWaveAndTheOthersKeepWhatTheyHad(t *testing.T) {
	placed := map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{},"north":{},"west":{}}`}
	v1 := web("v1", 2, placed)
	step := func(what string, obj *unstructured.Unstructured, staged bool, want string) {
		t.Helper()
		if got := seen(t, obj); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		if Staged(obj) != staged || (obj.GetAnnotations()[placementv1alpha1.FormerAnnotation] != "") != staged {
			t.Errorf("%s: under way is %v, want %v", what, Staged(obj), staged)
		}
	}
	step("without waves", change(t, v1, "v2", 2, nil), false, "east v2*2, north v2*2, west v2*2")
	step("a scale", change(t, v1, "v1", 5, twoWaves), false, "east v1*5, north v1*5, west v1*5")

	v2 := change(t, v1, "v2", 2, twoWaves)
	step("a change", v2, true, "east v2*2, north v1*2, west v1*2")
	step("a scale on the way", change(t, v2, "v2", 7, twoWaves), true, "east v2*7, north v1*7, west v1*7")
	step("taken back", change(t, v2, "v1", 2, twoWaves), false, "east v1*2, north v1*2, west v1*2")
	step("without waves on the way", change(t, v2, "v3", 2, nil), false, "east v3*2, north v3*2, west v3*2")

	Open(v2, []string{"west"})
	step("half of the second wave", v2, true, "east v2*2, north v1*2, west v2*2")
	v3 := change(t, v2, "v3", 2, twoWaves)
	step("another change", v3, true, "east v3*2, north v1*2, west v1*2")
	if Revision(v3) == Revision(v2) {
		t.Error("two changes have one revision")
	}
	Open(v3, []string{"north", "west"})
	step("all waves", v3, true, "east v3*2, north v3*2, west v3*2")
	step("taken back from all", change(t, v3, "v1", 2, twoWaves), false, "east v1*2, north v1*2, west v1*2")
	Complete(v3)
	step("complete", v3, false, "east v3*2, north v3*2, west v3*2")

	approved := &placementv1alpha1.DecidedRollout{Waves: []placementv1alpha1.DecidedWave{
		{PhysicalClusters: []string{"east"}, Approval: placementv1alpha1.ApprovalManual}, {PhysicalClusters: []string{"north", "west"}},
	}}
	step("a first wave that is approved", change(t, v1, "v2", 2, approved), true, "east v1*2, north v1*2, west v1*2")
	one := web("v1", 1, map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{},"south":{}}`})
	step("one wave, and a place that is left", change(t, one, "v2", 1, twoWaves), false, "east v2*1, south v2*1")
}

func TestAStampKeepsWhoHasTheFormerContent(t *testing.T) {
	v2 := change(t, web("v1", 1, map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{}}`}), "v2", 1, twoWaves)
	unit := Unit{"east": PartStays, "west": PartStays, "north": PartArrives}
	targets := Targets(deployment(t), "shop", v2, Source{Unit: unit})
	want := placementv1alpha1.Targets{"east": {}, "west": {Former: true}, "north": {Former: true}}
	if diff := cmp.Diff(want, targets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	v2.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets.String()})
	if again := Targets(deployment(t), "shop", v2, Source{Unit: unit}); !Equal(targets, again) {
		t.Errorf("it is not idempotent: %v, %v", targets, again)
	}
}

func TestWhatCannotBeKeptOrReadGoesNowhere(t *testing.T) {
	kind := deployment(t)
	var b strings.Builder
	for i := range 6000 { // what does not get smaller
		sum := sha256.Sum256([]byte(fmt.Sprint(i)))
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	old := web("v1", 1, map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{}}`})
	old.Object["spec"].(map[string]any)["text"] = b.String()
	obj := web("v2", 1, map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{}}`})
	if err := Stage(old, obj, Content(kind, old.Object), Content(kind, obj.Object), twoWaves); !errors.Is(err, ErrFormerTooLarge) {
		t.Errorf("staged, with %v", err)
	}
	for _, former := range []string{"", "-", "aGVsbG8=", "H4sIAAAAAAAA"} {
		obj.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"west":{"former":true}}`, placementv1alpha1.FormerAnnotation: former})
		if received, err := Received(kind, obj, "west"); err == nil {
			t.Errorf("%q: west gets %v", former, received)
		}
	}
}

func TestARevisionFollowsFromUIDAndVersionAlone(t *testing.T) {
	a := &metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}
	if revision(a) != revision(a.DeepCopy()) || revision(a) == revision(&metav1.ObjectMeta{UID: "u", ResourceVersion: "2"}) {
		t.Error("it does not follow UID and version")
	}
}
