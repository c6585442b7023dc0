package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// stage has a change by a user reach the first wave only, see stamp.Stage: obj is the object
// of the request, or a copy of its metadata as it was.
func (p *placing) stage(ctx context.Context, r *request, obj metav1.Object) error {
	kind, ok := r.kinds.ByResource(r.groupResource())
	if !ok || !kind.Staged || !r.user() || r.GetOperation() != admission.Update || r.GetSubresource() != "" ||
		r.old == nil || !stamp.HasTargets(r.old) || stamp.Mirrored(r.old) || r.old.GetDeletionTimestamp() != nil {
		return nil
	}
	rollout, err := p.rolloutOf(ctx, r, kind)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if rollout == nil && !stamp.Staged(r.old) {
		return nil
	}
	before, err := external(kind, r.GetOldObject())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	after, err := external(kind, r.GetObject())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := stamp.Stage(r.old, obj, stamp.Content(kind, before), stamp.Content(kind, after), rollout); err != nil {
		return admission.NewForbidden(r.Attributes, fmt.Errorf("its policy rolls changes out in waves (rollout), and %w; make another object and refer to that, or take rollout out of the policy for this change", err))
	}
	return nil
}

// warnOfStages warns a user that some targets have not got the change yet.
func warnOfStages(ctx context.Context, r *request) {
	if !r.user() || r.old == nil || stamp.Revision(r.obj) == stamp.Revision(r.old) || !stamp.Staged(r.obj) {
		return
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("the change is rolled out in waves: as before for now on %s; see kubectl atoll rollout status", strings.Join(stamp.Former(r.obj), ", ")))
}

// rolloutOf has the waves of the unit of an object. ConfigMaps and Secrets are in no unit: they go
// with the first one by name that has waves.
func (p *placing) rolloutOf(ctx context.Context, r *request, kind workload.Kind) (*placementv1alpha1.DecidedRollout, error) {
	var all []*placementv1alpha1.Placement
	for _, one := range p.placements.ListNamespace(r.cluster, r.GetNamespace()) {
		if stamp.RolloutOf(one) != nil {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	namespace, err := r.getNamespace(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err)
	}
	of := &belonging{}
	if kind.Role == workload.Placed {
		if of, err = p.units.of(ctx, r, kind); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b *placementv1alpha1.Placement) int { return strings.Compare(a.Name, b.Name) })
	for _, one := range all {
		if stamp.BelongsTo(one, namespace.UID) && (of.units == nil || slices.Contains(of.units, one.Name)) {
			return stamp.RolloutOf(one), nil
		}
	}
	return nil, nil
}
