package status

import (
	"context"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

var manifests = fleetv1alpha1.SchemeGroupVersion.WithResource("manifests")

// east is a physical cluster whose syncer reports features.
func east(features ...string) *fleetv1alpha1.PhysicalCluster {
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
	pc.Status.Version, pc.Status.Features = "v1.37.1", features
	return pc
}

func TestAManifestIsNotKnownToBeAppliedAsLongAsTheSyncerIsFromBeforeThose(t *testing.T) {
	m := object(manifests, "Manifest", "class")
	m.SetAnnotations(map[string]string{logicalcluster.AnnotationKey: "root", "placement.atoll.dev/targets": `{"east":{}}`})
	s, client := start(t, m) // without a Copy: who does not see it makes none
	changes := watch.NewFake()
	s.PhysicalClusters = controller.NewInformer("physicalclusters", &fleetv1alpha1.PhysicalCluster{}, controller.ListWatch{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &fleetv1alpha1.PhysicalClusterList{Items: []fleetv1alpha1.PhysicalCluster{*east(fleetv1alpha1.FeatureOrdinals)}}, nil
		},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return changes, nil },
	}, controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{})
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: manifests.GroupVersion().String(), Kind: "Manifest"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: "7", Annotations: m.GetAnnotations(),
	}}
	s.Metadata = controller.NewMetadata(metadatafake.NewSimpleMetadataClient(scheme, partial), []schema.GroupVersionResource{manifests}, nil)
	go s.PhysicalClusters.Run(t.Context())
	go s.Metadata.Run(t.Context())
	if s.PhysicalClusters.WaitForSync(t.Context()) != nil || s.Metadata.WaitForSync(t.Context()) != nil {
		t.Fatal("the informers have no list")
	}
	go s.Run(t.Context())

	applied := func(want string) {
		t.Helper()
		var got string
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
			obj, err := client.Resource(manifests).Namespace("web").Get(ctx, "class", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
			if len(conditions) == 1 {
				c := conditions[0].(map[string]any)
				got = c["type"].(string) + "=" + c["status"].(string) + " " + c["reason"].(string)
			}
			return got == want, nil
		})
		if err != nil {
			t.Errorf("it is %q, not %q", got, want)
		}
	}
	applied("Applied=Unknown SyncerTooOld")
	changes.Modify(east(fleetv1alpha1.FeatureManifests, fleetv1alpha1.FeatureOrdinals))
	applied("Applied=False NotApplied")
	changes.Modify(east(fleetv1alpha1.FeatureOrdinals)) // a downgrade
	applied("Applied=Unknown SyncerTooOld")
}
