package stamp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhatAUserChangesOnWhatIsMirroredIsNoted(t *testing.T) {
	t.Parallel()
	labelled := func(labels map[string]string, noted string) *metav1.ObjectMeta {
		o := &metav1.ObjectMeta{Labels: labels}
		if noted != "" {
			o.Annotations = map[string]string{placementv1alpha1.WantedAnnotation: noted}
		}
		return o
	}
	for name, c := range map[string]struct {
		old, obj *metav1.ObjectMeta
		want     string
	}{
		"nothing changed":      {labelled(map[string]string{"a": "1"}, ""), labelled(map[string]string{"a": "1"}, ""), ""},
		"changed, taken off":   {labelled(map[string]string{"a": "1", "b": "2"}, ""), labelled(map[string]string{"a": "3"}, ""), `{"labels":{"a":"3","b":null}}`},
		"added to a note":      {labelled(nil, `{"annotations":{"x":"y"}}`), labelled(map[string]string{"a": "1"}, `{"annotations":{"x":"y"}}`), `{"annotations":{"x":"y"},"labels":{"a":"1"}}`},
		"changed again":        {labelled(map[string]string{"a": "1"}, `{"labels":{"a":"1"}}`), labelled(nil, `{"labels":{"a":"1"}}`), `{"labels":{"a":null}}`},
		"a key of the system":  {labelled(nil, ""), labelled(map[string]string{"atoll.dev/x": "1"}, ""), ""},
		"what is noted, stays": {labelled(nil, `{"labels":{"a":"1"}}`), labelled(nil, `{"labels":{"a":"1"}}`), `{"labels":{"a":"1"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Wanted(c.obj, c.old)
			if diff := cmp.Diff(c.want, c.obj.Annotations[placementv1alpha1.WantedAnnotation]); diff != "" {
				t.Error(diff)
			}
		})
	}
}
