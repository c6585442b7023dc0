package workload

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Whole numbers of objects whose parts run on several physical clusters. What is not there,
// or cannot be divided, is nil.

// BudgetField names the field of a disruption budget with its number: minAvailable or
// maxUnavailable. ok is false of a percentage, which is as true of a part as of all.
func BudgetField(obj map[string]any) (field string, n int32, ok bool) {
	spec := child(obj, "spec")
	for _, field := range []string{"minAvailable", "maxUnavailable"} {
		if n := whole(spec, field); n != nil {
			return field, *n, true
		}
	}
	return "", 0, false
}

// Bounds are the least and the most replicas of an autoscaler.
func Bounds(obj map[string]any) (least, most int32) {
	spec := child(obj, "spec")
	least, most = 1, 1
	if n := whole(spec, "minReplicas"); n != nil {
		least = *n
	}
	if n := whole(spec, "maxReplicas"); n != nil {
		most = *n
	}
	return least, max(least, most)
}

// ScalesFromNothing says that an autoscaler makes replicas of what wants none. A HorizontalPodAutoscaler lets it be, and says
// ScalingDisabled, unless the least that it makes is none, too: so people stop what it scales.
func ScalesFromNothing(kind schema.GroupKind, obj map[string]any) bool {
	least, _ := Bounds(obj)
	return kind != (schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}) || least == 0
}

// Run says how many pods of a Job run at a time, and how often one has to succeed: nil says
// until one knows that the work is done. ok is false if the Job cannot be divided: its pods
// are numbered, or none may run.
func Run(obj map[string]any) (parallelism int32, completions *int32, ok bool) {
	spec := child(obj, "spec")
	parallelism, completions = 1, whole(spec, "completions")
	if n := whole(spec, "parallelism"); n != nil {
		parallelism = *n
	} else if completions == nil {
		completions = &parallelism
	}
	if text(spec, "completionMode") == "Indexed" || parallelism == 0 {
		return 0, nil, false
	}
	if completions != nil {
		parallelism = min(parallelism, *completions)
	}
	return parallelism, completions, true
}

// FirstOrdinal is the number of the first pod of a StatefulSet.
func FirstOrdinal(obj map[string]any) int32 {
	if n := whole(child(child(obj, "spec"), "ordinals"), "start"); n != nil {
		return *n
	}
	return 0
}

// OrdinalOf is the ordinal of a pod with that name, of a StatefulSet; ok is false if it is no such.
func OrdinalOf(set, pod string) (n int32, ok bool) {
	digits, ok := strings.CutPrefix(pod, set+"-")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || strconv.FormatInt(number, 10) != digits || number < 0 || number == 1<<31-1 {
		return 0, false
	}
	return int32(number), true
}

// whole is the number in a field that is one and not below 0.
func whole(m map[string]any, field string) *int32 {
	switch m[field].(type) {
	case int64, int32, int, float64:
		n := int32(max(0, min(count(m, field), math.MaxInt32))) //nolint:gosec // it is bounded
		return &n
	}
	return nil
}
