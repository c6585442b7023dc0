package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Bounds of what a review may suppose.
const (
	// maxSupposedGone bounds the physical clusters that would be gone or drained.
	maxSupposedGone = 64
	maxAssumed      = 1000
	maxResources    = 32
	// maxUnits is more than any physical cluster has.
	maxUnits = 1_000_000
)

// ValidateSupposed checks what a review supposes of physical clusters; path is that of the
// spec. admin says that who asks may know how many units there are of others.
func ValidateSupposed(spec *placementv1alpha1.PlacementReviewSpec, admin bool, path *field.Path) field.ErrorList {
	errs := atMost(len(spec.Without), maxSupposedGone, path.Child("without"))
	errs = append(errs, atMost(len(spec.Drained), maxSupposedGone, path.Child("drained"))...)
	assumed := path.Child("assumed")
	if len(spec.Assumed) > maxAssumed {
		return append(errs, field.TooMany(assumed, len(spec.Assumed), maxAssumed))
	}
	known := make(map[string]bool, len(spec.Assumed))
	for i, a := range spec.Assumed {
		at := assumed.Index(i)
		switch {
		case a.PhysicalCluster == "":
			errs = append(errs, field.Required(at.Child("physicalCluster"), "whose room is taken"))
		case known[a.PhysicalCluster]:
			errs = append(errs, field.Duplicate(at.Child("physicalCluster"), a.PhysicalCluster))
		}
		known[a.PhysicalCluster] = true
		switch {
		case a.Units < 0 || a.Units > maxUnits:
			errs = append(errs, field.Invalid(at.Child("units"), a.Units, "must be between 0 and 1000000"))
		case a.Units > 0 && !admin:
			errs = append(errs, field.Forbidden(at.Child("units"), "only admins of all logical clusters may suppose how many units others have; leave it out"))
		}
		errs = append(errs, validateRequests(a.Requests, at.Child("requests"))...)
	}
	return errs
}

// validateRequests has nobody suppose less than there is: what others have taken beyond what
// there is would be seen.
func validateRequests(requests corev1.ResourceList, path *field.Path) field.ErrorList {
	if len(requests) > maxResources {
		return field.ErrorList{field.TooMany(path, len(requests), maxResources)}
	}
	var errs field.ErrorList
	for _, name := range sortedNames(requests) {
		at := path.Key(string(name))
		for _, problem := range validation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(at, name, problem))
		}
		if quantity := requests[name]; quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be 0 or more"))
		}
	}
	return errs
}
