package syncer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// An object that wants three and was 20 elsewhere begins so, and is left to the autoscaler.
func TestACopyKeepsWhatItWasStartedWithUntilItIsScaled(t *testing.T) {
	const start, none = `{"east":{"start":{"replicas":20,"wish":3}}}`, `{"east":{"start":{"replicas":0,"wish":3}}}`
	const left = -1 // to whoever scales it
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
		{"and has scaled it", start, 12, other, left},
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
		{"some, as it has scaled it", none, 2, other, left},
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
			p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}
			desired, _ := Transform(in.Logical, p.placing())
			got, ok, err := unstructured.NestedInt64(desired.Object, "spec", "replicas")
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				got = left
			}
			if got != c.want {
				t.Errorf("%d replicas, want %d", got, c.want)
			}
		})
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
