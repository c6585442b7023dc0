package controller

import (
	"context"
	"errors"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// withdraw takes traffic from physical clusters that are left and do not answer: their
// syncers would say that the endpoints end, and cannot. When one is back, it writes what
// it finds.
func (c *Controller) withdraw(ctx context.Context, u *unit, t *placementv1alpha1.Transition) error {
	if t.Phase == placementv1alpha1.TransitionStarting {
		return nil
	}
	var silent []string
	for _, name := range t.From {
		pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		if ok && !placement.SilentSince(pc).IsZero() {
			silent = append(silent, name)
		}
	}
	if len(silent) == 0 {
		return nil
	}
	client := c.Kube.DiscoveryV1().EndpointSlices(u.key.Namespace)
	list, err := client.List(ctx, metav1.ListOptions{ResourceVersion: cached})
	if err != nil {
		return fmt.Errorf("reading EndpointSlices: %w", err)
	}
	var errs []error
	for i := range list.Items {
		slice := &list.Items[i]
		targets := stamp.TargetsOf(slice.Annotations)
		for _, name := range silent {
			if _, ok := targets[name]; !ok || !end(slice) {
				continue
			}
			// A conflict is somebody who knows better: the syncer, which is back.
			if _, err := client.Update(ctx, slice, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				errs = append(errs, fmt.Errorf("withdrawing the endpoints %s of %s: %w", slice.Name, name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// end marks all endpoints of a slice as ending, and reports whether that is a change.
func end(slice *discoveryv1.EndpointSlice) (changed bool) {
	for i := range slice.Endpoints {
		conditions := &slice.Endpoints[i].Conditions
		if ptr.Equal(conditions.Ready, ptr.To(false)) && ptr.Equal(conditions.Terminating, ptr.To(true)) {
			continue
		}
		conditions.Ready, conditions.Serving, conditions.Terminating = ptr.To(false), ptr.To(false), ptr.To(true)
		changed = true
	}
	return changed
}
