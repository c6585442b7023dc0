package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
			Name: fmt.Sprintf("overrides[%d] of %s", i, p), Objects: o.Objects, Patch: o.Patch,
		}}
		if o.Term != nil {
			term, err := selector(*o.Term)
			if err != nil {
				read.Problem = err.Error()
			} else {
				read.term = term
			}
		}
		if errs := override.Validate(o.Patch, field.NewPath("patch")); read.Problem == "" && len(errs) > 0 {
			read.Problem = errs[0].Error() // of before this was checked
		}
		if read.Problem != "" {
			read.Patch = nil
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
		size += override.Bytes(out[i].Patch)
		if i < override.MaxOfUnit && size <= override.MaxBytesOfUnit {
			continue
		}
		out[i].Patch, out[i].Objects, out[i].term = nil, nil, labels.Everything()
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

// validateOverrides checks the overrides of one policy.
func validateOverrides(list []placementv1alpha1.Override, path *field.Path) field.ErrorList {
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
		errs = append(errs, override.Validate(o.Patch, at.Child("patch"))...)
		size += override.Bytes(o.Patch)
	}
	if size > override.MaxBytesOfPolicy {
		errs = append(errs, field.TooLong(path, "", override.MaxBytesOfPolicy))
	}
	return errs
}
