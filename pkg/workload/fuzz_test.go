package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzObjects: objects of custom kinds have any shape, and those that physical clusters tell of
// too. Whatever is read of one, it stays as it is.
func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":-1,"template":{"spec":{"containers":[1,{"resources":{"requests":{"cpu":"x"}}}],"volumes":{}}}}}`))
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":[],"selector":{"matchLabels":{"a":1}}}}`))
	f.Add([]byte(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","spec":{"minAvailable":"200%","maxUnavailable":1e300,"selector":null}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":[]},"spec":{"ephemeralContainers":[null],"imagePullSecrets":"a"}}`))
	kinds := Builtin().Kinds()
	f.Fuzz(func(t *testing.T, data []byte) {
		obj := &unstructured.Unstructured{}
		if obj.UnmarshalJSON(data) != nil {
			return
		}
		before := runtime.DeepCopyJSON(obj.Object)
		for _, kind := range kinds {
			if len(kind.Replicas) > 0 {
				Replicas(kind, obj.Object)
			}
			if kind.Role == Placed && kind.PodTemplate != nil {
				_, _ = Requests(kind, obj.Object)
			}
			for _, template := range PodTemplates(kind, obj.Object) {
				_, _ = PodRequests(template)
			}
			TemplatePaths(kind, obj.Object, func([]string, any) {})
			Selector(kind, obj.Object)
			PodLabels(kind, obj.Object)
			Scaled(kind, obj.Object)
			Led(kind, obj.Object)
			Claims(kind, obj.Object, "data-a-0")
			StorageClasses(kind, obj.Object)
			VolumeClaims(kind, obj.Object)
			References(kind, obj.Object)
			Tokens(kind, obj.Object, nil)
			RunsOf(kind, obj.Object)
			Ended(kind, obj.Object)
		}
		BudgetField(obj.Object)
		Bounds(obj.Object)
		Run(obj.Object)
		if !equalJSON(before, obj.Object) {
			t.Errorf("%v was changed to %v", before, obj.Object)
		}
	})
}

func equalJSON(a, b map[string]any) bool {
	x, y := unstructured.Unstructured{Object: a}, unstructured.Unstructured{Object: b}
	one, err := x.MarshalJSON()
	two, err2 := y.MarshalJSON()
	return err == nil && err2 == nil && string(one) == string(two)
}
