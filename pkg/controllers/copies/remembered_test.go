package copies

import (
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Where a CronJob goes, it goes on from what its status says, and is begun as soon as the place
// that it leaves is taken off.
func TestAPlaceThatACronJobLeftIsTakenOffOnceItsLastRunIsInTheStatus(t *testing.T) {
	cronJobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}
	for name, c := range map[string]struct {
		remembered string
		off        bool
	}{
		"it is not yet":  {"", false},
		"an earlier one": {"2026-01-01T11:58:00Z", false},
		"it is":          {"2026-01-01T11:59:00Z", true},
		"a later one is": {"2026-01-01T12:00:00Z", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}}
			anObject(`{"east":{"state":"Removing"},"west":{"state":"Waiting"}}`, false).(*metav1.ObjectMeta).DeepCopyInto(&object.ObjectMeta)
			object.Namespace, object.Name = "web", "tick"
			metadata := metadatafake.NewSimpleMetadataClient(scheme, object)
			whole := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "batch/v1", "kind": "CronJob", "metadata": map[string]any{"namespace": "web", "name": "tick", "uid": "u"},
				"status": map[string]any{"lastScheduleTime": c.remembered},
			}}
			left := aCopy("east", "u", placementv1alpha1.CopyRemoved)
			left.Namespace, left.Name, left.UID = "web", syncer.CopyName(cronJobs.GroupResource(), "tick", "east"), "c"
			left.Annotations = map[string]string{logicalcluster.AnnotationKey: "shop"}
			left.Spec.Object.Group, left.Spec.Object.Resource, left.Spec.Object.Name = "batch", "cronjobs", "tick"
			left.Status.Observed = &runtime.RawExtension{Raw: []byte(`{"lastScheduleTime":"2026-01-01T11:59:00Z"}`)}
			client := fake.NewSimpleClientset(left)
			s := New(Config{
				Kinds: workload.Builtin(), Client: client, MetadataClient: metadata,
				Dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), whole),
				Copies:  known(t, &placementv1alpha1.Copy{}, &placementv1alpha1.CopyList{Items: []placementv1alpha1.Copy{*left}}, copyindex.Indexers()),
			})
			result, err := s.reconcile(t.Context(), key{Resource: cronJobs, Object: controller.Request{Cluster: "shop", Namespace: "web", Name: "tick"}})
			if err != nil {
				t.Fatal(err)
			}
			live, err := metadata.Resource(cronJobs).Namespace("web").Get(t.Context(), "tick", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, on := stamp.TargetsOf(live.Annotations)["east"]; on == c.off {
				t.Errorf("targets %s", live.Annotations[placementv1alpha1.TargetsAnnotation])
			}
			_, err = client.PlacementV1alpha1().Copies("web").Get(t.Context(), left.Name, metav1.GetOptions{})
			if gone := apierrors.IsNotFound(err); gone != c.off {
				t.Errorf("the Copy is gone: %v, %v", gone, err)
			}
			if again := result.RequeueAfter > 0; again == c.off {
				t.Errorf("it is looked at again: %v", again)
			}
		})
	}
}
