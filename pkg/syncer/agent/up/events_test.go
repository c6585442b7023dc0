package up

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

func TestAnEventNamesNothingOfAnotherLogicalCluster(t *testing.T) {
	foreign := viewtest.Object("Namespace", "", "theirs", "n2")
	foreign.SetAnnotations(map[string]string{
		logicalcluster.AnnotationKey: "other", placementv1alpha1.TargetsAnnotation: `{"east":{}}`,
		placementv1alpha1.PhysicalNamespaceAnnotation: "other-theirs-1",
	})
	foreignPod := viewtest.Object("Pod", "theirs", "secret-app", "o")
	foreignPod.SetAnnotations(map[string]string{
		logicalcluster.AnnotationKey: "other", placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Observed","uid":"below-o"}}`,
	})
	mine := viewtest.Logical("Pod", "web", "app", "p", `{"east":{}}`)
	mirrored := viewtest.Mirror("app-1", "m", "below-m")
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), foreign, foreignPod, mine, mirrored}, []runtime.Object{viewtest.CopyOf(mine, "below-p")})
	f.Watch(t)

	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "e", "uid": "e1"},
		"involvedObject": map[string]any{"kind": "Pod", "namespace": viewtest.PhysicalSpace, "name": "app", "uid": "below-p"},
		"related":        map[string]any{"kind": "Pod", "namespace": viewtest.PhysicalSpace, "name": "any", "uid": "below-o"},
		"reason":         "Scheduled",
		"message":        "Successfully assigned " + viewtest.PhysicalSpace + "/app, beside other-theirs-1, to node-1",
	}}
	about := func(uid string) (syncer.Owner, bool) {
		return f.namesIn("shop", "below-p").Owner(types.UID(uid))
	}
	if who, ok := about("below-o"); ok {
		t.Errorf("it finds %s of another logical cluster", who.Name)
	}
	who, ok := about("below-p")
	if !ok {
		t.Fatal("the object of the copy is not found")
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata":       map[string]any{"name": "e", "namespace": "web", "annotations": map[string]any{placementv1alpha1.UIDAnnotation: "e1"}},
		"involvedObject": map[string]any{"kind": "Pod", "namespace": "web", "name": "app", "uid": "p"},
		"reason":         "Scheduled",
		"message":        "Successfully assigned web/app, beside other-theirs-1, to east",
	}
	got := syncer.EventUp(event, "web", who, f.namesIn("shop", "below-p")).Object
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if node := f.namesIn("shop", "below-m").Node; node != "" {
		t.Errorf("a mirrored pod has the node that it has below, not %s", node)
	}
}
