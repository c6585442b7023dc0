package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // into the scheme
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestWhatIsNotAsOnOnePhysicalClusterIsSaid(t *testing.T) {
	t.Parallel()
	const job, budget, scaler = "batch/Job", "policy/PodDisruptionBudget", "autoscaling/HorizontalPodAutoscaler"
	even := map[string]int32{"east": 3, "west": 3}
	for _, c := range []struct {
		name, kind string
		wish       *stamp.Wish
		targets    string
		want       string
	}{
		{"a kind that is divided", "apps/Deployment", &stamp.Wish{Replicas: 6}, `{"east":{"replicas":3},"west":{"replicas":3}}`, ""},
		{"a StatefulSet with ranges", "apps/StatefulSet", &stamp.Wish{Replicas: 2, Ordinals: &stamp.Ordinals{}}, `{"east":{"replicas":1,"ordinals":{"start":0,"revision":1}},"west":{"replicas":1,"ordinals":{"start":1,"revision":1}}}`, ""},
		{"a StatefulSet where there can be none", "apps/StatefulSet", &stamp.Wish{Replicas: 2, Ordinals: &stamp.Ordinals{}}, `{"east":{},"west":{}}`, "is not divided, as on one of east, west its syncer, or its Kubernetes, cannot"},
		{"a StatefulSet that is scaled", "apps/StatefulSet", &stamp.Wish{Replicas: 2, Ordinals: &stamp.Ordinals{Scaled: true}}, `{"east":{},"west":{}}`, "is not divided, as an autoscaler scales it"},
		{"a kind that counts nothing", "/Service", nil, `{"east":{},"west":{}}`, ""},
		{"a Job of which none may run", job, &stamp.Wish{Runs: true, Alone: true}, `{"east":{"state":"Finished"},"west":{}}`, "is not divided: it runs as a whole on west"},
		{"one that began before", job, &stamp.Wish{Runs: true, Alone: true}, `{"east":{},"west":{}}`, "is not divided, as it has begun: each of east, west has"},
		{"a CronJob", "batch/CronJob", &stamp.Wish{Alone: true}, `{"east":{}}`, "is not divided: it runs as a whole on east"},
		{"one that is removed elsewhere first", "batch/CronJob", &stamp.Wish{Alone: true}, `{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`, "is not divided: it runs as a whole on west, once it has ended elsewhere"},
		{"a Job", job, &stamp.Wish{Runs: true, Replicas: 2}, `{"east":{"replicas":1},"west":{"replicas":1}}`, ""},
		{"a Job of which more shall run", job, &stamp.Wish{Runs: true, Replicas: 4}, `{"east":{"replicas":1},"west":{"replicas":1}}`, "has begun, and its parts stay as they are: 2 pods"},
		{"a percentage", budget, &stamp.Wish{Whole: true}, `{"east":{},"west":{}}`, ""},
		{"a budget of what is not divided", budget, &stamp.Wish{Whole: true, Replicas: 5}, `{"east":{},"west":{}}`, "is not divided, as not all that it is about is"},
		{"a budget with no part somewhere", budget, &stamp.Wish{Replicas: 5, Weights: even}, `{"east":{"replicas":3},"west":{"replicas":2}}`, "permits no disruption on east:"},
		{"one that permits too few", budget, &stamp.Wish{Replicas: 1, Ceiling: true, Weights: even}, `{"east":{"replicas":1},"west":{"replicas":0}}`, "permits no disruption on west:"},
		{"one that permits none at all, as is wanted", budget, &stamp.Wish{Replicas: 6, Weights: even}, `{"east":{"replicas":3},"west":{"replicas":3}}`, ""},
		{"one with parts everywhere", budget, &stamp.Wish{Replicas: 4, Weights: even}, `{"east":{"replicas":2},"west":{"replicas":2}}`, ""},
		{"an autoscaler", scaler, &stamp.Wish{Replicas: 2, Max: ptr.To[int32](5)}, `{"east":{"replicas":1,"max":3},"west":{"replicas":1,"max":2}}`, ""},
		{"an autoscaler to one", scaler, &stamp.Wish{Replicas: 1, Max: ptr.To[int32](5)}, `{"east":{"replicas":1,"max":3},"west":{"replicas":1,"max":2}}`, "scales to no fewer than 2 replicas"},
	} {
		group, name, _ := strings.Cut(c.kind, "/")
		kind, ok := workload.Builtin().ByKind(schema.GroupKind{Group: group, Kind: name})
		targets, err := stamp.ParseTargets(c.targets)
		if !ok || err != nil {
			t.Fatal(c.kind, err)
		}
		got := notAsOne(kind, c.wish, targets, "east, west")
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What a unit leaves has no more than is wanted, also where nothing is divided any more.
func TestAPartThatIsLeftHasNoMoreThanIsWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	w := placedWorld()
	w.namespaces[0].Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{},"west":{}}`
	w.placements[0].Spec.Decision.PhysicalClusters[0].Name = "west"
	w.placements[0].Spec.Transition = &placementv1alpha1.Transition{From: []string{"east"}, Phase: placementv1alpha1.TransitionStarting}
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range workload.Builtin().Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	w.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	f := w.start(t)
	if err := f.atoll.Tracker().Add(&w.placements[0]); err != nil {
		t.Fatal(err)
	}
	has := func(parts string) map[string]string {
		return map[string]string{placementv1alpha1.TargetsAnnotation: parts}
	}
	scaler := &autoscaling.HorizontalPodAutoscaler{ObjectMeta: storedMeta(has(`{"east":{"replicas":2,"max":3},"west":{}}`)), Spec: autoscaling.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "x"}, MinReplicas: ptr.To[int32](4), MaxReplicas: 6,
	}}
	lowered := scaler.DeepCopy()
	lowered.Spec.MinReplicas, lowered.Spec.MaxReplicas = ptr.To[int32](1), 2
	deployment := ofImage(storedMeta(has(`{"east":{"replicas":2},"west":{}}`)), "v1")
	deployment.Spec.Replicas = 4
	fewer := deployment.DeepCopy()
	fewer.Spec.Replicas = 1
	for _, c := range []struct {
		resource, kind, want string
		old, sent            runtime.Object
	}{
		{"horizontalpodautoscalers.autoscaling", "HorizontalPodAutoscaler", `{"east":{"replicas":1,"max":2},"west":{}}`, scaler, lowered},
		{"deployments.apps", "Deployment", `{"east":{"replicas":1},"west":{}}`, deployment, fewer},
	} {
		if err := f.write(shop(), attributes(admission.Update, c.resource, c.kind, c.sent, c.old, "", alice)); err != nil {
			t.Fatal(err)
		}
		if got := c.sent.(interface{ GetAnnotations() map[string]string }).GetAnnotations()[placementv1alpha1.TargetsAnnotation]; got != c.want {
			t.Errorf("%s: targets %s, want %s", c.kind, got, c.want)
		}
	}
}
