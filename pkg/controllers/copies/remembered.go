package copies

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// remembered says whether the status of a CronJob that stays has the last run of which the Copies tell
// that are about to go: where the next copy is, it goes on from there. The status is written by who
// summarizes, upon the same news, and the object is looked at again when it is.
func (s *Controller) remembered(ctx context.Context, k key, obj *metav1.PartialObjectMetadata, v Verdict) (bool, error) {
	kind, _ := s.Kinds.Current().ByResource(k.Resource.GroupResource())
	if kind.Semantics != workload.CronJobSemantics || obj == nil || obj.DeletionTimestamp != nil || len(v.Delete) == 0 {
		return true, nil
	}
	live, err := s.Dynamic.Resource(k.Resource).Namespace(k.Object.Namespace).Get(ctx, k.Object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil // our view of it will come
	}
	if err != nil {
		return false, fmt.Errorf("reading the last run: %w", err)
	}
	return !slices.ContainsFunc(v.Delete, func(c *placementv1alpha1.Copy) bool { return !syncer.Remembered(kind, live, c) }), nil
}
