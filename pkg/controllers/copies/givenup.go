package copies

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// givenUp are the targets of an object for which nobody will ever acknowledge
// anything. Absence from an informer proves nothing, so the server is asked before a
// finalizer is released for it.
//
//	informer           the server says   a Copy of the object there  given up
//	registered         -                 -                           no: nothing is asked
//	forget, or absent  registered        -                           no
//	forget, or absent  forget            none                        yes
//	forget, or absent  not found         none                        yes
//	forget, or absent  forget            some, maybe just made       no: it will be declared removed
//	forget, or absent  not found         some                        no: register the name again, to
//	                                                                 forget it or to have it finished
//
// "Not found" is an answer that can be trusted: a PhysicalCluster has a finalizer from
// its first write on, which goes when no Copy and no Placement names it; or by the hand
// of an admin, and then the Copies are what we know of it.
func (s *Controller) givenUp(ctx context.Context, k key, obj metav1.Object, copies []*placementv1alpha1.Copy) (map[string]bool, error) {
	given := map[string]bool{}
	if obj == nil {
		return given, nil
	}
	targets := stamp.TargetsOf(obj.GetAnnotations())
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if targets[target].State == placementv1alpha1.TargetObserved || !s.mayBeGivenUp(target) {
			continue
		}
		gone, err := s.deregistered(ctx, target)
		if err != nil {
			return nil, err
		}
		if gone {
			if gone, err = s.hasNoCopy(ctx, k, obj, copies, target); err != nil {
				return nil, err
			}
		}
		given[target] = gone
	}
	return given, nil
}

// mayBeGivenUp says what the informer knows: a reason to ask, not an answer.
func (s *Controller) mayBeGivenUp(target string) bool {
	if s.PhysicalClusters == nil {
		return false
	}
	pc, ok := s.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
	return !ok || pc.Spec.Forget
}

// deregistered asks the server whether a physical cluster is registered no more, or
// to be forgotten.
func (s *Controller) deregistered(ctx context.Context, target string) (bool, error) {
	pc, err := s.Client.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), target, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading physical cluster %s: %w", target, err)
	}
	return pc.Spec.Forget, nil
}

// hasNoCopy asks the server for the Copy of an object that the informer lacks.
func (s *Controller) hasNoCopy(ctx context.Context, k key, obj metav1.Object, copies []*placementv1alpha1.Copy, target string) (bool, error) {
	if slices.ContainsFunc(copies, func(c *placementv1alpha1.Copy) bool {
		return c.Spec.PhysicalCluster == target && c.Spec.Object.UID == obj.GetUID()
	}) {
		return true, nil // what it says decides: see Decide
	}
	namespace := k.Object.Namespace
	if k.isNamespace() {
		namespace = k.Object.Name
	}
	live, err := s.Client.PlacementV1alpha1().Copies(namespace).Get(ctx, syncer.CopyName(k.Resource.GroupResource(), k.Object.Name, target), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the Copy on %s: %w", target, err)
	}
	return live.Spec.Object.UID != obj.GetUID(), nil
}

// clusterChanged: who waits for a target that was given up can go on.
func (s *Controller) clusterChanged(old, new *fleetv1alpha1.PhysicalCluster) {
	if new != nil && (!new.Spec.Forget || old != nil && old.Spec.Forget) {
		return
	}
	for gvr, informer := range s.Metadata.All() {
		if !s.placeable(gvr) {
			continue
		}
		for _, obj := range informer.List() {
			if hasFinalizer(obj) && (obj.DeletionTimestamp != nil || hasRemoving(obj)) {
				s.queue.Enqueue(key{Resource: gvr, Object: controller.RequestFor(obj)})
			}
		}
	}
}
