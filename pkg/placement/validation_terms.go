package placement

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func atMost(n, limit int, path *field.Path) field.ErrorList {
	if n <= limit {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, limit)}
}

func validateTerms(terms []placementv1alpha1.PhysicalClusterTerm, path *field.Path) field.ErrorList {
	errs := atMost(len(terms), maxTerms, path)
	for i := range terms {
		errs = append(errs, validateTerm(terms[i], path.Index(i))...)
	}
	return errs
}

// validateTerm leaves to the stock selectors what an operator takes.
func validateTerm(t placementv1alpha1.PhysicalClusterTerm, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.MatchLabels, path.Child("matchLabels"))
	errs = append(errs, atMost(len(t.MatchLabels), maxLabels, path.Child("matchLabels"))...)
	errs = append(errs, atMost(len(t.MatchExpressions), maxExpressions, path.Child("matchExpressions"))...)
	for i, e := range t.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		operator, ok := operators[e.Operator]
		if !ok {
			errs = append(errs, field.NotSupported(at.Child("operator"), e.Operator, slices.Sorted(maps.Keys(operators))))
			continue
		}
		errs = append(errs, atMost(len(e.Values), maxValues, at.Child("values"))...)
		if _, err := labels.NewRequirement(e.Key, operator, e.Values, field.WithPath(at)); err != nil {
			var several utilerrors.Aggregate
			if !errors.As(err, &several) {
				several = utilerrors.NewAggregate([]error{err})
			}
			for _, problem := range several.Errors() {
				var fieldErr *field.Error
				if !errors.As(problem, &fieldErr) {
					fieldErr = field.Invalid(at, e.Values, problem.Error())
				}
				errs = append(errs, fieldErr)
			}
		}
	}
	return errs
}

// validateSelector bounds a selector of logical clusters or namespaces, too.
func validateSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
	errs = append(errs, atMost(len(s.MatchLabels), maxLabels, path.Child("matchLabels"))...)
	errs = append(errs, atMost(len(s.MatchExpressions), maxExpressions, path.Child("matchExpressions"))...)
	for i, e := range s.MatchExpressions {
		errs = append(errs, atMost(len(e.Values), maxValues, path.Child("matchExpressions").Index(i).Child("values"))...)
	}
	return errs
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
		if t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(path.Child("effect"), t.Effect, "must be NoExecute when tolerationSeconds is set"))
		}
		if *t.TolerationSeconds < 0 {
			errs = append(errs, field.Invalid(path.Child("tolerationSeconds"), *t.TolerationSeconds, "must be 0 or more"))
		}
	}
	return errs
}
