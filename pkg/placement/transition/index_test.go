package transition

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// What the index finds is what a look at each object finds.
func TestTheIndexFindsWhatSelectorsSelect(t *testing.T) {
	t.Parallel()
	labels := rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "of"}), rapid.SampledFrom([]string{"a", "b"}), 0, 3)
	deployments, _ := workload.Builtin().ByResource(appsv1.Resource("deployments"))
	rapid.Check(t, func(t *rapid.T) {
		var s State
		for i := range rapid.IntRange(0, 6).Draw(t, "objects") {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetName(fmt.Sprint(i))
			o.SetUID(types.UID(fmt.Sprint(i)))
			if err := unstructured.SetNestedStringMap(o.Object, labels.Draw(t, "labels"), "spec", "template", "metadata", "labels"); err != nil {
				t.Fatal(err)
			}
			s.Objects = append(s.Objects, Object{Kind: deployments, Logical: o})
		}
		selector := labels.Draw(t, "selector")
		var want []int
		for i, o := range s.Objects {
			if len(selector) > 0 && selects(selector, o) {
				want = append(want, i)
			}
		}
		if got := s.selected(selector); !slices.Equal(got, want) {
			t.Errorf("%v selects %v, want %v", selector, got, want)
		}
	})
}
