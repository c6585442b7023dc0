package syncer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Bounds are the least and the most replicas that an autoscaler has on a target.
type Bounds struct{ Min, Max int32 }

// BoundsOf are those of the autoscalers of an object on a target; nil if they are not
// divided. Without any room, nothing is scaled there.
func BoundsOf(target string, scalers []*unstructured.Unstructured) *Bounds {
	for _, scaler := range scalers {
		entry, ok := stamp.TargetsOf(scaler.GetAnnotations())[target]
		if ok && entry.Keeps() && scaler.GetDeletionTimestamp() == nil && entry.Replicas != nil && entry.Max != nil {
			return &Bounds{Min: *entry.Replicas, Max: *entry.Max}
		}
	}
	return nil
}

// setParts gives a copy the part of its numbers that its target has.
//
//	replicas          scaled by an autoscaler   then
//	none are wanted   yes, not from nothing     none
//	scaled by others  yes, with room            whoever scales it sets them
//	any               yes, bounds are divided   the part, within these bounds: none is scaled
//	                                            up from nothing
//	any               else                      the part, or what it starts with, see startOf
func setParts(obj map[string]any, p Placing) {
	if part := semanticsOf(p.Ref.Kind).part; part != nil && p.Target.Replicas != nil {
		part(obj, p.Target)
	}
	path := p.Ref.Kind.Replicas
	if len(path) == 0 {
		return
	}
	if p.OmitReplicas && (p.Bounds == nil || p.Bounds.Max > 0) {
		remove(obj, path)
		return
	}
	at, n := descend(obj, path[:len(path)-1]), p.Target.Replicas
	if p.Stopped {
		n = new(int32)
	}
	if n == nil {
		n = p.Start
	}
	if at == nil || n == nil {
		return
	}
	replicas := *n
	if p.Bounds != nil && !p.Stopped {
		replicas = min(max(replicas, p.Bounds.Min), p.Bounds.Max)
	}
	at[path[len(path)-1]] = int64(replicas)
}

// stopped says that no replicas are wanted of what is scaled, and that its autoscalers let that be.
func (p planner) stopped() bool {
	kind := p.Ref.Kind
	return p.Scaled && !p.ScalesFromNothing && len(kind.Replicas) > 0 && p.Logical != nil && workload.Replicas(kind, p.Logical.Object) == 0
}

// startOf is how many replicas a copy has because an autoscaler had as many elsewhere; nil: those that
// the object wants. Once somebody else sets them below, they are left out, see scaledByOthers.
//
//	the copy   an autoscaler of it   its replicas          then
//	is none    any                   any                   those that it starts with
//	is there   waits here            any                   those that it starts with
//	is there   is here               from what the object  what it has: it was started so, and the autoscaler
//	                                 wants to the start    may say otherwise at any time
//	is there   is here               any other             none: what it started with is over
//	is there   is not                any                   none
//
// Nothing counts any more as soon as the object wants another number than it did.
func (p planner) startOf() *int32 {
	start := p.entry().Start
	if start == nil || int64(start.Wish) != workload.Replicas(p.Ref.Kind, p.Logical.Object) {
		return nil
	}
	switch {
	case p.physical == physicalNone, p.ScalerWaits:
		return &start.Replicas
	case !p.Scaled || p.physical != physicalOurs:
		return nil
	}
	has := workload.Replicas(p.Ref.Kind, p.Physical.Object)
	if has < int64(min(start.Wish, start.Replicas)) || has > int64(max(start.Wish, start.Replicas)) {
		return nil
	}
	n := int32(has) //nolint:gosec // it is bounded
	return &n
}

// partOfJob: where no pod runs nothing has to succeed either, and it is complete at once.
func partOfJob(obj map[string]any, t placementv1alpha1.Target) {
	setNested(obj, int64(*t.Replicas), "spec", "parallelism")
	if t.Completions != nil {
		setNested(obj, int64(*t.Completions), "spec", "completions")
	}
}

func partOfBudget(obj map[string]any, t placementv1alpha1.Target) {
	if name, _, ok := workload.BudgetField(obj); ok {
		setNested(obj, int64(*t.Replicas), "spec", name)
	}
}

// partOfAutoscaler: no API server takes one that scales to nothing; what it scales has no
// replicas there, of which it keeps off.
func partOfAutoscaler(obj map[string]any, t placementv1alpha1.Target) {
	if t.Max == nil {
		return
	}
	least, most := int64(*t.Replicas), int64(*t.Max)
	if most == 0 {
		least, most = 1, 1
	}
	setNested(obj, least, "spec", "minReplicas")
	setNested(obj, most, "spec", "maxReplicas")
}

// failLost has a Job fail that is complete where it still is, if parts of it were on physical
// clusters that were given up: it was begun there, and is not begun again.
func failLost(logical *unstructured.Unstructured, status map[string]any) {
	wanted, ok := integer(field(logical.Object, "spec"), "completions")
	there, divided := int64(0), false
	for _, t := range stamp.TargetsOf(logical.GetAnnotations()) {
		if t.Keeps() && t.Completions != nil {
			there, divided = there+int64(*t.Completions), true
		}
	}
	if !ok || !divided || there >= wanted || !conditionIs(status, "Complete", "True") {
		return
	}
	for _, c := range list(status, "conditions") {
		switch c["type"] {
		case "SuccessCriteriaMet":
			c["type"] = "FailureTarget"
		case "Complete":
			c["type"] = "Failed"
		default:
			continue
		}
		c["reason"], c["message"] = "PartLost", fmt.Sprintf("%d of %d completions were left to physical clusters that were given up", wanted-there, wanted)
	}
	delete(status, "completionTime")
}
