package admission

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// scalingOf is how an autoscaler scales the object of a request, where that counts; nil: it does not.
//
//	who asks                      then
//	the control plane             what autoscalers and Copies say, as the watch cache and the informer have
//	                              it: it asks again as long as it reads more
//	a user, a syncer              what was stamped holds, for what is wanted now: a write that is looked at
//	                              twice, before and after others, must find the same both times
func (p *placing) scalingOf(ctx context.Context, r *request, kind workload.Kind, obj metav1.Object, unit stamp.Unit) (*stamp.Scaling, error) {
	if r.division != nil || !stamp.StartsScaled(kind, unit, stamp.TargetsOf(obj.GetAnnotations())) {
		return nil, nil
	}
	content, err := external(kind, r.GetObject())
	if err != nil {
		return nil, err
	}
	o := transition.Object{Kind: kind, Logical: &unstructured.Unstructured{Object: content}, Unit: unit}
	if !r.system {
		return o.StartsAsBefore(), nil
	}
	o.Logical.SetAnnotations(obj.GetAnnotations())
	if p.copies != nil {
		o.Copies = p.copiesOf(r, kind, obj)
	}
	if o.Scalers, err = p.others(ctx, r, stamp.IsAutoscaler); err != nil {
		return nil, err
	}
	return o.Scaling(), nil
}
