package physicalclusters

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// ConditionRemovable, on a PhysicalCluster that is being deleted, says what
// still holds it.
const ConditionRemovable = "Removable"

// confirmForget asks the server whether the order to forget stands: an informer may
// know one that was taken back, or that was about a predecessor of the same name.
func (c *Controller) confirmForget(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) error {
	live, err := c.Client.FleetV1alpha1().PhysicalClusters().Get(ctx, pc.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the order to forget: %w", err)
	}
	if err != nil || live.UID != pc.UID || !live.Spec.Forget {
		return apierrors.NewConflict(fleetv1alpha1.Resource("physicalclusters"), pc.Name, errors.New("the order to forget it does not stand any more"))
	}
	return nil
}

// forget declares the copies of a physical cluster removed, and returns those
// for which that was written: of what has no Copy nothing was ever made there, or its Copy was
// declared removed before.
func (c *Controller) forget(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) ([]*placementv1alpha1.Copy, error) {
	var done []*placementv1alpha1.Copy
	var errs []error
	known := map[types.UID]bool{}
	for _, copied := range copyindex.On(c.Copies, pc.Name) {
		known[copied.Spec.Object.UID] = true
		if copied.Status.State == placementv1alpha1.CopyRemoved {
			continue
		}
		at := scope.WithCluster(ctx, logicalcluster.From(copied))
		_, err := c.Client.PlacementV1alpha1().Copies(copied.Namespace).Update(at, forgotten(copied), metav1.UpdateOptions{})
		switch {
		case err == nil:
			done = append(done, copied)
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("forgetting Copy %s: %w", copied.Name, err))
		}
	}
	errs = append(errs, c.forgetUnmade(ctx, pc.Name, known))
	return done, errors.Join(errs...)
}

// forgetUnmade makes the Copies, declared removed, of the objects that wait for
// the physical cluster without having one.
func (c *Controller) forgetUnmade(ctx context.Context, target string, known map[types.UID]bool) error {
	var errs []error
	for _, kind := range c.Kinds.Current().Kinds() {
		informer := placed.Of(c.Objects, kind)
		if informer == nil {
			continue
		}
		for _, obj := range informer.List() {
			if known[obj.UID] || !waits(obj, target) {
				continue
			}
			at := scope.WithCluster(ctx, logicalcluster.From(obj))
			made := neverMade(kind, obj, target)
			_, err := c.Client.PlacementV1alpha1().Copies(made.Namespace).Create(at, made, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("forgetting %s %s: %w", kind.Kind, obj.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// checkUse sets the condition Removable; free is true once nothing names the
// physical cluster any more. It asks the server: an informer that has nothing
// proves nothing.
func (c *Controller) checkUse(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (free bool, err error) {
	used, err := c.uses(ctx, pc.Name)
	if err != nil {
		return false, err
	}
	if used == (usage{}) {
		return true, nil
	}
	meta.SetStatusCondition(&pc.Status.Conditions, metav1.Condition{
		Type: ConditionRemovable, Status: metav1.ConditionFalse, Reason: "InUse", ObservedGeneration: pc.Generation,
		Message:            fmt.Sprintf("%d copies in %d placements are still on it", used.copies, used.placements),
		LastTransitionTime: metav1.NewTime(c.Clock.Now()),
	})
	return false, nil
}

// usage counts what names a physical cluster.
type usage struct{ copies, placements int }

// use counts. A namespace of root is nothing there: it counts with what is in it.
func use(name string, copies []placementv1alpha1.Copy, placements []placementv1alpha1.Placement) usage {
	var u usage
	carried := map[string]bool{} // by namespace of root
	for i := range copies {
		c := &copies[i]
		root := logicalcluster.From(c) == scope.Root
		if c.Spec.PhysicalCluster != name || root && c.Spec.Object.Group != fleetv1alpha1.GroupName {
			continue
		}
		carried[c.Namespace] = carried[c.Namespace] || root
		u.copies++
	}
	for i := range placements {
		p := &placements[i]
		_, ok := stamp.PartOn(p, name)
		if ok && (logicalcluster.From(p) != scope.Root || carried[p.Namespace]) {
			u.placements++
		}
	}
	return u
}
