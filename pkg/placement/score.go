package placement

import (
	"cmp"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// order is what a policy says about which physical clusters are better.
type order struct {
	preferences []labels.Selector
	weights     []weight
}

// weight is a Weight that has been read; term is nil if it has none.
type weight struct {
	placementv1alpha1.Weight
	term labels.Selector
}

// newOrder is that of a policy; ok is false if it has none.
func newOrder(p Policy) (o order, ok bool, err error) {
	if len(p.Rules.Preferences) == 0 && len(p.Rules.Weights) == 0 {
		return o, false, nil
	}
	if o.preferences, err = selectors(p.Rules.Preferences); err != nil {
		return o, true, err
	}
	for _, w := range p.Rules.Weights {
		read := weight{Weight: w}
		if w.Term != nil {
			if read.term, err = selector(*w.Term); err != nil {
				return o, true, err
			}
		}
		o.weights = append(o.weights, read)
	}
	return o, true, nil
}

// candidate is a physical cluster that fits, with what it is ranked by.
type candidate struct {
	name string
	// at is its place among those that were asked for.
	at     int
	labels labels.Set
	// decided: the unit is there already.
	decided bool
	// stays is what counts in the place of decided if the unit returns, after preferences, see
	// Unit.stays.
	stays int
	// preference is the place of the first preference that it matches; after all of
	// them if there is none.
	preference int
	// score is the sum of the weights.
	score int
	// free is the share of the scarcest of cpu and memory that is free, in whole
	// percent: differences below that are noise, and the number of placements
	// decides. 0 if the physical cluster has not reported.
	free int
	// avoid counts the PreferNoSchedule taints that are not tolerated.
	avoid int
	// placements counts the units on it.
	placements int
}

// candidate is a physical cluster that fits, with all but the score.
func (r *rules) candidate(c PhysicalCluster, decided bool) candidate {
	out := candidate{name: c.Name, labels: c.Labels, decided: decided, free: freeShare(c), placements: c.Placements}
	if r.unit.Returning {
		out.decided, out.stays = false, r.unit.stays(c.Name)
	}
	for _, taint := range c.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if _, ok := r.tolerated(taint); !ok {
			out.avoid++
		}
	}
	for _, s := range r.order.preferences {
		if s.Matches(out.labels) {
			break
		}
		out.preference++
	}
	return out
}

// better orders candidates, the best first; the name makes it total. What the unit
// has comes before all else: it moves as little as possible. What an admin wants to be avoided
// is taken after what fits else, however empty it is: being avoided makes it so.
func better(a, b *candidate) int {
	if a.decided != b.decided {
		if a.decided {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.preference, b.preference),
		-cmp.Compare(a.stays, b.stays),
		-cmp.Compare(a.score, b.score),
		cmp.Compare(a.avoid, b.avoid),
		-cmp.Compare(a.free, b.free),
		cmp.Compare(a.placements, b.placements),
		cmp.Compare(a.name, b.name),
	)
}

// weigh adds up the weights. The numbers in labels are relative to those of all that
// fit.
func (o order) weigh(fit []PhysicalCluster, candidates []*candidate) {
	for _, w := range o.weights {
		low, high := w.bounds(fit)
		for i, c := range fit {
			candidates[i].score += int(w.Weight.Weight) * w.value(c, low, high)
		}
	}
}

// bounds are the least and the greatest number in the label.
func (w weight) bounds(fit []PhysicalCluster) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range fit {
		if n, ok := number(c.Labels[w.Label]); ok {
			low, high = min(low, n), max(high, n)
		}
	}
	return low, high
}

// value is between 0 and 100.
func (w weight) value(c PhysicalCluster, low, high float64) int {
	switch {
	case w.term != nil && w.term.Matches(labels.Set(c.Labels)):
		return 100
	case w.term != nil:
		return 0
	case w.Free != "":
		return freePercent(c, w.Free)
	}
	n, ok := number(c.Labels[w.Label])
	switch {
	case !ok && w.Weight.Weight < 0:
		return 100 // no number is the worst
	case !ok || high <= low:
		return 0
	}
	return int(100 * ((n - low) / (high - low)))
}

// number reads a label; what is not finite is none.
func number(label string) (float64, bool) {
	if label == "" {
		return 0, false // of many, and an error costs more
	}
	n, err := strconv.ParseFloat(label, 64)
	return n, err == nil && math.Abs(n) <= 1e15
}

func freeShare(c PhysicalCluster) int {
	return min(freePercent(c, corev1.ResourceCPU), freePercent(c, corev1.ResourceMemory))
}

// freePercent is between 0 and 100; 0 if the physical cluster has not reported.
func freePercent(c PhysicalCluster, name corev1.ResourceName) int {
	total, used := allocatable(c, name), taken(c, name)
	if total.Sign() <= 0 {
		return 0
	}
	all := total.AsApproximateFloat64()
	return min(100, max(0, int(100*(all-used.AsApproximateFloat64())/all)))
}

// allocatable is what the physical cluster says, and no more than its admin does.
func allocatable(c PhysicalCluster, name corev1.ResourceName) resource.Quantity {
	claimed := c.Status.Allocatable[name]
	if bound, ok := c.Spec.Bounds[name]; ok && bound.Cmp(claimed) < 0 {
		return bound
	}
	return claimed
}

// free is what is allocatable and not taken; it may be negative.
func free(c PhysicalCluster, name corev1.ResourceName) resource.Quantity {
	left := allocatable(c, name).DeepCopy()
	left.Sub(taken(c, name))
	return left
}

// floor prints a quantity, a negative one as 0.
func floor(q resource.Quantity) string {
	if q.Sign() < 0 {
		return "0"
	}
	return q.String()
}
