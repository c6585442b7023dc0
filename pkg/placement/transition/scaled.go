package transition

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// scaler is the autoscaler that scales an object; ok is false if none does.
func (o Object) scaler() (_ stamp.Other, ok bool) {
	return o.Scalers.Of(o.Kind, o.Logical.GetName())
}

// Scaling is how an autoscaler scales an object; nil if that is not known, or does not count.
func (o Object) Scaling() *stamp.Scaling {
	if o.Scalers == nil || o.Division != nil || !stamp.StartsScaled(o.Kind, o.Unit, o.targets()) {
		return nil
	}
	out := o.StartsAsBefore()
	by, ok := o.scaler()
	if out.Scaled = ok && (out.Wish > 0 || workload.ScalesFromNothing(by.Kind.GroupKind(), by.Object)); out.Scaled {
		out.Runs = o.runs(by)
		for name, t := range stamp.TargetsOf(by.GetAnnotations()) {
			if t.State == placementv1alpha1.TargetStateWaiting {
				out.Waits = append(out.Waits, name)
			}
		}
	}
	return out
}

// StartsAsBefore is the scaling of an object of which no more is to be known than what it wants.
func (o Object) StartsAsBefore() *stamp.Scaling {
	return &stamp.Scaling{Wish: toCount(workload.Replicas(o.Kind, o.Logical.Object)), Scaled: true}
}

// runs is how many replicas a copy of what is scaled needs where it is started, by what Copies say
// of where its unit leaves.
//
//	there it has             then
//	not been looked at yet   not known
//	no replicas, and is      none: what waits for work stays as it is
//	meant to, see idle
//	no replicas, else        not known: it may not be able to make them
//	some                     the most of any place, or what it wants if that is more, within the bounds
//	                         of its autoscaler as far as these are known
func (o Object) runs(by stamp.Other) *int32 {
	bounded := by.Kind.Semantics == workload.AutoscalerSemantics
	var most *int32
	for _, c := range o.on(stamp.Serving(o.Unit, o.targets())) {
		status := observed(c)
		if status == nil || c.Status.ObservedGeneration < c.Status.AppliedGeneration {
			continue
		}
		n, _ := number(status, "replicas")
		if n == 0 && !idle(status, !bounded) {
			continue
		}
		if has := toCount(n); most == nil || has > *most {
			most = &has
		}
	}
	if most == nil || *most == 0 {
		return most
	}
	n := max(*most, toCount(workload.Replicas(o.Kind, o.Logical.Object)))
	if bounded {
		least, atMost := workload.Bounds(by.Object)
		n = min(max(n, least), atMost)
	}
	return &n
}

// idle says that something without replicas is to have none. A Deployment that cannot make its pods is
// not Available; of other kinds only who scales to nothing, and back, is believed.
func idle(status map[string]any, scalesToNothing bool) bool {
	if what, ok := condition(status, "Available"); ok {
		return what["status"] == "True"
	}
	return scalesToNothing
}

func condition(status map[string]any, name string) (map[string]any, bool) {
	all, _, _ := unstructured.NestedSlice(status, "conditions")
	for _, one := range all {
		if c, ok := one.(map[string]any); ok && c["type"] == name {
			return c, true
		}
	}
	return nil, false
}

// refused is why pods cannot be made there, if its controller says so: a quota, as a rule.
func refused(c *placementv1alpha1.Copy) string {
	what, ok := condition(observed(c), "ReplicaFailure")
	message, _ := what["message"].(string)
	if !ok || what["status"] != "True" || message == "" {
		return ""
	}
	return " (" + message + ")"
}

// scaledTo is how many of the replicas that are wanted of an object are to be available on a target.
//
//	an autoscaler           on the target it          then
//	does not scale it       any                       those that it wants
//	scales it               waits, or is none         those that it was started with
//	scales it               is there                  no more than there are: it says how many. None at all is no
//	                                                  answer of it, where some run elsewhere
func (o Object) scaledTo(c *placementv1alpha1.Copy, want int64) int64 {
	entry := o.targets()[c.Spec.PhysicalCluster]
	by, ok := o.scaler()
	if !ok || entry.Replicas != nil {
		return want
	}
	want = stamp.StartOn(entry, want)
	if at, ok := stamp.TargetsOf(by.GetAnnotations())[c.Spec.PhysicalCluster]; !ok || !at.Keeps() {
		return want
	}
	made, _ := number(observed(c), "replicas")
	return min(want, max(1, made))
}
