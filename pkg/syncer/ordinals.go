package syncer

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// OrdinalsAnnotation is, on the copy of a StatefulSet, the revision of the range of ordinals
	// that was applied last.
	OrdinalsAnnotation = "atoll.dev/ordinals"
	// ordinalsInterval is how often the pods are looked at while some have to end.
	ordinalsInterval = time.Second

	// ReasonAutoscaled is the reason of a Copy whose range of ordinals an autoscaler would leave.
	ReasonAutoscaled = "Autoscaled"
	// ReasonScalesRange is that of an autoscaler that would do so.
	ReasonScalesRange = "ScalesRange"
	// ReasonOlderOrdinals is that of a Copy of which there is a later range than the object has.
	ReasonOlderOrdinals = "OlderOrdinals"
)

// ranged says that the target has a range of the ordinals of a StatefulSet.
func ranged(entry placementv1alpha1.Target) bool {
	_, ok := stamp.RangeOf(entry)
	return ok
}

func ordinalsRevision(entry placementv1alpha1.Target) int64 {
	if entry.Ordinals == nil {
		return 0
	}
	return entry.Ordinals.Revision
}

// appliedOrdinals is the revision of the range that a copy has; 0 if it never had one.
func appliedOrdinals(physical *unstructured.Unstructured) int64 {
	if physical == nil {
		return 0
	}
	n, err := strconv.ParseInt(physical.GetAnnotations()[OrdinalsAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// ScalesRange says that an autoscaler scales an object that has a range of ordinals on a target.
func ScalesRange(scaled *unstructured.Unstructured, target string) bool {
	return scaled != nil && ranged(stamp.TargetsOf(scaled.GetAnnotations())[target])
}

// MayBeBelow says that what a Copy records is on the physical cluster, or may be soon.
func MayBeBelow(c *placementv1alpha1.Copy) bool {
	s := c.Status
	return s.State != placementv1alpha1.CopyRemoved && (s.State != placementv1alpha1.CopyFailed || s.PhysicalUID != "")
}

// OrdinalsOf are the ordinals of pods of a StatefulSet by their names: from the first to the
// last of them.
func OrdinalsOf(set string, pods []string) placementv1alpha1.OrdinalRange {
	var out placementv1alpha1.OrdinalRange
	for _, pod := range pods {
		n, ok := workload.OrdinalOf(set, pod)
		switch {
		case !ok:
		case out.End == 0:
			out = placementv1alpha1.OrdinalRange{Start: n, End: n + 1}
		default:
			out.Start, out.End = min(out.Start, n), max(out.End, n+1)
		}
	}
	return out
}

// partOfStatefulSet gives a copy the range of its target. A partition counts from where the
// range begins.
func partOfStatefulSet(obj map[string]any, t placementv1alpha1.Target) {
	given, ok := stamp.RangeOf(t)
	if !ok {
		return
	}
	first := workload.FirstOrdinal(obj)
	rolling := descend(obj, []string{"spec", "updateStrategy", "rollingUpdate"})
	if partition, ok := integer(rolling, "partition"); ok {
		rolling["partition"] = min(max(0, int64(first)+partition-int64(given.Start)), int64(*t.Replicas))
	}
	setNested(obj, int64(given.Start), "spec", "ordinals", "start")
}

// rangeInTheWay says why a StatefulSet, or what scales one, is not applied: an ordinal could run
// twice.
//
//	the object       is below    and                                           then
//	an autoscaler    no          what it scales has a range                    Failed: it would leave that
//	a StatefulSet    any         had a later range than the object has         Pending, and the Copy has that: the
//	                                                                           object is outdated, or of a backup
//	with a range     any         an autoscaler of it is, or may be, below      Failed: it may leave the range
//
// Both sides look at the other one, so that either sees it, whoever comes first.
func (p planner) rangeInTheWay() (actions []Action, done bool) {
	if p.ScalesRange && p.physical == physicalNone {
		return p.fail(Failure{Reason: ReasonScalesRange, Message: "what it scales is divided by ordinals over several physical clusters: scaled on one, it would run what others run, too. Scale it by spec.replicas"}), true
	}
	if p.Ref.Kind.Semantics != workload.StatefulSetSemantics {
		return nil, false
	}
	entry := p.entry()
	if had := max(appliedOrdinals(p.Physical), p.Copy.Status.Ordinals.Revision); had > ordinalsRevision(entry) {
		status := p.status(placementv1alpha1.CopyPending, ReasonOlderOrdinals, "it had a later range of ordinals there than the object says: nothing is written before the object has another one")
		if spec := field(objectOf(p.Physical), "spec"); spec != nil {
			status.Ordinals = placementv1alpha1.CopyOrdinals{Revision: had, Start: start(spec), End: start(spec) + toCount(spec)}
		}
		return p.write(status, p.Logical.GetUID()), true
	}
	if ranged(entry) && p.ScaledBelow {
		return p.fail(Failure{Reason: ReasonAutoscaled, Message: "an autoscaler scales it, and could leave its range of ordinals: delete the autoscaler, or have each physical cluster run all of it"}), true
	}
	return nil, false
}

func objectOf(obj *unstructured.Unstructured) map[string]any {
	if obj == nil {
		return nil
	}
	return obj.Object
}

func start(spec map[string]any) int32 {
	return workload.FirstOrdinal(map[string]any{"spec": spec})
}

func toCount(spec map[string]any) int32 {
	n, ok := integer(spec, "replicas")
	if !ok {
		n = 1
	}
	return int32(min(max(0, n), 1<<31-1-int64(start(spec)))) //nolint:gosec // it is bounded
}

// vacates says that the Copy does not say yet that nothing but the range runs, which is below as
// it is wanted.
func (p planner) vacates() bool {
	given, ok := stamp.RangeOf(p.entry())
	if !ok || p.Ref.Kind.Semantics != workload.StatefulSetSemantics {
		return false
	}
	said := p.Copy.Status.Ordinals
	return said.Revision != ordinalsRevision(p.entry()) || said.Start < given.Start || said.End > given.End
}

// pods has the pods looked at that the Copy is to tell of. The controller below has to act on the
// range first: until then it may make others.
func (p planner) pods() []Action {
	if !p.vacates() || p.Pods != nil || !observes(p.Ref.Kind, field(p.Physical.Object, "status"), p.Physical.GetGeneration()) {
		return nil
	}
	return []Action{{Verb: LookAtPods, Why: "Range"}}
}

// podsLeft has them looked at again as long as some have to end.
func (p planner) podsLeft() []Action {
	if p.vacates() && p.Pods != nil {
		return wait(ordinalsInterval, "PodsEnd")
	}
	return nil
}

// ordinals are those of which pods may run, as a Copy has them; known is false as long as nobody
// has looked.
func (p planner) ordinals() (out placementv1alpha1.CopyOrdinals, known bool) {
	given, ok := stamp.RangeOf(p.entry())
	switch {
	case !ok:
		return out, true
	case p.Pods == nil:
		return out, false
	}
	out = placementv1alpha1.CopyOrdinals{Revision: ordinalsRevision(p.entry()), Start: given.Start, End: given.End}
	switch {
	case p.Pods.End <= p.Pods.Start:
	case given.End <= given.Start:
		out.Start, out.End = p.Pods.Start, p.Pods.End
	default:
		out.Start, out.End = min(out.Start, p.Pods.Start), max(out.End, p.Pods.End)
	}
	return out, true
}
