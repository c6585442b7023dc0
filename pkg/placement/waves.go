package placement

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// maxWaves is how many waves a policy may name; what they leave is one more.
	maxWaves = 16
	// maxSoakSeconds is a week.
	maxSoakSeconds = 7 * 24 * 60 * 60
)

// waves are those of a policy that has been read.
type waves []wave

type wave struct {
	placementv1alpha1.RolloutWave
	term labels.Selector
}

// newWaves are those of a policy; ok says that it has a rule.
func newWaves(p Policy) (w waves, ok bool, err error) {
	if p.Rules.Rollout == nil {
		return nil, false, nil
	}
	for _, from := range p.Rules.Rollout.Waves {
		read := wave{RolloutWave: from, term: labels.Everything()}
		if from.Term != nil {
			if read.term, err = selector(*from.Term); err != nil {
				return nil, true, err
			}
		}
		w = append(w, read)
	}
	return w, true, nil
}

// over are the waves over chosen physical clusters: each is in the first one that selects it,
// the rest in a last one. Waves that have none are left out, and what one of them said of
// soaking and of approval with them.
func (w waves) over(chosen []string, from []PhysicalCluster) *placementv1alpha1.DecidedRollout {
	if len(w) == 0 || len(chosen) == 0 {
		return nil
	}
	out, left := &placementv1alpha1.DecidedRollout{}, slices.Sorted(slices.Values(chosen))
	for _, wave := range w {
		decided := placementv1alpha1.DecidedWave{SoakSeconds: min(wave.SoakSeconds, maxSoakSeconds), Approval: wave.Approval}
		for _, name := range left {
			i := slices.IndexFunc(from, func(c PhysicalCluster) bool { return c.Name == name })
			if i >= 0 && wave.term.Matches(labels.Set(from[i].Labels)) && (wave.Count == nil || len(decided.PhysicalClusters) < int(*wave.Count)) {
				decided.PhysicalClusters = append(decided.PhysicalClusters, name)
			}
		}
		if len(decided.PhysicalClusters) > 0 {
			out.Waves = append(out.Waves, decided)
			left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(decided.PhysicalClusters, name) })
		}
	}
	if len(left) > 0 {
		out.Waves = append(out.Waves, placementv1alpha1.DecidedWave{PhysicalClusters: left})
	}
	return out
}

// SameRollout reports whether the waves of two decisions are the same.
func SameRollout(a, b *placementv1alpha1.DecidedRollout) bool {
	return equality.Semantic.DeepEqual(a, b)
}

// validateRollout checks the waves of one policy.
func validateRollout(r *placementv1alpha1.Rollout, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	path = path.Child("waves")
	if len(r.Waves) == 0 {
		return field.ErrorList{field.Required(path, "which physical clusters get changes first; leave rollout out for all at once")}
	}
	errs := atMost(len(r.Waves), maxWaves, path)
	for i := range r.Waves {
		w, at := &r.Waves[i], path.Index(i)
		if w.Term != nil {
			errs = append(errs, validateTerm(*w.Term, at.Child("term"))...)
		}
		errs = append(errs, validateCount(w.Count, at.Child("count"))...)
		if w.SoakSeconds < 0 || w.SoakSeconds > maxSoakSeconds {
			errs = append(errs, field.Invalid(at.Child("soakSeconds"), w.SoakSeconds, fmt.Sprintf("must be between 0 and %d", maxSoakSeconds)))
		}
		switch w.Approval {
		case "", placementv1alpha1.ApprovalAutomatic, placementv1alpha1.ApprovalManual:
		default:
			errs = append(errs, field.NotSupported(at.Child("approval"), w.Approval,
				[]placementv1alpha1.RolloutApproval{placementv1alpha1.ApprovalAutomatic, placementv1alpha1.ApprovalManual}))
		}
	}
	return errs
}
