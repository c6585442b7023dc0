package native

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// PlacementReviews is the name of the resource.
const PlacementReviews = "placementreviews"

// ReviewREST serves PlacementReviews: admission, which places, has answered by the time
// that one is created. Nothing is stored.
type ReviewREST struct{}

var (
	_ rest.Creater              = ReviewREST{}
	_ rest.Scoper               = ReviewREST{}
	_ rest.SingularNameProvider = ReviewREST{}
)

// New implements rest.Storage.
func (ReviewREST) New() runtime.Object { return &placement.PlacementReview{} }

// Destroy implements rest.Storage.
func (ReviewREST) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (ReviewREST) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (ReviewREST) GetSingularName() string { return "placementreview" }

// Create implements rest.Creater.
func (ReviewREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	accessor(obj).SetManagedFields(nil)
	return obj, nil
}
