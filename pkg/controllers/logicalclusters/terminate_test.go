package logicalclusters

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
)

// An informer may know a logical cluster that was deleted, while its successor of the
// same name is in use: nothing in that is deleted.
func TestNothingIsDeletedInTheSuccessorOfALogicalCluster(t *testing.T) {
	t.Parallel()
	shop := func(uid types.UID, deleting bool) *tenancyv1alpha1.LogicalCluster {
		lc := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: uid, Finalizers: []string{ContentFinalizer}}}
		if deleting {
			lc.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return lc
	}
	for name, live := range map[string][]runtime.Object{"made again": {shop("second", false)}, "made again and deleted": {shop("second", true)}, "gone": nil} {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		metadata := metadatafake.NewSimpleMetadataClient(scheme)
		client := fake.NewSimpleClientset(live...)
		c := &Controller{Config: Config{Client: client, MetadataClient: metadata}}
		if _, err := c.terminate(t.Context(), shop("first", true)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(metadata.Actions()) != 0 {
			t.Errorf("%s: it was asked for content: %v", name, metadata.Actions())
		}
	}
}
