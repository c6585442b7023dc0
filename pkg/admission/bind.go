package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Bind takes where another scheduler wants a unit, if the code that decides permits that.
// The decision follows it: at the next write of an object that waits, or by a transition.
func (c *Chain) Bind(ctx context.Context, namespace string, b *placementv1alpha1.PlacementBinding, dryRun bool) error {
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok || cluster == scope.Wildcard {
		return apierrors.NewBadRequest("a binding must name one logical cluster")
	}
	return c.own.placing.decider.bind(ctx, cluster, namespace, b, dryRun)
}

func (d *decider) bind(ctx context.Context, cluster logicalcluster.Name, namespace string, b *placementv1alpha1.PlacementBinding, dryRun bool) error {
	var err error
	for range maxTries {
		err = d.bindOnce(ctx, cluster, namespace, b, dryRun)
		if !apierrors.IsConflict(err) || b.ResourceVersion != "" {
			return err
		}
	}
	return err
}

func (d *decider) bindOnce(ctx context.Context, cluster logicalcluster.Name, namespace string, b *placementv1alpha1.PlacementBinding, dryRun bool) error {
	client := d.client.PlacementV1alpha1().Placements(namespace)
	p, err := client.Get(at(ctx, cluster), b.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := meant(p, b); err != nil {
		return err
	}
	in, err := d.lookup.liveNamespace(ctx, cluster, namespace)
	if err != nil {
		return err
	}
	if !stamp.BelongsTo(p, in.UID) {
		return apierrors.NewNotFound(placementsResource, b.Name) // of an earlier namespace
	}
	q := question{cluster: cluster, kinds: d.lookup.kinds.Current(), namespace: in, unit: p.Name, dryRun: dryRun}
	bound := &placementv1alpha1.Bound{SchedulerName: b.SchedulerName, PhysicalClusters: slices.Sorted(slices.Values(b.PhysicalClusters))}
	decision, reserve, forget, err := d.permits(ctx, q, p, bound)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking whether the binding is permitted: %w", err))
	}
	if err := refusal(b, decision); err != nil || dryRun {
		forget()
		return err
	}
	if p, err = reserve(); err != nil {
		forget()
		return refusedLate(b, err)
	}
	p = p.DeepCopy()
	p.Spec.Bound = bound
	if _, err = client.Update(at(ctx, cluster), p, metav1.UpdateOptions{}); err != nil {
		forget()
	}
	return err
}

// meant refuses a binding that was made for another state of the placement.
func meant(p *placementv1alpha1.Placement, b *placementv1alpha1.PlacementBinding) error {
	switch {
	case b.UID != "" && b.UID != p.UID:
		return apierrors.NewConflict(placementsResource, p.Name, fmt.Errorf("the placement has the UID %s, the binding is for %s: read it again", p.UID, b.UID))
	case b.ResourceVersion != "" && b.ResourceVersion != p.ResourceVersion:
		return apierrors.NewConflict(placementsResource, p.Name, fmt.Errorf("the placement has changed since the version %s that the binding is for: read it again", b.ResourceVersion))
	}
	return nil
}

// permits decides as if a unit were bound so. reserve takes what that takes.
func (d *decider) permits(ctx context.Context, q question, p *placementv1alpha1.Placement, bound *placementv1alpha1.Bound) (_ placement.Decision, reserve func() (*placementv1alpha1.Placement, error), forget func(), _ error) {
	snapshot, err := d.lookup.snapshot(ctx, q)
	if err != nil {
		return placement.Decision{}, nil, nil, err
	}
	unit := snapshot.unit
	unit.Decided = stamp.Decided(p).Names()
	unit.Bound, unit.BoundBy = bound.PhysicalClusters, bound.SchedulerName
	if err := d.includeWaiting(ctx, q, snapshot, &unit); err != nil {
		return placement.Decision{}, nil, nil, err
	}
	decision, reservation, forget := d.assumptions.decide(snapshot.Snapshot, unit, q.id())
	return decision, func() (*placementv1alpha1.Placement, error) {
		if reservation == nil {
			return p, nil
		}
		return d.reserve(ctx, q, p, snapshot.Snapshot, unit, decision, reservation)
	}, forget, nil
}

// refusal names the constraint that a binding does not meet.
func refusal(b *placementv1alpha1.PlacementBinding, d placement.Decision) error {
	var why error
	switch {
	case d.Pin != "" && d.Scheduler == "":
		why = fmt.Errorf("it is pinned to %s by the annotation %s: there is nothing to bind", d.Pin, placementv1alpha1.PhysicalClusterAnnotation)
	case d.Scheduler == "":
		why = fmt.Errorf("no policy names scheduler %s: this server decides", b.SchedulerName)
	case d.Scheduler != b.SchedulerName:
		why = fmt.Errorf("the policies name scheduler %s, not %s", d.Scheduler, b.SchedulerName)
	case !d.Possible():
		why = errors.New(d.Message())
	default:
		return nil
	}
	return apierrors.NewForbidden(placementsResource, b.Name, why)
}
