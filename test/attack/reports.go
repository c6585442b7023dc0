package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

const (
	// noise is the condition by which a status changes, and is as large as one may be.
	noise, noiseBytes = "Noise", 30 << 10
	// reportsTried and orphansTried are more than reportsBounds permits.
	reportsTried, orphansTried = 120, 6
	reportsBounds              = `{"spec":{"bounds":{"count/orphans":"3","bytes/written":"1Mi"}}}`
	noReportsBounds            = `{"spec":{"bounds":{"count/orphans":null,"bytes/written":null}}}`
)

var reports = Attack{
	Name: "a syncer writes no more in root than its bounds permit, and its Lease all the same",
	Fence: func(ctx context.Context, w *World) error {
		listed, reported, err := w.floodRoot(ctx, reportsBounds)
		if err == nil && (listed > 3 || reported == reportsTried) {
			err = fmt.Errorf("it wrote %d of %d reports and %d of %d Orphans", reported, reportsTried, listed, orphansTried)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error {
		listed, reported, err := w.floodRoot(ctx, noReportsBounds)
		if err == nil && (listed < orphansTried || reported < reportsTried) {
			err = fmt.Errorf("it wrote %d of %d reports and %d of %d Orphans", reported, reportsTried, listed, orphansTried)
		}
		return err
	},
}

// floodRoot returns how many Orphans and statuses the hostile syncer could write while its physical
// cluster has some bounds, and fails if it could not go on to say that it is there.
func (w *World) floodRoot(ctx context.Context, bounds string) (listed, reported int, err error) {
	root, own := scope.WithCluster(ctx, scope.Root), w.own(ctx, scope.Root)
	fleet := w.admin.atoll.FleetV1alpha1()
	bound := func(bounds string) error {
		_, err := fleet.PhysicalClusters().Patch(root, Mallory, types.MergePatchType, []byte(bounds), metav1.PatchOptions{})
		return err
	}
	if err := bound(bounds); err != nil {
		return 0, 0, fmt.Errorf("setting bounds: %w", err)
	}
	if err := eventually(ctx, "the bounds are known", func() error {
		pc, err := fleet.PhysicalClusters().Get(root, Mallory, metav1.GetOptions{ResourceVersion: "0"})
		if _, has := pc.Spec.Bounds[fleetv1alpha1.BoundOrphans]; err == nil && has != (bounds == reportsBounds) {
			err = errors.New("others are")
		}
		return err
	}); err != nil {
		return 0, 0, err
	}
	defer func() {
		err = errors.Join(err, bound(noReportsBounds))
		for i := range orphansTried {
			_ = fleet.Orphans().Delete(root, syncer.OrphanName(Mallory, floodUID(i)), metav1.DeleteOptions{})
		}
	}()
	for i := range orphansTried {
		o := &fleetv1alpha1.Orphan{ObjectMeta: metav1.ObjectMeta{Name: syncer.OrphanName(Mallory, floodUID(i))}, Spec: fleetv1alpha1.OrphanSpec{
			PhysicalCluster: Mallory,
			Object:          fleetv1alpha1.PhysicalObject{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: "a", Name: "a", UID: floodUID(i)},
			Claim:           fleetv1alpha1.ClaimedObject{LogicalCluster: "a", Namespace: "a", Name: "a", UID: "a"},
		}}
		switch _, err := w.mallory.atoll.FleetV1alpha1().Orphans().Create(own, o, metav1.CreateOptions{}); {
		case err == nil:
			listed++
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "count/orphans"):
			return listed, 0, fmt.Errorf("listing an Orphan: %w", err)
		}
	}
	for i := range reportsTried {
		message := fmt.Sprint(i, strings.Repeat("x", noiseBytes))
		err := w.noise(own, metav1.Condition{Type: noise, Status: metav1.ConditionTrue, Reason: noise, Message: message})
		switch {
		case err == nil:
			reported++
		case !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "bytes/written"):
			return listed, reported, fmt.Errorf("reporting: %w", err)
		}
	}
	if err := w.beat(ctx); err != nil {
		return listed, reported, fmt.Errorf("renewing the Lease: %w", err)
	}
	leases := w.mallory.kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace)
	lease, err := leases.Get(own, Mallory, metav1.GetOptions{})
	if err != nil {
		return listed, reported, err
	}
	lease.Annotations = map[string]string{"a": strings.Repeat("x", noiseBytes)}
	if _, err := leases.Update(own, lease, metav1.UpdateOptions{}); err == nil || apierrors.IsConflict(err) {
		return listed, reported, fmt.Errorf("a Lease of %d bytes is answered: %w", noiseBytes, err)
	}
	return listed, reported, nil
}

// noise writes a condition, as the syncer.
func (w *World) noise(own context.Context, c metav1.Condition) error {
	client := w.mallory.atoll.FleetV1alpha1().PhysicalClusters()
	for {
		pc, err := client.Get(own, Mallory, metav1.GetOptions{})
		if err != nil {
			return err
		}
		meta.SetStatusCondition(&pc.Status.Conditions, c)
		if _, err = client.UpdateStatus(own, pc, metav1.UpdateOptions{}); !apierrors.IsConflict(err) || own.Err() != nil {
			return err
		}
	}
}

func floodUID(i int) types.UID { return types.UID(fmt.Sprint("flood-", i)) }
