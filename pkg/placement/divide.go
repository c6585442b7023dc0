package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// replicas is how a policy divides replicas; by is empty if it does not.
type replicas struct {
	by      placementv1alpha1.DivideBy
	targets []replicaTarget
}

// replicaTarget is a ReplicaTarget that has been read; without a term it is about all.
type replicaTarget struct {
	placementv1alpha1.ReplicaTarget
	term labels.Selector
}

// newReplicas is that of a policy; ok is false if it says nothing about it.
func newReplicas(p Policy) (r replicas, ok bool, err error) {
	from := p.Rules.Replicas
	if from == nil {
		return r, false, nil
	}
	if from.Mode != placementv1alpha1.ReplicasDivide {
		return r, true, nil
	}
	if r.by = from.By; r.by == "" {
		r.by = placementv1alpha1.DivideByWeights
	}
	for _, t := range from.Targets {
		read := replicaTarget{ReplicaTarget: t, term: labels.Everything()}
		if t.Term != nil {
			if read.term, err = selector(*t.Term); err != nil {
				return r, true, err
			}
		}
		r.targets = append(r.targets, read)
	}
	return r, true, nil
}

// DivisionOver is how the policies divide the replicas of a unit over some physical
// clusters.
func DivisionOver(s Snapshot, u Unit, physicalClusters []string) *placementv1alpha1.DecidedDivision {
	return compile(s, u).replicas.over(physicalClusters, s.PhysicalClusters)
}

// over is how replicas are divided over the chosen of some physical clusters.
func (r replicas) over(chosen []string, from []PhysicalCluster) *placementv1alpha1.DecidedDivision {
	if r.by == "" || len(chosen) == 0 {
		return nil
	}
	out := &placementv1alpha1.DecidedDivision{By: r.by}
	for _, name := range chosen {
		i := slices.IndexFunc(from, func(c PhysicalCluster) bool { return c.Name == name })
		if i < 0 { // it is not registered any more
			out.Targets = append(out.Targets, placementv1alpha1.DecidedReplicas{PhysicalCluster: name})
			continue
		}
		out.Targets = append(out.Targets, r.on(from[i]))
	}
	return out
}

func (r replicas) on(c PhysicalCluster) placementv1alpha1.DecidedReplicas {
	out := placementv1alpha1.DecidedReplicas{PhysicalCluster: c.Name, Weight: 1, Ordinals: slices.Contains(c.Status.Features, fleetv1alpha1.FeatureOrdinals)}
	for _, t := range r.targets {
		if t.term.Matches(labels.Set(c.Labels)) {
			out.Weight, out.Min, out.Max = ptr.Deref(t.Weight, 1), t.Min, t.Max
			break
		}
	}
	if r.by == placementv1alpha1.DivideByWeights {
		return out
	}
	out.Weight = 0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, reported := c.Status.Allocatable[name]; !reported {
			continue
		}
		left := free(c, name)
		if left.Sign() < 0 {
			left = resource.Quantity{}
		}
		if out.Free == nil {
			out.Free = corev1.ResourceList{}
		}
		out.Free[name] = left
	}
	return out
}

// ofShare is what of some requests one of so many physical clusters gets, rounded up.
func ofShare(requests corev1.ResourceList, among int) corev1.ResourceList {
	if among < 2 {
		return requests
	}
	out := corev1.ResourceList{}
	for name, q := range requests {
		out[name] = *resource.NewMilliQuantity((q.MilliValue()+int64(among)-1)/int64(among), q.Format)
	}
	return out
}

// drift is by how many percent of all that is free the part of one physical cluster has
// to change before what is free is written anew: it changes with every report.
const drift = 10

// SameDivision reports whether two divisions come to the same. What is free is the same
// while no physical cluster has much more or less of it, beside the others.
func SameDivision(a, b *placementv1alpha1.DecidedDivision) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.By != b.By || len(a.Targets) != len(b.Targets) {
		return false
	}
	for i, x := range a.Targets {
		y := b.Targets[i]
		if x.PhysicalCluster != y.PhysicalCluster || x.Weight != y.Weight || !ptr.Equal(x.Min, y.Min) || !ptr.Equal(x.Max, y.Max) || x.Ordinals != y.Ordinals {
			return false
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if was, is := partOf(a, i, name), partOf(b, i, name); was-is > drift || is-was > drift {
				return false
			}
		}
	}
	return true
}

// partOf is the percentage that one target has of what is free of a resource.
func partOf(d *placementv1alpha1.DecidedDivision, i int, name corev1.ResourceName) float64 {
	sum, own := 0.0, 0.0
	for j, t := range d.Targets {
		left := t.Free[name]
		n := left.AsApproximateFloat64()
		if sum += n; j == i {
			own = n
		}
	}
	if sum <= 0 {
		return 0
	}
	return 100 * own / sum
}
