package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestOnlyACopyThatSaysMoreIsLookedAt(t *testing.T) {
	raw := func(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }
	copied := func(c placementv1alpha1.CopyStatus) *placementv1alpha1.Copy {
		return &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}, Status: c}
	}
	pending := copied(placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, Reason: "New"})
	synced := copied(placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced})
	generation := copied(placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, ObservedGeneration: 1})
	ready := copied(placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, ObservedGeneration: 1, Observed: raw(`{"readyReplicas":1}`)})
	unready := copied(placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, ObservedGeneration: 1, Observed: raw(`{}`)})
	nowhere := ready.DeepCopy()
	nowhere.Status.NoEndpoints = []string{"web"}
	removed := copied(placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyRemoved, ObservedGeneration: 1, Observed: raw(`{}`)})
	west := ready.DeepCopy()
	west.Spec.PhysicalCluster = "west"
	for name, tc := range map[string]struct {
		old, new *placementv1alpha1.Copy
		want     bool
	}{
		"a new one says nothing":        {nil, pending, false},
		"one that was there all along":  {nil, ready, true},
		"applied, and nothing observed": {pending, synced, false},
		"the generation is observed":    {synced, generation, true},
		"the first status":              {generation, ready, true},
		"another status":                {ready, unready, true},
		"the same status":               {ready, ready.DeepCopy(), false},
		"it leads to no pod any more":   {ready, nowhere, true},
		"it leads to no pod as before":  {nowhere, nowhere.DeepCopy(), false},
		"another target":                {ready, west, true},
		"it is removed":                 {unready, removed, true},
		"it is gone and had a status":   {ready, nil, true},
		"it is gone and had none":       {pending, nil, false},
	} {
		if got := saysMore(tc.old, tc.new); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestWhatIsMirroredIsNotSummarized(t *testing.T) {
	with := func(targets string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: targets}}}
	}
	for targets, want := range map[string]bool{
		``:            false,
		`{"east":{}}`: true,
		`{"east":{"state":"Observed","uid":"u"}}`: false,
		`{"east":{"state":"Removing"}}`:           true,
	} {
		if got := targetsOf(with(targets)) != ""; got != want {
			t.Errorf("%s: %v, want %v", targets, got, want)
		}
	}
}
