package syncer

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// view is what one target says about an object.
type view struct {
	target string
	// receives says that the copy there receives traffic.
	receives bool
	// generation of the logical object that the target has observed.
	generation int64
	// status as it is below; nil if not known yet.
	status map[string]any
	// nowhere names the Services that lead to no pod there, of what has addresses.
	nowhere []string
}

// HasStatus says whether objects of the kind have a status that copies decide.
func HasStatus(kind workload.Kind) bool { return !kind.Status.None }

// Summarize returns the status that a logical object has when its Copies say
// what they say, and whether that differs from the status it has. The targets
// are those of the targets annotation that shall keep a copy; a Copy that records
// another UID is ignored.
//
//	one target    the status of its copy, with the generation translated
//	several       merged as the kind says: see mergeViews
//	none, or      nothing runs: the counters are zero
//	no copy yet
//
// The observed generation is the one that every target has observed. It does
// not fall when a target is added: what was true of a generation stays true. Nor do
// times of which the latest counts, see remember.
//
// A condition that is made here holds since now, if it did not hold before.
func Summarize(kind workload.Kind, logical *unstructured.Unstructured, copies []*placementv1alpha1.Copy, now time.Time) (status map[string]any, changed bool) {
	current := field(logical.Object, "status")
	if !HasStatus(kind) || observedOnly(logical) {
		return current, false
	}
	if ended(logical) {
		return current, false // nothing below will ever say more
	}
	views := receiving(viewsOf(logical, copies))
	switch known := reported(views); {
	case len(known) == 0:
		status = zero(kind)
	case len(views) == 1:
		status = deepCopy(views[0].status).(map[string]any)
	default:
		status = mergeViews(kind, views)
	}
	remember(kind, logical, status, copies)
	translateGeneration(status, observedByAll(logical, current, views))
	if kind.Status.Generation {
		setObservedGeneration(status, observedByAll(logical, current, views))
	}
	if kind.Carries { // who waits for Applied waits for that of the present generation
		setObservedGeneration(status, observedByAll(logical, current, views))
		status = manifestStatus(logical, status, copies)
	}
	if kind.IsPod() {
		keepGates(status, current, append(gatesOf(field(logical.Object, "spec")), setAbove(logical, status)...))
	}
	status = valid(kind, logical, status, current)
	beginConditions(status, current, now)
	return status, !SameStatus(status, current)
}

// Reported is what the targets say of an object that shall keep a copy and have said
// something, by name, in the order of the names.
func Reported(logical *unstructured.Unstructured, copies []*placementv1alpha1.Copy) (targets []string, statuses []map[string]any) {
	if observedOnly(logical) || ended(logical) {
		return nil, nil
	}
	for _, v := range reported(receiving(viewsOf(logical, copies))) {
		targets, statuses = append(targets, v.target), append(statuses, v.status)
	}
	return targets, statuses
}

// SameStatus says that an API server would store the same for two statuses.
func SameStatus(a, b map[string]any) bool {
	return equality.Semantic.DeepEqual(withoutZeros(a), withoutZeros(b))
}

func setObservedGeneration(status map[string]any, generation int64) {
	if generation == 0 {
		delete(status, "observedGeneration")
		return
	}
	status["observedGeneration"] = generation
}

// ended says that an object ran to its end on a physical cluster that it has left.
func ended(logical *unstructured.Unstructured) bool {
	left := false
	for _, t := range stamp.TargetsOf(logical.GetAnnotations()) {
		if t.Keeps() {
			return false
		}
		left = left || t.State == placementv1alpha1.TargetStateFinished
	}
	return left
}

// receiving are the views of targets whose copy receives traffic, if there are any: of
// the others no address is published.
func receiving(views []view) []view {
	var out []view
	for _, v := range views {
		if v.receives {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return views
	}
	return out
}

// observedOnly says that the object was mirrored: its status is the syncer's.
func observedOnly(logical *unstructured.Unstructured) bool {
	targets := stamp.TargetsOf(logical.GetAnnotations())
	for _, t := range targets {
		if t.State != placementv1alpha1.TargetObserved {
			return false
		}
	}
	return len(targets) > 0
}

// viewsOf are the views of the targets that shall keep a copy, sorted by name.
func viewsOf(logical *unstructured.Unstructured, copies []*placementv1alpha1.Copy) []view {
	targets := stamp.TargetsOf(logical.GetAnnotations())
	var views []view
	for _, name := range targets.Names() {
		if !targets[name].Keeps() {
			continue
		}
		v := view{target: name, receives: targets[name].Receives()}
		for _, c := range copies {
			if c.Spec.PhysicalCluster == name && c.Spec.Object.UID == logical.GetUID() && c.Status.State != placementv1alpha1.CopyRemoved {
				v.generation, v.status, v.nowhere = c.Status.ObservedGeneration, observedStatus(c), c.Status.NoEndpoints[:min(len(c.Status.NoEndpoints), maxNoEndpoints)]
				if stamp.Staged(logical) && c.Status.Revision != stamp.Revision(logical) {
					v.status = outdated(v.status)
				}
			}
		}
		views = append(views, v)
	}
	return views
}

func reported(views []view) []view {
	var known []view
	for _, v := range views {
		if v.status != nil {
			known = append(known, v)
		}
	}
	return known
}

// observedByAll is the generation that every target has observed.
func observedByAll(logical *unstructured.Unstructured, current map[string]any, views []view) int64 {
	before, _ := integer(current, "observedGeneration")
	lowest := int64(0)
	for i, v := range views {
		if i == 0 || v.generation < lowest {
			lowest = v.generation
		}
	}
	return min(max(before, lowest), logical.GetGeneration())
}

// pending is the phase of what nobody says anything of.
const pending = "Pending"

// zero is the status of a kind when nothing runs.
func zero(kind workload.Kind) map[string]any {
	status := map[string]any{}
	if len(kind.Status.Phases) > 0 {
		status["phase"] = pending
	}
	for _, name := range kind.Status.Required {
		status[name] = int64(0)
	}
	maps.Copy(status, deepCopy(semanticsOf(kind).zero).(map[string]any))
	return status
}

// valid keeps what the API server insists on across updates of a status.
func valid(kind workload.Kind, logical *unstructured.Unstructured, status, current map[string]any) map[string]any {
	for _, name := range kind.Status.Rising {
		before, had := integer(current, name)
		if now, has := integer(status, name); had && (!has || now < before) {
			status[name] = before // absent counts as a decrement
		}
	}
	for _, name := range kind.Status.Kept {
		keep(status, current, name)
	}
	if f := semanticsOf(kind).valid; f != nil {
		return f(logical, status, current)
	}
	return status
}

// withoutZeros drops what an API server drops or adds by itself: zero counters
// and empty lists and maps.
func withoutZeros(status map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range status {
		switch v := value.(type) {
		case nil:
			continue
		case map[string]any:
			if len(v) == 0 {
				continue
			}
		case []any:
			if len(v) == 0 {
				continue
			}
		default:
			if n, ok := integer(status, name); ok && n == 0 {
				continue
			}
		}
		out[name] = value
	}
	return out
}

// mergeViews merges the statuses of several targets: counters are summed, of times
// the latest counts, of conditions the worst, and what the semantics of the kind add.
// A kind with phases has the status of the least advanced target.
func mergeViews(kind workload.Kind, views []view) map[string]any {
	if len(kind.Status.Phases) > 0 {
		return leastAdvanced(kind.Status.Phases, views)
	}
	status := map[string]any{}
	sum(status, views, kind.Status.Counters...)
	for _, name := range kind.Status.Latest {
		latest(status, views, name)
	}
	s := semanticsOf(kind)
	if s.merge != nil {
		s.merge(status, views)
	}
	if !s.conditions {
		if conditions := worstConditions(views); len(conditions) > 0 {
			status["conditions"] = conditions
		}
	}
	return status
}

func sum(status map[string]any, views []view, names ...string) {
	for _, name := range names {
		total, any := int64(0), false
		for _, v := range views {
			if n, ok := integer(v.status, name); ok {
				total, any = total+n, true
			}
		}
		if any {
			status[name] = total
		}
	}
}

// leastAdvanced takes the whole status of the target whose phase comes first in
// order; a target that says nothing comes before all, with an empty status.
func leastAdvanced(order []string, views []view) map[string]any {
	rank := func(v view) int {
		phase, _ := v.status["phase"].(string)
		return slices.Index(order, phase)
	}
	first := slices.MinFunc(views, func(a, b view) int { return rank(a) - rank(b) })
	if first.status == nil {
		return map[string]any{"phase": pending}
	}
	return deepCopy(first.status).(map[string]any)
}

// latest takes the greatest of the times in a field, which sort as text.
func latest(status map[string]any, views []view, name string) {
	for _, v := range views {
		t, _ := v.status[name].(string)
		if before, _ := status[name].(string); t != "" && strings.Compare(t, before) > 0 {
			status[name] = t
		}
	}
}
