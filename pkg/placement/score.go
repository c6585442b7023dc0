package placement

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// candidate is a physical cluster that fits, with what it is ranked by.
type candidate struct {
	name string
	// free is the share of the scarcest of cpu and memory that is free, in whole
	// percent: differences below that are noise, and the number of placements
	// decides. 0 if the physical cluster has not reported.
	free int
	// avoid counts the PreferNoSchedule taints that are not tolerated.
	avoid int
	// placements counts the units on it.
	placements int
}

func (r *rules) candidate(c PhysicalCluster) candidate {
	out := candidate{name: c.Name, free: freeShare(c), placements: c.Placements}
	for _, taint := range c.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule && !r.tolerated(taint) {
			out.avoid++
		}
	}
	return out
}

// better orders candidates, the best first; the name makes it total.
func better(a, b candidate) int {
	return cmp.Or(
		-cmp.Compare(a.free, b.free),
		cmp.Compare(a.avoid, b.avoid),
		cmp.Compare(a.placements, b.placements),
		cmp.Compare(a.name, b.name),
	)
}

func freeShare(c PhysicalCluster) int {
	share := 100
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		total := c.Status.Allocatable[name]
		if total.Sign() <= 0 {
			return 0
		}
		left := free(c, name)
		percent := int(100 * left.AsApproximateFloat64() / total.AsApproximateFloat64())
		share = min(share, max(percent, 0))
	}
	return share
}

// free is what is allocatable and neither requested nor assumed; it may be
// negative.
func free(c PhysicalCluster, name corev1.ResourceName) resource.Quantity {
	left := c.Status.Allocatable[name].DeepCopy()
	left.Sub(c.Status.Requested[name])
	left.Sub(c.Assumed[name])
	return left
}

// floor prints a quantity, a negative one as 0.
func floor(q resource.Quantity) string {
	if q.Sign() < 0 {
		return "0"
	}
	return q.String()
}
