package logicalclusters

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
)

// What a logical cluster uses was said since the controller read it.
func TestAStatusLeavesTheUsageAlone(t *testing.T) {
	t.Parallel()
	shop := func(objects int64) *tenancyv1alpha1.LogicalCluster {
		return &tenancyv1alpha1.LogicalCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop"},
			Status:     tenancyv1alpha1.LogicalClusterStatus{Usage: &tenancyv1alpha1.LogicalClusterUsage{Objects: objects}},
		}
	}
	c := Config{Client: fake.NewSimpleClientset(shop(30))}
	known := shop(6)
	if err := c.setStatus(t.Context(), known, ready("https://atoll.example/clusters/shop")); err != nil {
		t.Fatal(err)
	}
	got, err := c.Client.TenancyV1alpha1().LogicalClusters().Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.URL == "" || got.Status.Usage == nil || got.Status.Usage.Objects != 30 {
		t.Errorf("the status is %+v, want its URL and a usage of 30 objects", got.Status)
	}
}

// Another controller writes a condition of its own in the same moment.
func TestAStatusLeavesTheConditionsOfOthersAlone(t *testing.T) {
	t.Parallel()
	known := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop", ResourceVersion: "1"}}
	for name, c := range map[string]struct {
		since func(*tenancyv1alpha1.LogicalCluster)
		want  []string
	}{
		"nobody has": {func(lc *tenancyv1alpha1.LogicalCluster) { lc.ResourceVersion = "1" }, []string{"Ready"}},
		"another controller has": {func(lc *tenancyv1alpha1.LogicalCluster) {
			set(&lc.Status, lc, "Within", metav1.ConditionTrue, "Limits", "")
		}, []string{"Within", "Ready"}},
		"it is deleted since":           {func(lc *tenancyv1alpha1.LogicalCluster) { lc.DeletionTimestamp = ptr.To(metav1.Now()) }, nil},
		"it is another one of the name": {func(lc *tenancyv1alpha1.LogicalCluster) { lc.UID = "another" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := known.DeepCopy()
			live.ResourceVersion = "2"
			c.since(live)
			client := fake.NewSimpleClientset(live)
			client.PrependReactor("patch", "logicalclusters", func(a clienttesting.Action) (bool, runtime.Object, error) {
				var patch metav1.PartialObjectMetadata
				if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
					return true, nil, err
				}
				if patch.UID != live.UID || patch.ResourceVersion != live.ResourceVersion {
					return true, nil, apierrors.NewConflict(tenancyv1alpha1.Resource("logicalclusters"), "shop", errors.New("it has changed"))
				}
				return false, nil, nil
			})
			if err := (Config{Client: client}).setStatus(t.Context(), known, ready("https://atoll.example/clusters/shop")); err != nil {
				t.Fatal(err)
			}
			got, err := client.TenancyV1alpha1().LogicalClusters().Get(t.Context(), "shop", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, condition := range got.Status.Conditions {
				types = append(types, condition.Type)
			}
			if diff := cmp.Diff(c.want, types); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
