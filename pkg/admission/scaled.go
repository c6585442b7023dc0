package admission

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/reads"
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
	in, known := controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace()}, false
	if o.Scalers, known = p.scalers.Last(in); !known {
		if o.Scalers, err = p.scalers.Get(ctx, in); err != nil {
			return nil, err
		}
	}
	return o.Scaling(), nil
}

const (
	// scalersTimeout is for one read of the autoscalers of a namespace.
	scalersTimeout = 30 * time.Second
	// scalersRemembered is for how long they are not read again: a move stamps all objects of a
	// namespace within moments, each of which may have one. A watch cache may be as far behind.
	scalersRemembered = time.Second
)

// newScalers are the autoscalers of namespaces, as the watch cache has them.
func newScalers(l *lookup) *reads.Shared[controller.Request, stamp.Scalers] {
	return reads.New(scalersTimeout, scalersRemembered, func(ctx context.Context, in controller.Request) (stamp.Scalers, error) {
		all, err := l.objectsOf(ctx, workload.In(l.kinds, in.Cluster), in, stamp.IsAutoscaler, cached)
		return stamp.ScalersOf(all), err
	})
}
