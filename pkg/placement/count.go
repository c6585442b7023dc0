package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Counted is what a unit counts for on one of its physical clusters, whatever that reports.
//
//	it was let in with   its objects request now   it counts for
//	nothing              anything                  nothing
//	something            not known                 that
//	something            less                      less: it was scaled down, or has ended
//	something            more                      what it was let in with: for the rest nobody looked
//	                                               for room, and one tenant would fill it for others
func Counted(on placementv1alpha1.DecidedPhysicalCluster, now corev1.ResourceList) corev1.ResourceList {
	if len(now) == 0 {
		return on.Requests
	}
	out := make(corev1.ResourceList, len(on.Requests))
	for name, most := range on.Requests {
		if wants := now[name]; wants.Cmp(most) < 0 {
			out[name] = wants
		} else {
			out[name] = most
		}
	}
	return out
}

// RequestsNow is what an object requests: nothing once it has ended. It is not known of one with a template
// that cannot be read.
func RequestsNow(kind workload.Kind, obj map[string]any) (_ corev1.ResourceList, known bool) {
	if workload.Ended(kind, obj) {
		return nil, true
	}
	requests, err := workload.Requests(kind, obj)
	return requests, err == nil
}

// KeepCounted has a decision count where the unit was before for what it was let in with then.
func KeepCounted(d, before *placementv1alpha1.Decision) *placementv1alpha1.Decision {
	if d == nil || before == nil {
		return d
	}
	for _, was := range before.PhysicalClusters {
		for i := range d.PhysicalClusters {
			if is := &d.PhysicalClusters[i]; is.Name == was.Name {
				is.Requests = was.Requests
			}
		}
	}
	return d
}

// OfShare is what each of some physical clusters gets of what a unit requests: all, unless its replicas are
// divided over them.
func OfShare(requests corev1.ResourceList, d *placementv1alpha1.Decision) corev1.ResourceList {
	if d.Division == nil {
		return requests
	}
	return ofShare(requests, len(d.PhysicalClusters))
}

// taken is what is requested of a physical cluster.
//
//	its admin     what it reports, and does not report yet,  taken is
//	bounds that   is beside what was let in
//	yes           less                                       what was let in: it may report less than there is
//	yes           no less                                    what it reports, and does not report yet
//	no            any                                        likewise: it is believed
func taken(c PhysicalCluster, name corev1.ResourceName) resource.Quantity {
	said := reported(c, name)
	if _, bounded := c.Spec.Bounds[name]; bounded {
		if own := c.LetIn[name]; own.Cmp(said) > 0 {
			return own
		}
	}
	return said
}

// reported is what a physical cluster reports as requested, and does not report yet.
func reported(c PhysicalCluster, name corev1.ResourceName) resource.Quantity {
	out := c.Status.Requested[name]
	if assumed, ok := c.Assumed[name]; ok {
		out = out.DeepCopy()
		out.Add(assumed)
	}
	return out
}
