package syncer

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// view is what one target says about an object.
type view struct {
	target string
	// generation of the logical object that the target has observed.
	generation int64
	// status as it is below; nil if not known yet.
	status map[string]any
}

// HasStatus says whether objects of the kind have a status that copies decide.
func HasStatus(kind workload.Kind) bool {
	switch kind.Kind {
	case "Namespace", "Secret", "ConfigMap", "NetworkPolicy", "ResourceQuota", "LimitRange":
		return false
	}
	return true
}

// Summarize returns the status that a logical object has when its Copies say
// what they say, and whether that differs from the status it has. The targets
// are those of the targets annotation that shall keep a copy; a Copy that records
// another UID is ignored.
//
//	one target    the status of its copy, with the generation translated
//	several       merged by kind: see mergers
//	none, or      nothing runs: the counters are zero
//	no copy yet
//
// The observed generation is the one that every target has observed. It does
// not fall when a target is added: what was true of a generation stays true.
func Summarize(kind workload.Kind, logical *unstructured.Unstructured, copies []*placementv1alpha1.Copy) (status map[string]any, changed bool) {
	current := field(logical.Object, "status")
	if !HasStatus(kind) || observedOnly(logical) {
		return current, false
	}
	views := viewsOf(logical, copies)
	switch known := reported(views); {
	case len(known) == 0:
		status = zero(kind.Kind, current)
	case len(views) == 1:
		status = deepCopy(views[0].status).(map[string]any)
	default:
		status = mergeViews(kind.Kind, views)
	}
	translateGeneration(status, observedByAll(logical, current, views))
	if reportsGeneration[kind.Kind] {
		setObservedGeneration(status, observedByAll(logical, current, views))
	}
	if kind.Kind == "Pod" {
		keepGates(status, current, gatesOf(field(logical.Object, "spec")))
	}
	status = valid(kind.Kind, logical, status, current)
	return status, !equality.Semantic.DeepEqual(withoutZeros(status), withoutZeros(current))
}

func setObservedGeneration(status map[string]any, generation int64) {
	if generation == 0 {
		delete(status, "observedGeneration")
		return
	}
	status["observedGeneration"] = generation
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
		if targets[name].State != placementv1alpha1.TargetSync {
			continue
		}
		v := view{target: name}
		for _, c := range copies {
			if c.Spec.PhysicalCluster == name && c.Spec.Object.UID == logical.GetUID() && c.Status.State != placementv1alpha1.CopyRemoved {
				v.generation, v.status = c.Status.ObservedGeneration, observedStatus(c)
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

// zero is the status of a kind when nothing runs.
func zero(kind string, current map[string]any) map[string]any {
	switch kind {
	case "Pod":
		status := map[string]any{"phase": "Pending"}
		keep(status, current, "qosClass")
		return status
	case "PersistentVolumeClaim":
		return map[string]any{"phase": "Pending"}
	case "Service", "Ingress":
		return map[string]any{"loadBalancer": map[string]any{}}
	}
	status := map[string]any{}
	for _, name := range requiredCounters[kind] {
		status[name] = int64(0)
	}
	return status
}

// requiredCounters are the counters that a status always shows.
var requiredCounters = map[string][]string{
	"StatefulSet":             {"replicas", "availableReplicas"},
	"DaemonSet":               {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"},
	"ReplicaSet":              {"replicas"},
	"ReplicationController":   {"replicas"},
	"PodDisruptionBudget":     {"disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"},
	"HorizontalPodAutoscaler": {"desiredReplicas", "currentReplicas"},
}

// valid keeps what the API server insists on across updates of a status.
func valid(kind string, logical *unstructured.Unstructured, status, current map[string]any) map[string]any {
	switch kind {
	case "Deployment", "StatefulSet", "DaemonSet":
		before, had := integer(current, "collisionCount")
		if now, has := integer(status, "collisionCount"); had && (!has || now < before) {
			status["collisionCount"] = before // absent counts as a decrement
		}
	case "Pod":
		keep(status, current, "qosClass")
	case "Job":
		return keepJobValid(status, current)
	case "PodDisruptionBudget":
		keepDisrupted(status, current)
	case "CronJob":
		for _, ref := range list(status, "active") {
			ref["namespace"] = logical.GetNamespace()
			delete(ref, "uid")
			delete(ref, "resourceVersion")
		}
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

// mergeViews merges the statuses of several targets.
func mergeViews(kind string, views []view) map[string]any {
	merge, ok := mergers[kind]
	if !ok {
		merge = func([]view) map[string]any { return map[string]any{} }
	}
	status := merge(views)
	if status["conditions"] == nil && kind != "Job" && kind != "Pod" && kind != "PersistentVolumeClaim" {
		if conditions := worstConditions(views); len(conditions) > 0 {
			status["conditions"] = conditions
		}
	}
	return status
}

// mergers by kind. Conditions are merged for all alike, save for the kinds whose
// merger takes the status of one target as a whole and for Jobs.
var mergers = map[string]func([]view) map[string]any{
	"Deployment": counters("replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
		"unavailableReplicas", "terminatingReplicas"),
	"StatefulSet":             mergeStatefulSets,
	"DaemonSet":               counters("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"),
	"ReplicaSet":              counters("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas"),
	"ReplicationController":   counters("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
	"Job":                     mergeJobs,
	"CronJob":                 mergeCronJobs,
	"Service":                 mergeAddresses,
	"Ingress":                 mergeAddresses,
	"PersistentVolumeClaim":   leastAdvanced("phase", "Lost", "Pending", "Bound"),
	"Pod":                     leastAdvanced("phase", "Failed", "Unknown", "Pending", "Running", "Succeeded"),
	"PodDisruptionBudget":     mergeDisruptionBudgets,
	"HorizontalPodAutoscaler": mergeAutoscalers,
}

// counters sums fields.
func counters(names ...string) func([]view) map[string]any {
	return func(views []view) map[string]any {
		status := map[string]any{}
		sum(status, views, names...)
		return status
	}
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

// leastAdvanced takes the whole status of the target whose field comes first in
// order; a target that says nothing comes before all, with an empty status.
func leastAdvanced(name string, order ...string) func([]view) map[string]any {
	return func(views []view) map[string]any {
		rank := func(v view) int {
			phase, _ := v.status[name].(string)
			return slices.Index(order, phase)
		}
		first := slices.MinFunc(views, func(a, b view) int { return rank(a) - rank(b) })
		if first.status == nil {
			return map[string]any{name: "Pending"}
		}
		return deepCopy(first.status).(map[string]any)
	}
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
