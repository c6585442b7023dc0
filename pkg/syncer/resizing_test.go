package syncer

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// resizedBy notes in the managed fields of a pod who wrote the resources of a container.
func resizedBy(pod *unstructured.Unstructured, manager, subresource, name string) {
	fields, err := json.Marshal(map[string]any{"f:spec": map[string]any{"f:containers": map[string]any{`k:{"name":"` + name + `"}`: map[string]any{"f:resources": map[string]any{"f:requests": map[string]any{"f:cpu": map[string]any{}}}}}}})
	if err != nil {
		panic(err)
	}
	of := &metav1.FieldsV1{}
	of.SetRawBytes(fields)
	pod.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource, FieldsV1: of}})
}

func TestWhatIsResizedAboveIsResizedBelow(t *testing.T) {
	const (
		head  = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web, uid: l1}\nspec:\n  containers:\n  - {name: side}\n"
		small = "  - {name: c, resources: {requests: {cpu: 100m, memory: 64Mi}}}\n"
		large = "  - {name: c, resources: {requests: {cpu: 300m, memory: 64Mi}, limits: {memory: 1Gi}}}\n"
		equal = "  - {name: c, resources: {requests: {cpu: 0.3, memory: 65536Ki, ephemeral-storage: 1Gi}, limits: {memory: 1024Mi, cpu: 1}}}\n"
	)
	by := func(text, manager, subresource, name string) *unstructured.Unstructured {
		pod := parse(t, text)
		resizedBy(pod, manager, subresource, name)
		return pod
	}
	going := func(pod *unstructured.Unstructured) *unstructured.Unstructured {
		pod.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		return pod
	}
	resources := map[string]any{"requests": map[string]any{"cpu": "300m"}, "limits": map[string]any{"memory": "1Gi"}}
	for name, c := range map[string]struct {
		above, below *unstructured.Unstructured
		resized      bool
	}{
		"somebody resized it above":             {parse(t, head+large), parse(t, head+small), true},
		"and before":                            {parse(t, head+large), by(head+small, WantedManager, "resize", "c"), true},
		"it has that, in other words":           {parse(t, head+large), parse(t, head+equal), false},
		"somebody resized it below":             {parse(t, head+large), by(head+small, "autoscaler", "resize", "c"), false},
		"somebody resized another one there":    {parse(t, head+large), by(head+small, "autoscaler", "resize", "side"), true},
		"its controller made it so, as all are": {parse(t, head+large), by(head+small, "kube-controller-manager", "", "c"), true},
		"there is no such container below":      {parse(t, head+large), parse(t, head), false},
		"the pod goes above":                    {going(parse(t, head+large)), parse(t, head+small), false},
		"the pod goes below":                    {parse(t, head+large), going(parse(t, head+small)), false},
		"there is none above":                   {nil, parse(t, head+small), false},
	} {
		t.Run(name, func(t *testing.T) {
			patch := ResizedBelow(kindOf(t, c.below), c.above, c.below)
			if (patch != nil) != c.resized {
				t.Fatalf("%v", patch)
			}
			if patch == nil {
				return
			}
			want := map[string]any{"metadata": map[string]any{"uid": "l1"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "resources": resources}}}}
			if diff := cmp.Diff(want, patch.Object); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
