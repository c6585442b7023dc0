package syncer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// stagedWeb is the Deployment harmless with another image, which east has and west has not.
func stagedWeb(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	old := parse(t, harmless)
	old.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{}}`})
	old.SetResourceVersion("1")
	obj, kind := old.DeepCopy(), kindOf(t, old)
	containers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["image"] = "new"
	if err := unstructured.SetNestedSlice(obj.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	rollout := &placementv1alpha1.DecidedRollout{Waves: []placementv1alpha1.DecidedWave{{PhysicalClusters: []string{"east"}}, {PhysicalClusters: []string{"west"}}}}
	if err := stamp.Stage(old, obj, stamp.Content(kind, old.Object), stamp.Content(kind, obj.Object), rollout); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestATargetGetsTheContentThatIsMeantForIt(t *testing.T) {
	obj := stagedWeb(t)
	kind := kindOf(t, obj)
	for target, image := range map[string]string{"east": "new", "west": "i", "elsewhere": "new"} {
		received, withheld := Received(kind, obj, target)
		containers, _, _ := unstructured.NestedSlice(received.Object, "spec", "template", "spec", "containers")
		if got := containers[0].(map[string]any)["image"]; got != image || withheld != "" {
			t.Errorf("%s gets %s (%s), want %s", target, got, withheld, image)
		}
	}
	obj.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"west":{"former":true}}`})
	if _, withheld := Received(kind, obj, "west"); withheld == "" {
		t.Error("without its former content it is not withheld")
	}
}

func TestOnlyWhatHasTheChangeCountsAsUpdated(t *testing.T) {
	obj := stagedWeb(t)
	copies := copiesOf(t, `
- {physicalCluster: east, uid: u1, state: Synced, generation: 2, status: {replicas: 1, updatedReplicas: 1, availableReplicas: 1}}
- {physicalCluster: west, uid: u1, state: Synced, generation: 2, status: {replicas: 1, updatedReplicas: 1, availableReplicas: 1}}
`)
	copies[0].Status.Revision = stamp.Revision(obj)
	status, _ := Summarize(kindOf(t, obj), obj, copies, someTime)
	if status["updatedReplicas"] != int64(1) || status["availableReplicas"] != int64(2) {
		t.Errorf("the status is %v", status)
	}
}
