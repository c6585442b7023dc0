package transition

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// What mirrored objects say of their controllers comes from a physical cluster, which may be hostile.
func TestWhatGoesAlongIsFoundByItsControllersHoweverTheyAreLinked(t *testing.T) {
	t.Parallel()
	pods, _ := workload.Builtin().ByResource(corev1.Resource("pods"))
	mirrored := func(name, controller string) Object {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(name)
		o.SetUID(types.UID(name))
		o.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Observed"}}`})
		if controller != "" {
			o.SetOwnerReferences([]metav1.OwnerReference{{UID: types.UID(controller), Controller: ptr.To(true)}})
		}
		return Object{Kind: pods, Logical: o}
	}
	s := State{Objects: []Object{
		mirrored("nobody's", ""), mirrored("its", "nobody's"), mirrored("of its", "its"), mirrored("of another", "gone"),
		mirrored("itself", "itself"), mirrored("a", "b"), mirrored("b", "a"), mirrored("of a", "a"),
	}}
	want := map[string]bool{"nobody's": true, "its": true, "of its": true}
	for _, o := range s.Objects {
		if got := s.goesAlong(o, "east"); got != want[o.Logical.GetName()] {
			t.Errorf("%s goes along: %t", o.Logical.GetName(), got)
		}
	}
}
