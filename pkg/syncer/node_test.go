package syncer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAPodOfAUserRunsOnTheNodeThatItsPhysicalClusterIs(t *testing.T) {
	const scheduled = `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}]}`
	says := func(cluster string, uid types.UID, status string) *placementv1alpha1.Copy {
		c := &placementv1alpha1.Copy{}
		c.Spec.PhysicalCluster, c.Spec.Object.UID = cluster, uid
		c.Status.Observed = &runtime.RawExtension{Raw: []byte(status)}
		return c
	}
	for _, c := range []struct {
		name    string
		targets string
		copies  []*placementv1alpha1.Copy
		edit    func(*unstructured.Unstructured)
		want    string
	}{
		{name: "scheduled below", targets: `{"east":{}}`, copies: []*placementv1alpha1.Copy{says("east", "u", scheduled)}, want: "east"},
		{name: "running below", targets: `{"east":{}}`, copies: []*placementv1alpha1.Copy{says("east", "u", `{"phase":"Running"}`)}, want: "east"},
		{name: "not scheduled", targets: `{"east":{}}`, copies: []*placementv1alpha1.Copy{says("east", "u", `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False"}]}`)}},
		{name: "not reported", targets: `{"east":{}}`},
		{name: "its predecessor", targets: `{"east":{}}`, copies: []*placementv1alpha1.Copy{says("east", "before", scheduled)}},
		{name: "on two", targets: `{"east":{},"west":{}}`, copies: []*placementv1alpha1.Copy{says("east", "u", scheduled), says("west", "u", scheduled)}},
		{name: "moving", targets: `{"east":{},"west":{"state":"Removing"}}`, copies: []*placementv1alpha1.Copy{says("east", "u", scheduled)}},
		{name: "what was mirrored", targets: `{"east":{"state":"Observed","uid":"p"}}`, copies: []*placementv1alpha1.Copy{says("east", "u", scheduled)}},
		{name: "bound", targets: `{"east":{}}`, copies: []*placementv1alpha1.Copy{says("east", "u", scheduled)}, edit: func(o *unstructured.Unstructured) {
			setNested(o.Object, "north", "spec", "nodeName")
		}},
		{name: "being deleted", targets: `{"east":{}}`, copies: []*placementv1alpha1.Copy{says("east", "u", scheduled)}, edit: func(o *unstructured.Unstructured) {
			o.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := parse(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web, uid: u}\nspec: {}\n")
			pod.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets})
			if c.edit != nil {
				c.edit(pod)
			}
			if got := NodeOf(kindOf(t, pod), pod, c.copies); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
