package placement

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// ValidatePolicy checks a policy; path is that of the spec.
func ValidatePolicy(spec *placementv1alpha1.PolicySpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateSelector(spec.LogicalClusterSelector, path.Child("logicalClusterSelector"))...)
	errs = append(errs, validateSelector(spec.NamespaceSelector, path.Child("namespaceSelector"))...)
	for i := range spec.Terms {
		errs = append(errs, validateSelector(&spec.Terms[i], path.Child("terms").Index(i))...)
	}
	for i, t := range spec.Tolerations {
		errs = append(errs, validateToleration(t, path.Child("tolerations").Index(i))...)
	}
	if spec.Count != nil && *spec.Count < 1 {
		errs = append(errs, field.Invalid(path.Child("count"), *spec.Count, "must be at least 1"))
	}
	switch spec.IfImpossible {
	case "", placementv1alpha1.ImpossiblePending, placementv1alpha1.ImpossibleRefuse:
	default:
		errs = append(errs, field.NotSupported(path.Child("ifImpossible"), spec.IfImpossible,
			[]placementv1alpha1.Impossible{placementv1alpha1.ImpossiblePending, placementv1alpha1.ImpossibleRefuse}))
	}
	return errs
}

func validateSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

// validateToleration follows Kubernetes' own check of the tolerations of pods.
func validateToleration(t corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	} else if t.Operator != corev1.TolerationOpExists {
		errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "must be Exists when key is empty, which means all keys and all values"))
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, problem))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty when operator is Exists"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator,
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect,
			[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
	}
	if t.TolerationSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("tolerationSeconds"), "is not used: work leaves a physical cluster at once or not at all"))
	}
	return errs
}
