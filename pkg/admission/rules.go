package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	namespaceKind, _ = workload.ByKind(schema.GroupKind{Kind: "Namespace"})
	limitRange, _    = workload.ByKind(schema.GroupKind{Kind: "LimitRange"})
	resourceQuota, _ = workload.ByKind(schema.GroupKind{Kind: "ResourceQuota"})
)

// stampRules gives quotas and limits that were there before the decision its
// targets, ahead of the Namespace: they go down before the first thing that they
// rule.
func (d *decider) stampRules(ctx context.Context, q question, unit placementv1alpha1.Targets) error {
	ctx = at(ctx, q.cluster)
	limits := d.kube.CoreV1().LimitRanges(q.namespace.Name)
	ranges, err := limits.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing limit ranges: %w", err)
	}
	for i := range ranges.Items {
		if patch := restampRule(limitRange, q, &ranges.Items[i], unit); patch != nil {
			_, err := limits.Patch(ctx, ranges.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err := stamped(&ranges.Items[i], err); err != nil {
				return err
			}
		}
	}
	quotas := d.kube.CoreV1().ResourceQuotas(q.namespace.Name)
	list, err := quotas.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing quotas: %w", err)
	}
	for i := range list.Items {
		if patch := restampRule(resourceQuota, q, &list.Items[i], unit); patch != nil {
			_, err := quotas.Patch(ctx, list.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err := stamped(&list.Items[i], err); err != nil {
				return err
			}
		}
	}
	return nil
}

func restampRule(kind workload.Kind, q question, obj metav1.Object, unit placementv1alpha1.Targets) []byte {
	return stamp.Restamp(obj, func(o metav1.Object) {
		stamp.Set(o, stamp.Targets(kind, q.cluster, o, stamp.Source{Unit: unit}))
	})
}

// stamped passes over an object that is gone or going.
func stamped(obj metav1.Object, err error) error {
	if err == nil || apierrors.IsNotFound(err) || obj.GetDeletionTimestamp() != nil {
		return nil
	}
	return fmt.Errorf("stamping %s: %w", obj.GetName(), err)
}
