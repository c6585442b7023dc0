package namespaces

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// What other servers keep in a namespace does not count once its logical cluster goes.
func TestThatALogicalClusterIsGoneIsForTheServerToSay(t *testing.T) {
	t.Parallel()
	shop := func(deleting bool) *metav1.PartialObjectMetadata {
		lc := &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: tenancyv1alpha1.SchemeGroupVersion.String(), Kind: "LogicalCluster"},
			ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		}
		if deleting {
			lc.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return lc
	}
	for name, c := range map[string]struct {
		live  []runtime.Object
		stays bool
	}{
		"the informer does not know it yet": {[]runtime.Object{shop(false)}, true},
		"it is being deleted":               {[]runtime.Object{shop(true)}, false},
		"it is gone":                        {nil, false},
	} {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		clusters := controller.NewInformer("logicalclusters", &tenancyv1alpha1.LogicalCluster{}, controller.ListWatch{
			List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &tenancyv1alpha1.LogicalClusterList{}, nil
			},
		}, controller.InformerOptions[*tenancyv1alpha1.LogicalCluster]{}) // it does not run: it has nothing
		controller := &Controller{Config: Config{Client: metadatafake.NewSimpleMetadataClient(scheme, c.live...), Clusters: clusters}}
		if stays, err := controller.stays(t.Context(), "shop"); err != nil || stays != c.stays {
			t.Errorf("%s: stays %v, %v", name, stays, err)
		}
	}
}
