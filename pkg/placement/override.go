package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/override"
)

// overrideOf is an Override that has been read.
type overrideOf struct {
	placementv1alpha1.DecidedOverride
	rank int
	term labels.Selector
}

// overridesOf are those of a policy. One that cannot be honoured says so: the policy holds
// otherwise, and moves nothing.
func overridesOf(p Policy) []overrideOf {
	var out []overrideOf
	for i, o := range p.Rules.Overrides {
		read := overrideOf{rank: rank(p.Level), term: labels.Everything(), DecidedOverride: placementv1alpha1.DecidedOverride{
			Name: fmt.Sprintf("overrides[%d] of %s", i, p), Objects: o.Objects, Patch: o.Patch, Permits: o.Permits,
		}}
		if o.Term != nil {
			term, err := selector(*o.Term)
			if err != nil {
				read.Problem = err.Error()
			} else {
				read.term = term
			}
		}
		mayPermit := p.Level == placementv1alpha1.PolicyGlobal && p.LogicalClusterSelector != nil
		if errs := validateChange(o, mayPermit, field.NewPath("overrides").Index(i)); read.Problem == "" && len(errs) > 0 {
			read.Problem = errs[0].Error() // of before this was checked
		}
		if read.Problem != "" {
			read.Patch, read.Permits = nil, nil
		}
		out = append(out, read)
	}
	return out
}

// inOrder are the overrides of all policies as they are applied: of the most general level
// first, and of one level as they were read, by name. Of more than are permitted, one in
// the place of the rest says so: none of them is left out in silence.
func inOrder(read []overrideOf) []overrideOf {
	out := slices.Clone(read)
	slices.SortStableFunc(out, func(a, b overrideOf) int { return b.rank - a.rank })
	size := 0
	for i := range out {
		size += override.Bytes(out[i].Patch, out[i].Permits)
		if i < override.MaxOfUnit && size <= override.MaxBytesOfUnit {
			continue
		}
		out[i].Patch, out[i].Permits, out[i].Objects, out[i].term = nil, nil, nil, labels.Everything()
		out[i].Problem = fmt.Sprintf("all policies together have more than %d overrides, or %d bytes of them; shorten them", override.MaxOfUnit, override.MaxBytesOfUnit)
		return out[:i+1]
	}
	return out
}

// OverridesOn are what the policies change of the copies of a unit on some physical
// clusters.
func OverridesOn(s Snapshot, u Unit, physicalClusters []string) []placementv1alpha1.DecidedOverride {
	return compile(s, u).overridesOn(physicalClusters, s.PhysicalClusters)
}

func (r *rules) overridesOn(chosen []string, from []PhysicalCluster) []placementv1alpha1.DecidedOverride {
	var out []placementv1alpha1.DecidedOverride
	for _, o := range inOrder(r.overrides) {
		decided := o.DecidedOverride
		for _, c := range from {
			if slices.Contains(chosen, c.Name) && o.term.Matches(labels.Set(c.Labels)) {
				decided.PhysicalClusters = append(decided.PhysicalClusters, c.Name)
			}
		}
		if slices.Sort(decided.PhysicalClusters); len(decided.PhysicalClusters) > 0 {
			out = append(out, decided)
		}
	}
	return out
}

// SameOverrides reports whether two lists of overrides say the same.
func SameOverrides(a, b []placementv1alpha1.DecidedOverride) bool {
	if len(a) != len(b) {
		return false
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// PermitsOn is what a physical cluster permits an object of a unit: what it permits everybody, and
// what policies of admins permit besides. selects says whether a selection selects the object.
func PermitsOn(s Snapshot, u Unit, c PhysicalCluster, selects func(*placementv1alpha1.ObjectSelection) bool) fleetv1alpha1.Tenancy {
	if !slices.ContainsFunc(s.Policies, Policy.permits) {
		return c.Permits()
	}
	var here []placementv1alpha1.TargetOverride
	for _, o := range OverridesOn(s, u, []string{c.Name}) {
		if selects(o.Objects) {
			here = append(here, placementv1alpha1.TargetOverride{Permits: o.Permits, Problem: o.Problem})
		}
	}
	return override.Permits(c.Permits(), here)
}

// permits says that a policy says what is permitted, which few do.
func (p Policy) permits() bool {
	return slices.ContainsFunc(p.Rules.Overrides, func(o placementv1alpha1.Override) bool { return o.Permits != nil })
}

// validateOverrides checks the overrides of one policy; mayPermit says that an admin wrote it
// for logical clusters that it names.
func validateOverrides(list []placementv1alpha1.Override, mayPermit bool, path *field.Path) field.ErrorList {
	errs := atMost(len(list), override.MaxOfPolicy, path)
	size := 0
	for i := range list {
		o, at := &list[i], path.Index(i)
		if o.Term != nil {
			errs = append(errs, validateTerm(*o.Term, at.Child("term"))...)
		}
		if o.Objects != nil {
			errs = append(errs, validateObjects(o.Objects, at.Child("objects"))...)
		}
		errs = append(errs, validateChange(*o, mayPermit, at)...)
		size += override.Bytes(o.Patch, o.Permits)
	}
	if size > override.MaxBytesOfPolicy {
		errs = append(errs, field.TooLong(path, "", override.MaxBytesOfPolicy))
	}
	return errs
}

// ofPhysicalCluster refuses a field of permits that no policy may have.
func ofPhysicalCluster(path *field.Path) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, "they are those of the physical cluster: set them in spec.tenancy of the PhysicalCluster")}
}

// validateChange checks what an override changes, or permits; path is that of the override.
func validateChange(o placementv1alpha1.Override, mayPermit bool, path *field.Path) field.ErrorList {
	at := path.Child("permits")
	switch {
	case o.Permits == nil:
		return override.Validate(o.Patch, path.Child("patch"))
	case !mayPermit:
		return field.ErrorList{field.Forbidden(at, `only a policy of "root" with a logicalClusterSelector says what is permitted besides; what is for all logical clusters is spec.tenancy of the PhysicalCluster`)}
	case len(o.Patch) > 0:
		return field.ErrorList{field.Forbidden(path.Child("patch"), "an override has a patch or permits; make two")}
	case !equality.Semantic.DeepEqual(o.Permits.Network, fleetv1alpha1.Network{}):
		return field.ErrorList{field.Forbidden(at.Child("network"), "the network is that of the physical cluster: set it in spec.tenancy of the PhysicalCluster")}
	case len(o.Permits.RuntimeClasses) > 0: // of which it reports what all may have
		return ofPhysicalCluster(at.Child("runtimeClasses"))
	case len(o.Permits.EndpointCIDRs) > 0: // endpoints are of no unit
		return ofPhysicalCluster(at.Child("endpointCIDRs"))
	case len(o.Permits.StorageClassNames) > 0: // where a unit may be says what its classes are there
		return ofPhysicalCluster(at.Child("storageClassNames"))
	case len(o.Permits.IngressClassNames) > 0:
		return ofPhysicalCluster(at.Child("ingressClassNames"))
	}
	return nil
}
