package syncer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhatAUserChangesOnAMirroredPodIsChangedBelow(t *testing.T) {
	t.Parallel()
	base := func(wanted string) Observation {
		s := observationOf(t,
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n, uid: p1, labels: {app: web, tier: front, atoll.dev/managed-by: cp}}\nspec: {nodeName: n1}\n",
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web, uid: l1}\nspec: {nodeName: n1}\n")
		if wanted != "" {
			s.Logical.SetAnnotations(map[string]string{placementv1alpha1.WantedAnnotation: wanted})
		}
		return s
	}
	for name, c := range map[string]struct {
		wanted string
		want   map[string]any
	}{
		"a label changed, one taken off": {`{"labels":{"app":"old","tier":null}}`, map[string]any{"labels": map[string]any{"app": "old", "tier": nil}}},
		"an annotation":                  {`{"annotations":{"note":"x"}}`, map[string]any{"annotations": map[string]any{"note": "x"}}},
		"what is so already":             {`{"labels":{"app":"web","gone":null}}`, nil},
		"a key of the system":            {`{"labels":{"atoll.dev/managed-by":null}}`, nil},
		"nothing":                        {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := base(c.wanted)
			r := only(Observe(s))
			if c.want == nil {
				if r.Verb == Patch {
					t.Fatalf("patches %v", r.Object)
				}
				if r.Object != nil && r.Object.GetAnnotations()[placementv1alpha1.WantedAnnotation] != "" {
					t.Error("the note stays")
				}
				return
			}
			if r.Verb != Patch {
				t.Fatalf("does %s", r.Verb)
			}
			c.want["uid"] = string(s.Physical.GetUID())
			if diff := cmp.Diff(map[string]any{"metadata": c.want}, r.Object.Object); diff != "" {
				t.Error(diff)
			}
			if put := only(Decline(s)); put.Verb != UpdateUp || put.Object.GetAnnotations()[placementv1alpha1.WantedAnnotation] != "" {
				t.Errorf("a refusal leads to %+v", put)
			}
		})
	}
}
