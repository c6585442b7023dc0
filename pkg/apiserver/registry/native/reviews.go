package native

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Names of the resources.
const (
	PlacementReviews = "placementreviews"
	PodReviews       = "podreviews"
)

// Reviews are the resources that are questions, by name.
func Reviews() map[string]ReviewREST {
	return map[string]ReviewREST{
		PlacementReviews: {"placementreview", func() runtime.Object { return &placement.PlacementReview{} }},
		PodReviews:       {"podreview", func() runtime.Object { return &placement.PodReview{} }},
	}
}

// ReviewREST serves reviews: admission, which places and admits, has answered by the time
// that one is created. Nothing is stored.
type ReviewREST struct {
	singular string
	empty    func() runtime.Object
}

var (
	_ rest.Creater              = ReviewREST{}
	_ rest.Scoper               = ReviewREST{}
	_ rest.SingularNameProvider = ReviewREST{}
)

// New implements rest.Storage.
func (r ReviewREST) New() runtime.Object { return r.empty() }

// Destroy implements rest.Storage.
func (ReviewREST) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (ReviewREST) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (r ReviewREST) GetSingularName() string { return r.singular }

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
