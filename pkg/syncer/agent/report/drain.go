package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// asksForEvidence says that a physical cluster is drained, and that the server knows of nothing that is
// placed there. What is found before is no evidence.
func asksForEvidence(pc *fleetv1alpha1.PhysicalCluster) bool {
	drain := pc.Status.Drain
	return pc.Spec.Drain.Requested && drain != nil && drain.Namespaces == 0 && drain.Copies == 0
}

// evidence lists what of the control plane is on the physical cluster, asking it and no
// cache. What was found before stands if nothing is different, unless the server waits
// for a look that is newer. Nil: it may not be asked for all of it.
func (r *Reporter) evidence(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster, served []string) (*fleetv1alpha1.DrainEvidence, error) {
	found, err := r.left(ctx, pc.Status.ControlPlane, served)
	if err != nil {
		return nil, fmt.Errorf("looking for what is left: %w", err)
	}
	if found == nil {
		return nil, nil
	}
	before := pc.Status.Drain.Seen
	if before == nil || before.Digest != found.Digest || before.Objects != found.Objects {
		return found, nil
	}
	drained := apimeta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionDrained)
	if drained != nil && drained.Status != metav1.ConditionTrue && !drained.LastTransitionTime.Before(&before.At) {
		return found, nil
	}
	return before, nil
}

// left lists all that carries the mark of a control plane, page by page. "Not found" is an answer of a kind that is not
// served; of one that is, something else gave it, as a load balancer does.
func (r *Reporter) left(ctx context.Context, controlPlane string, served []string) (*fleetv1alpha1.DrainEvidence, error) {
	found := &fleetv1alpha1.DrainEvidence{At: metav1.NewTime(time.Now()), By: r.name}
	marked := labels.SelectorFromSet(labels.Set{placementv1alpha1.ManagedByLabel: controlPlane}).String()
	var uids []string
	for _, kind := range r.kinds.Current().All() {
		client, count := r.down.Metadata.Resource(kind.GroupVersionResource()), int32(0)
		pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
			defer cancel()
			return client.List(ctx, o)
		})
		err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: marked}, func(obj runtime.Object) error {
			m, err := apimeta.Accessor(obj)
			if err == nil {
				uids = append(uids, string(m.GetUID()))
				count++
			}
			return err
		})
		if _, serves := slices.BinarySearch(served, kind.API()); apierrors.IsNotFound(err) && !serves {
			continue
		}
		if apierrors.IsForbidden(err) && kind.Declared {
			return nil, nil // no proof, but reports go on: DeclaredKindsCondition says why
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		if count > 0 {
			found.Counts = append(found.Counts, fleetv1alpha1.ResourceCount{Resource: kind.GroupResource().String(), Count: count})
			found.Objects += count
		}
	}
	slices.Sort(uids)
	sum := sha256.New()
	for _, uid := range uids {
		fmt.Fprintln(sum, uid)
	}
	found.Digest = hex.EncodeToString(sum.Sum(nil))
	return found, nil
}
