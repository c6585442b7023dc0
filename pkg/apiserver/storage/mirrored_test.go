package storage_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// What a pod makes itself the owner of names the UID that the pod knows.
func TestAMirroredPodHasTheUIDThatItHasBelow(t *testing.T) {
	f := newStore(t, nil)
	const below, above = types.UID("5f0c4a2e-8a57-4c0a-9d3c-2b3f6a1f0e11"), types.UID("0b8a6a44-0d3b-4f57-8c39-9d7c6f2b1a22")
	observed := placementv1alpha1.Target{State: placementv1alpha1.TargetObserved, UID: below}
	for name, c := range map[string]struct {
		target string
		entry  placementv1alpha1.Target
		want   types.UID
	}{
		"mirrored":            {"east", observed, below},
		"by-another":          {"west", observed, above},
		"by-nobodys-syncer":   {"", observed, above},
		"copied":              {"east", placementv1alpha1.Target{UID: below}, above},
		"with-no-uid-at-all":  {"east", placementv1alpha1.Target{State: placementv1alpha1.TargetObserved}, above},
		"with-something-else": {"east", placementv1alpha1.Target{State: placementv1alpha1.TargetObserved, UID: "../x"}, above},
	} {
		p := pod(name)
		p.UID = above
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, placementv1alpha1.TargetsAnnotation, placementv1alpha1.Targets{"east": c.entry}.String())
		ctx := in(t, "shop")
		if c.target != "" {
			ctx = as(ctx, c.target)
		}
		if got := f.create(ctx, t, p).UID; got != c.want {
			t.Errorf("%s: UID %s, want %s", name, got, c.want)
		}
	}
}
