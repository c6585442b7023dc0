package workload

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Runs says whether an object may run on two physical clusters at a time, as it does for
// a while when it moves.
type Runs string

const (
	// RunsAnywhere: it may, or does not run. Also what is said of an object of which
	// only the metadata are known.
	RunsAnywhere Runs = ""
	// RunsOnce: it is stopped in one place before it is started in another.
	RunsOnce Runs = "Once"
	// RunsToEnd: it runs to its end where it began, and is not begun again.
	RunsToEnd Runs = "ToEnd"
	// RunsEnded: it did.
	RunsEnded Runs = "Ended"
)

// RunsOf says how an object runs.
//
//	kind                               then
//	that ends (Job, Pod), ended        Ended
//	that ends                          ToEnd
//	StatefulSet: each of its pods is   Once
//	a singleton by contract
//	CronJob: each run is one           Once
//	Deployment, strategy Recreate      Once
//	any other                          Anywhere
func RunsOf(kind Kind, obj map[string]any) Runs {
	if len(kind.Finished.Conditions)+len(kind.Finished.Phases) > 0 {
		if Ended(kind, obj) {
			return RunsEnded
		}
		return RunsToEnd
	}
	switch kind.Semantics {
	case StatefulSetSemantics, CronJobSemantics:
		return RunsOnce
	}
	if strategy, _, _ := unstructured.NestedString(obj, "spec", "strategy", "type"); kind.PodTemplate != nil && strategy == "Recreate" {
		return RunsOnce
	}
	return RunsAnywhere
}

// Ended reports whether an object, or the copy whose status it has, ran to its end.
func Ended(kind Kind, obj map[string]any) bool {
	phase, _, _ := unstructured.NestedString(obj, "status", "phase")
	if slices.Contains(kind.Finished.Phases, phase) {
		return true
	}
	conditions, _, _ := unstructured.NestedSlice(obj, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		name, _ := condition["type"].(string)
		return condition["status"] == "True" && slices.Contains(kind.Finished.Conditions, name)
	})
}

// Addressed says that objects of the kind publish addresses at which clients reach what
// runs on a physical cluster.
func (k Kind) Addressed() bool {
	return k.Semantics == ServiceSemantics || k.Semantics == IngressSemantics
}

// MountsClaims says that the pods of an object mount claims: two physical clusters must not have
// such pods of a volume at a time, if it is not one of many.
func MountsClaims(kind Kind, obj map[string]any) bool {
	mounted, own := ClaimsOf(kind, obj)
	return own || len(mounted) > 0
}

// ClaimsOf are the claims that the pods of an object mount, by name. own says that they mount others,
// which are made for each pod.
func ClaimsOf(kind Kind, obj map[string]any) (mounted []string, own bool) {
	if kind.IsClaim() {
		return nil, false
	}
	for _, template := range PodTemplates(kind, obj) {
		for _, v := range children(child(template, "spec"), "volumes") {
			if name := text(child(v, "persistentVolumeClaim"), "claimName"); name != "" {
				mounted = append(mounted, name)
			}
		}
	}
	return mounted, len(VolumeClaims(kind, obj)) > 0
}

// StopsFirst says that an object that moves is stopped where it was before it is started
// where it goes.
func StopsFirst(kind Kind, obj map[string]any) bool {
	runs := RunsOf(kind, obj)
	return runs == RunsOnce || runs == RunsAnywhere && MountsClaims(kind, obj)
}

// TakesClaims says that the claims that an object makes go with it.
func TakesClaims(kind Kind, obj map[string]any) bool {
	when, _, _ := unstructured.NestedString(obj, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	return kind.Semantics == StatefulSetSemantics && when == "Delete" && len(VolumeClaims(kind, obj)) > 0
}
