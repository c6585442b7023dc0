package syncer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// leftToOthers is what of replicas is left to whoever scales a copy.
const leftToOthers = -1

// replicasDown are the replicas that are applied.
func replicasDown(t *testing.T, in Input) int64 {
	t.Helper()
	p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}
	desired, _ := Transform(in.Logical, p.placing())
	got, ok, err := unstructured.NestedInt64(desired.Object, "spec", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return leftToOthers
	}
	return got
}

// An object that wants three and was 20 elsewhere begins so, and is left to the autoscaler.
func TestACopyKeepsWhatItWasStartedWithUntilItIsScaled(t *testing.T) {
	const start, none = `{"east":{"start":{"replicas":20,"wish":3}}}`, `{"east":{"start":{"replicas":0,"wish":3}}}`
	waits := func(in *Input) { in.ScalerWaits = true }
	there := func(in *Input) { in.Scaled = true }
	other := func(in *Input) {
		in.Scaled = true
		in.Physical.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "kube-controller-manager", Operation: "Update", Subresource: "scale", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
		}})
	}
	removed := func(in *Input) { other(in); in.Scaled, in.ScalerWaits = false, true }
	for _, c := range []struct {
		name    string
		targets string
		has     int64 // below; -1: nothing
		change  func(*Input)
		want    int64
	}{
		{"it is made", start, -1, nil, 20},
		{"it is made before the autoscaler is known to wait", start, -1, waits, 20},
		{"it is made by the autoscaler's leave", start, -1, there, 20},
		{"it is there, and the autoscaler waits", start, 3, waits, 20},
		{"somebody scales it meanwhile", start, 7, waits, 20},
		{"the autoscaler comes", start, 20, there, 20},
		{"and has scaled it", start, 12, other, leftToOthers},
		{"and waits again", start, 12, removed, 20},
		{"it comes before all were started", start, 15, there, 15},
		{"it was made without, and the autoscaler is there", start, 3, there, 3},
		{"the autoscaler is gone for good", start, 20, nil, 3},
		{"more than that, and nobody says why", start, 40, there, 3},
		{"another number is wanted", `{"east":{"start":{"replicas":20,"wish":5}}}`, 20, there, 3},
		{"nothing to start with", `{"east":{}}`, 20, there, 3},
		{"none, as elsewhere", none, -1, nil, 0},
		{"none still, the autoscaler waits", none, 0, waits, 0},
		{"none still, the autoscaler comes", none, 0, there, 0},
		{"some, as it has scaled it", none, 2, other, leftToOthers},
		{"a part counts first", `{"east":{"replicas":4,"start":{"replicas":20,"wish":3}}}`, -1, nil, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := situation{kind: "Deployment", logical: "live", copy: "Synced"}
			if c.has >= 0 {
				s.physical = "old"
			}
			in := s.input()
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets})
			set := func(obj *unstructured.Unstructured, n int64) {
				if err := unstructured.SetNestedField(obj.Object, n, "spec", "replicas"); err != nil {
					t.Fatal(err)
				}
			}
			set(in.Logical, 3)
			if c.has >= 0 {
				set(in.Physical, c.has)
			}
			if c.change != nil {
				c.change(&in)
			}
			if got := replicasDown(t, in); got != c.want {
				t.Errorf("%d replicas, want %d", got, c.want)
			}
		})
	}
}

// Who scales to nothing what a HorizontalPodAutoscaler scales stops it, as in any cluster, and starts it by another number.
func TestWhatIsScaledIsStoppedByItsUser(t *testing.T) {
	byOthers := []metav1.ManagedFieldsEntry{{
		Manager: "kube-controller-manager", Operation: "Update", Subresource: "scale", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
	}}
	for name, c := range map[string]struct {
		targets   string
		wants     int64
		has       int64 // below; -1: nothing
		owner     []metav1.ManagedFieldsEntry
		unscaled  bool
		something bool // is made of nothing
		bounds    *Bounds
		want      int64
	}{
		"it is scaled":  {wants: 3, has: 20, owner: byOthers, want: leftToOthers},
		"it is stopped": {wants: 0, has: 20, owner: byOthers, want: 0},
		"it is stopped, and nobody scaled it yet": {wants: 0, has: 3, want: 0},
		"it is made so":                               {wants: 0, has: -1, want: 0},
		"it stays so":                                 {wants: 0, has: 0, want: 0},
		"it is started":                               {wants: 3, has: 0, want: 3},
		"some are made of nothing":                    {wants: 0, has: 20, owner: byOthers, something: true, want: leftToOthers},
		"a part of none":                              {targets: `{"east":{"replicas":0},"west":{"replicas":0}}`, wants: 0, has: 2, owner: byOthers, bounds: &Bounds{1, 4}, want: 0},
		"a part of some, which is none":               {targets: `{"east":{"replicas":0},"west":{"replicas":1}}`, wants: 1, has: 0, bounds: &Bounds{1, 4}, want: 1},
		"it was started elsewhere":                    {targets: `{"east":{"start":{"replicas":20,"wish":0}}}`, wants: 0, has: 20, want: 0},
		"nothing scales it, and somebody did by hand": {wants: 0, has: 20, owner: byOthers, unscaled: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{kind: "Deployment", logical: "live", copy: "Synced"}
			if c.has >= 0 {
				s.physical = "old"
			}
			in := s.input()
			in.Scaled, in.ScalesFromNothing, in.Bounds = !c.unscaled, c.something, c.bounds
			if c.targets == "" {
				c.targets = `{"east":{}}`
			}
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets})
			setNested(in.Logical.Object, c.wants, "spec", "replicas")
			if c.has >= 0 {
				setNested(in.Physical.Object, c.has, "spec", "replicas")
				in.Physical.SetManagedFields(c.owner)
			}
			if got := replicasDown(t, in); got != c.want {
				t.Errorf("%d replicas, want %d", got, c.want)
			}
		})
	}
}

func TestWhatScalesFromNothing(t *testing.T) {
	now := metav1.Now()
	for manifest, want := range map[string]bool{
		"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3}}":                 false,
		"{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, spec: {minReplicas: 2, maxReplicas: 3}}": false,
		"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {minReplicas: 0, maxReplicas: 3}}": true,
		"{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, spec: {minReplicaCount: 1}}":                      true,
	} {
		scaler := parse(t, manifest)
		if got := ScalesFromNothing([]*unstructured.Unstructured{scaler}); got != want {
			t.Errorf("%s: %v", manifest, got)
		}
		if scaler.SetDeletionTimestamp(&now); ScalesFromNothing([]*unstructured.Unstructured{scaler}) {
			t.Errorf("%s: also while it is deleted", manifest)
		}
	}
}

func TestAnAutoscalerWaitsWhereItHasNoCopyYet(t *testing.T) {
	for targets, want := range map[string]bool{
		`{"west":{}}`:                     false,
		`{"east":{},"west":{}}`:           false,
		`{"east":{"state":"Waiting"}}`:    true,
		`{"east":{"state":"Removing"}}`:   true,
		`{"west":{"state":"Waiting"}}`:    false,
		`{"east":{},"west":{"state":""}}`: false,
	} {
		scaler := &unstructured.Unstructured{Object: map[string]any{}}
		scaler.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets})
		if got := ScalerWaits("east", []*unstructured.Unstructured{scaler}); got != want {
			t.Errorf("%s: %v", targets, got)
		}
		now := metav1.Now()
		if scaler.SetDeletionTimestamp(&now); ScalerWaits("east", []*unstructured.Unstructured{scaler}) {
			t.Errorf("%s: it is about to go", targets)
		}
	}
}
