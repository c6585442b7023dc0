package syncer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func part(n ...int32) (t placementv1alpha1.Target) {
	for i, to := range []**int32{&t.Replicas, &t.Max, &t.Completions} {
		if i < len(n) && n[i] >= 0 {
			*to = &n[i]
		}
	}
	return t
}

func TestACopyHasItsPart(t *testing.T) {
	deployment, scaler := schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
	job, budget := schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}
	for _, c := range []struct {
		name   string
		kind   schema.GroupKind
		spec   string
		target placementv1alpha1.Target
		bounds *Bounds
		omit   bool
		want   string
	}{
		{"replicas", deployment, `{replicas: 6}`, part(4), nil, false, `{replicas: 4}`},
		{"all replicas", deployment, `{replicas: 6}`, part(), nil, false, `{replicas: 6}`},
		{"whoever scales it sets them", deployment, `{replicas: 6}`, part(4), &Bounds{2, 3}, true, `{}`},
		{"within bounds", deployment, `{replicas: 6}`, part(4), &Bounds{2, 3}, false, `{replicas: 3}`},
		{"not from nothing", deployment, `{replicas: 1}`, part(0), &Bounds{1, 3}, false, `{replicas: 1}`},
		{"no room", deployment, `{replicas: 1}`, part(1), &Bounds{0, 0}, true, `{replicas: 0}`},
		{"bounds", scaler, `{minReplicas: 2, maxReplicas: 9}`, part(1, 4), nil, false, `{minReplicas: 1, maxReplicas: 4}`},
		{"bounds without room", scaler, `{minReplicas: 2, maxReplicas: 9}`, part(0, 0), nil, false, `{minReplicas: 1, maxReplicas: 1}`},
		{"all bounds", scaler, `{maxReplicas: 9}`, part(), nil, false, `{maxReplicas: 9}`},
		{"a Job", job, `{parallelism: 4, completions: 9}`, part(2, -1, 5), nil, false, `{parallelism: 2, completions: 5}`},
		{"a Job that knows when it is done", job, `{parallelism: 4}`, part(2), nil, false, `{parallelism: 2}`},
		{"at least", budget, `{minAvailable: 4}`, part(2), nil, false, `{minAvailable: 2}`},
		{"at most", budget, `{maxUnavailable: 4}`, part(0), nil, false, `{maxUnavailable: 0}`},
		{"a percentage", budget, `{maxUnavailable: "10%"}`, part(), nil, false, `{maxUnavailable: "10%"}`},
	} {
		kind, ok := workload.Builtin().ByKind(c.kind)
		if !ok {
			t.Fatal(c.kind)
		}
		obj, want := parse(t, "kind: X\nspec: "+c.spec), parse(t, "kind: X\nspec: "+c.want)
		setParts(obj.Object, Placing{Ref: Ref{Kind: kind}, Target: c.target, Bounds: c.bounds, OmitReplicas: c.omit})
		if diff := cmp.Diff(want.Object, obj.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAJobOfWhichAPartIsLostFails(t *testing.T) {
	for _, c := range []struct{ targets, want string }{
		{`{"east":{"replicas":2,"completions":5},"west":{"replicas":2,"completions":4}}`, "Complete"},
		{`{"east":{"replicas":2,"completions":5}}`, "Failed"},
		{`{"east":{}}`, "Complete"},
	} {
		obj := parse(t, "{kind: Job, metadata: {}, spec: {completions: 9}}")
		obj.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets})
		status := parse(t, `{kind: X, completionTime: now, conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}`).Object
		failLost(obj, status)
		if !conditionIs(status, c.want, "True") || len(list(status, "conditions")) != 2 || (c.want == "Failed") != (status["completionTime"] == nil) {
			t.Errorf("%s: %v", c.targets, status)
		}
	}
}
