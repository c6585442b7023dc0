package stamp

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Wish is what is wanted of an object in all.
type Wish struct {
	// Replicas are divided. Of a Job they are its parallelism, of an autoscaler the least
	// replicas, of a disruption budget its number.
	Replicas int32
	// Requests are what one replica needs.
	Requests corev1.ResourceList
	// Whole: it is not divided after all, each physical cluster has all of it.
	Whole bool
	// Alone: it cannot be divided, and runs as a whole in one place, see alone.
	Alone bool

	// Weights are, of a disruption budget, the replicas of what it is about, by physical
	// cluster: its parts are in proportion to them, and no larger.
	Weights map[string]int32
	// Ceiling says that no more than Replicas are wanted: others have less first.
	Ceiling bool
	// Max are the most replicas of an autoscaler.
	Max *int32
	// Scales are, of an autoscaler, the targets of what it scales, by the parts that these have.
	Scales placementv1alpha1.Targets
	// Runs says that it is a Job: once begun, its parts stay. Completions are how often a pod
	// has to succeed; nil: until one does that.
	Runs        bool
	Completions *int32
	// Ordinals says that it is a StatefulSet, which is divided by the numbers of its pods.
	Ordinals *Ordinals
}

// Ordinals are the numbers of the pods of a StatefulSet: from Start, as many as there are replicas.
type Ordinals struct {
	Start int32
	// Claims says that each pod has claims of its own, which stay where they were made.
	Claims bool
	// Scaled says that an autoscaler scales it.
	Scaled bool
	// Former are, of one that is new, the ordinals of which there are claims of an earlier one, by
	// physical cluster, and Unclear says where pods of that may run.
	Former  map[string]placementv1alpha1.OrdinalRange
	Unclear map[string]bool
}

// Other is an object of the namespace, which a disruption budget or an autoscaler may be about.
type Other struct {
	Kind workload.Kind
	*unstructured.Unstructured
}

// IsAboutOthers says that how an object of a kind is divided follows from others: those
// that make pods, and their autoscalers.
func IsAboutOthers(kind workload.Kind) bool {
	return kind.Divisible() && (kind.Semantics == workload.StatefulSetSemantics || kind.Semantics == workload.DisruptionBudgetSemantics || kind.Semantics == workload.AutoscalerSemantics)
}

// MayBeOther says that objects of a kind may be such others.
func MayBeOther(kind workload.Kind) bool {
	return kind.Role == workload.Placed && !kind.IsPod() && (kind.PodTemplate != nil || len(kind.Scales) > 0)
}

// WishOf is that of an object of a kind that can be divided. It is nil of any other, and if
// it follows from others that are not known: nil.
func WishOf(kind workload.Kind, obj map[string]any, others []Other) *Wish {
	if !kind.Divisible() {
		return nil
	}
	switch kind.Semantics {
	case workload.StatefulSetSemantics:
		if others == nil {
			return nil
		}
		return statefulSet(kind, obj, others)
	case workload.JobSemantics:
		parallelism, completions, ok := workload.Run(obj)
		return &Wish{Replicas: parallelism, Completions: completions, Runs: true, Alone: !ok, Requests: requests(kind, obj)}
	case workload.CronJobSemantics:
		return &Wish{Alone: true, Requests: requests(kind, obj)}
	case workload.AutoscalerSemantics:
		if others == nil {
			return nil
		}
		least, most := workload.Bounds(obj)
		wish := &Wish{Replicas: least, Max: &most}
		if scaled, ok := scaledBy(kind, obj, others); ok {
			// Of what is not divided each physical cluster has all, and the bounds are about all of it, too.
			wish.Whole, wish.Scales = !scaled.Kind.Replicated(), TargetsOf(scaled.GetAnnotations())
		}
		return wish
	case workload.DisruptionBudgetSemantics:
		if others == nil {
			return nil
		}
		field, n, ok := workload.BudgetField(obj)
		weights := weightsOf(workload.Selector(kind, obj), others)
		return &Wish{Replicas: n, Ceiling: field == "maxUnavailable", Weights: weights, Whole: !ok || weights == nil}
	}
	return &Wish{Replicas: int32(min(workload.Replicas(kind, obj), 1<<31-1)), Requests: requests(kind, obj)} //nolint:gosec // it is bounded
}

// statefulSet is the wish of one that begins with all of it if an autoscaler scales it: that would
// leave its range.
func statefulSet(kind workload.Kind, obj map[string]any, others []Other) *Wish {
	name, _, _ := unstructured.NestedString(obj, "metadata", "name")
	return &Wish{
		Replicas: int32(min(workload.Replicas(kind, obj), 1<<31-1)), Requests: requests(kind, obj), //nolint:gosec // it is bounded
		Ordinals: &Ordinals{
			Start: workload.FirstOrdinal(obj), Claims: len(workload.VolumeClaims(kind, obj)) > 0,
			Scaled: scales(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, name, others),
		},
	}
}

// scales says that some of the others scales an object.
func scales(kind schema.GroupKind, name string, others []Other) bool {
	return slices.ContainsFunc(others, func(o Other) bool {
		group, scaled, of := workload.Scaled(o.Kind, o.Object)
		return of == name && scaled == kind.Kind && group == kind.Group && o.GetDeletionTimestamp() == nil
	})
}

func requests(kind workload.Kind, obj map[string]any) (of corev1.ResourceList) {
	for _, t := range workload.PodTemplates(kind, obj) {
		of, _ = workload.PodRequests(t) // what cannot be read needs nothing
	}
	return of
}

// weightsOf are the replicas of what a selector selects, by physical cluster; nil if that is
// nothing, or not all of it is divided: then a number is about all of it everywhere.
func weightsOf(selector labels.Selector, others []Other) map[string]int32 {
	if selector == nil {
		return nil
	}
	out := map[string]int32{}
	for _, o := range others {
		if Mirrored(o) || o.GetDeletionTimestamp() != nil || !HasTargets(o) || !selectsPodsOf(selector, o) {
			continue
		}
		bounds := boundsOf(o, others)
		for name, target := range TargetsOf(o.GetAnnotations()) {
			switch {
			case !target.Keeps():
				continue
			case !o.Kind.Replicated() && target.Ordinals == nil || target.Replicas == nil:
				return nil
			}
			share := ptr.Deref(target.Share, *target.Replicas)
			if b, ok := bounds[name]; ok && b.Max != nil && b.Replicas != nil {
				share = min(max(share, *b.Replicas), *b.Max)
			}
			out[name] += share
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func selectsPodsOf(selector labels.Selector, o Other) bool {
	for _, pods := range workload.PodLabels(o.Kind, o.Object) {
		if selector.Matches(pods) {
			return true
		}
	}
	return false
}

// scaledBy is what an autoscaler scales; ok is false if it is not among the others.
func scaledBy(scaler workload.Kind, obj map[string]any, others []Other) (_ Other, ok bool) {
	group, kind, name := workload.Scaled(scaler, obj)
	for _, o := range others {
		if name == o.GetName() && kind == o.Kind.Kind && group == o.Kind.Group {
			return o, true
		}
	}
	return Other{}, false
}

// boundsOf are the targets of what scales an object.
func boundsOf(o Other, others []Other) placementv1alpha1.Targets {
	for _, scaler := range others {
		group, kind, name := workload.Scaled(scaler.Kind, scaler.Object)
		if name == o.GetName() && kind == o.Kind.Kind && group == o.Kind.Group && scaler.GetDeletionTimestamp() == nil {
			return TargetsOf(scaler.GetAnnotations())
		}
	}
	return nil
}

// Forbids are the physical clusters on which a disruption budget permits none, if it does so
// elsewhere: its part is as large as that of what it is about, or nothing.
func (w Wish) Forbids(targets placementv1alpha1.Targets) []string {
	var none []string
	some := false
	for _, name := range targets.Names() {
		target := targets[name]
		if !target.Keeps() || target.Replicas == nil || w.Weights[name] == 0 {
			continue
		}
		permits := ptr.Deref(target.Share, *target.Replicas)
		if !w.Ceiling {
			permits = w.Weights[name] - permits
		}
		if some = some || permits > 0; permits <= 0 {
			none = append(none, name)
		}
	}
	if !some {
		return nil // it is what the user wants
	}
	return none
}
