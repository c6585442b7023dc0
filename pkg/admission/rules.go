package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	limitRange, _    = workload.ByKind(schema.GroupKind{Kind: "LimitRange"})
	resourceQuota, _ = workload.ByKind(schema.GroupKind{Kind: "ResourceQuota"})
)

// stampRules gives quotas and limits that were there before the decision its
// targets, ahead of the Namespace: they go down before the first thing that they
// rule.
func (d *decider) stampRules(ctx context.Context, q question, clusters []string) error {
	ctx = at(ctx, q.cluster)
	core := d.kube.CoreV1()
	if workload.Rules(limitRange, len(clusters)) {
		limits, err := core.LimitRanges(q.namespace.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing limit ranges: %w", err)
		}
		for i := range limits.Items {
			_, err := core.LimitRanges(q.namespace.Name).Patch(ctx, limits.Items[i].Name, types.StrategicMergePatchType,
				stamp.Rule(limits.Items[i].UID, clusters), metav1.PatchOptions{})
			if err := stamped(&limits.Items[i], err); err != nil {
				return err
			}
		}
	}
	if workload.Rules(resourceQuota, len(clusters)) {
		quotas, err := core.ResourceQuotas(q.namespace.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing quotas: %w", err)
		}
		for i := range quotas.Items {
			_, err := core.ResourceQuotas(q.namespace.Name).Patch(ctx, quotas.Items[i].Name, types.StrategicMergePatchType,
				stamp.Rule(quotas.Items[i].UID, clusters), metav1.PatchOptions{})
			if err := stamped(&quotas.Items[i], err); err != nil {
				return err
			}
		}
	}
	return nil
}

// stamped passes over an object that is gone or going.
func stamped(obj metav1.Object, err error) error {
	if err == nil || apierrors.IsNotFound(err) || obj.GetDeletionTimestamp() != nil {
		return nil
	}
	return fmt.Errorf("stamping %s: %w", obj.GetName(), err)
}
