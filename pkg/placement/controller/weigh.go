package controller

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// weight is what the objects of a unit request, with the versions of those that were read.
type weight struct {
	versions string
	requests corev1.ResourceList
}

// weigh is what the objects of a unit request now on each of its physical clusters: for less than it was
// let in with, it counts for less.
//
//	what it was let in with      a transition  its objects              then
//	is bounded nowhere           any           any                      nil: nobody counts it
//	is bounded on one of its     yes           any                      as it was: moves read enough
//	is bounded on one of its     no            are those of last time   as it was then
//	is bounded on one of its     no            others, or scaled        read anew, from the watch caches;
//	                                                                    nil if one cannot be understood
func (c *Controller) weigh(ctx context.Context, u *unit) (corev1.ResourceList, error) {
	switch {
	case !c.isBounded(u):
		return nil, nil
	case u.placement.Spec.Transition != nil || u.unsure:
		return u.placement.Status.Requests, nil
	}
	members, versions := c.running(u)
	if last, ok := c.weighed.Get(u.key); ok && last.(weight).versions == versions {
		return last.(weight).requests, nil
	}
	requests := corev1.ResourceList{}
	for _, on := range u.placement.Spec.Decision.PhysicalClusters {
		for name := range on.Requests {
			requests[name] = resource.Quantity{} // that nothing requests it any more is known, too
		}
	}
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		mine := members[kind.API()]
		if len(mine) == 0 {
			continue
		}
		list, err := c.listOf(ctx, kind, u, cached)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			if !slices.Contains(mine, o.GetUID()) {
				continue
			}
			more, known := placement.RequestsNow(kind, o.Object)
			if !known {
				return nil, nil // it counts for what it was let in with
			}
			requests = placement.Sum(requests, more)
		}
	}
	requests = placement.OfShare(requests, u.placement.Spec.Decision)
	c.weighed.Add(u.key, weight{versions, requests}, rememberedFor)
	return requests, nil
}

// isBounded says that something of what a unit was let in with is bounded where it is.
func (c *Controller) isBounded(u *unit) bool {
	for _, on := range u.placement.Spec.Decision.PhysicalClusters {
		pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: on.Name})
		if !ok {
			continue
		}
		for name := range on.Requests {
			if _, bounded := pc.Spec.Bounds[name]; bounded {
				return true
			}
		}
	}
	return false
}

// running are the objects of a unit that make pods, by kind, and what says whether they request what
// they did: of what ends by itself each version, of all others each generation.
func (c *Controller) running(u *unit) (members map[string][]types.UID, versions string) {
	members = map[string][]types.UID{}
	all := []string{strconv.FormatInt(u.placement.Generation, 10)} // it says over how many replicas are divided
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		if kind.Role != workload.Placed || kind.PodTemplate == nil {
			continue
		}
		for _, o := range c.of(kind, u) {
			if names, known := u.unitsOf(kind, o); !known || stamp.Mirrored(o) || !u.mine(names) {
				continue
			}
			members[kind.API()] = append(members[kind.API()], o.UID)
			all = append(all, versionOf(kind, o))
		}
	}
	slices.Sort(all)
	return members, strings.Join(all, "\n")
}

func versionOf(kind workload.Kind, o *metav1.PartialObjectMetadata) string {
	if len(kind.Finished.Phases)+len(kind.Finished.Conditions) > 0 {
		return string(o.UID) + " " + o.ResourceVersion
	}
	return fmt.Sprintf("%s %d", o.UID, o.Generation)
}
