package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// stampRules gives quotas and limits that were there before the decision its
// targets, ahead of the Namespace: they go down before the first thing that they
// rule.
func (d *decider) stampRules(ctx context.Context, q question, unit stamp.Unit) error {
	if d.lookup.metadata == nil {
		return errors.New("there is no client")
	}
	ctx = at(ctx, q.cluster)
	for _, kind := range q.kinds.Kinds() {
		if kind.Role != workload.Ruling {
			continue
		}
		client := d.lookup.metadata.Resource(kind.GroupVersionResource()).Namespace(q.namespace.Name)
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			rule := &list.Items[i]
			if patch := restampRule(kind, q, rule, unit); patch != nil {
				_, err := client.Patch(ctx, rule.Name, types.MergePatchType, patch, metav1.PatchOptions{})
				if err := stamped(rule, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func restampRule(kind workload.Kind, q question, obj metav1.Object, unit stamp.Unit) []byte {
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
