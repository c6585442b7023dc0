package placement

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// validateReplicas checks how replicas are divided.
func validateReplicas(r *placementv1alpha1.ReplicaRules, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	switch r.Mode {
	case placementv1alpha1.ReplicasDivide:
	case "", placementv1alpha1.ReplicasDuplicate:
		if r.By != "" {
			errs = append(errs, field.Forbidden(path.Child("by"), "nothing is divided; set mode to Divide, or leave it out"))
		}
		if len(r.Targets) > 0 {
			errs = append(errs, field.Forbidden(path.Child("targets"), "nothing is divided; set mode to Divide, or leave them out"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("mode"), r.Mode,
			[]placementv1alpha1.ReplicaMode{placementv1alpha1.ReplicasDuplicate, placementv1alpha1.ReplicasDivide}))
	}
	switch r.By {
	case "", placementv1alpha1.DivideByWeights, placementv1alpha1.DivideByFree, placementv1alpha1.DivideByPacked:
	default:
		errs = append(errs, field.NotSupported(path.Child("by"), r.By,
			[]placementv1alpha1.DivideBy{placementv1alpha1.DivideByWeights, placementv1alpha1.DivideByFree, placementv1alpha1.DivideByPacked}))
	}
	errs = append(errs, atMost(len(r.Targets), maxReplicaTargets, path.Child("targets"))...)
	for i, t := range r.Targets {
		errs = append(errs, validateReplicaTarget(t, r.By, path.Child("targets").Index(i))...)
	}
	return errs
}

func validateReplicaTarget(t placementv1alpha1.ReplicaTarget, by placementv1alpha1.DivideBy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Term != nil {
		errs = append(errs, validateTerm(*t.Term, path.Child("term"))...)
	}
	between := func(n *int32, name string, most int32) {
		if n != nil && (*n < 0 || *n > most) {
			errs = append(errs, field.Invalid(path.Child(name), *n, fmt.Sprintf("must be between 0 and %d", most)))
		}
	}
	between(t.Weight, "weight", maxReplicaWeight)
	between(t.Min, "min", maxReplicas)
	between(t.Max, "max", maxReplicas)
	if t.Max != nil && ptr.Deref(t.Min, 0) > *t.Max {
		errs = append(errs, field.Invalid(path.Child("min"), *t.Min, fmt.Sprintf("must not be more than max (%d)", *t.Max)))
	}
	if t.Weight != nil && by != "" && by != placementv1alpha1.DivideByWeights {
		errs = append(errs, field.Forbidden(path.Child("weight"), "counts by Weights only; leave it out, or set by to Weights"))
	}
	if t.Weight == nil && t.Min == nil && t.Max == nil {
		errs = append(errs, field.Required(path, "weight, min or max"))
	}
	return errs
}
