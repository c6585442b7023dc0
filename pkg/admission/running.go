package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// begin has a unit that is made of what runs already begin there: where its oldest object
// is, or if nothing in it runs, the oldest of what follows others. If policies want it elsewhere, it moves as any other unit does, which is no matter of
// the write that made it. In a Namespace that is nowhere, or that was never more than one
// unit, nothing runs that is undecided.
func (d *decider) begin(ctx context.Context, q question, read snapshot, decision *placement.Decision) (began bool, _ error) {
	if !stamp.HasTargets(q.namespace) || len(read.selectors) == 0 && !d.lookup.hasOtherUnits(q) {
		return false, nil
	}
	var oldest, follows *unstructured.Unstructured
	makesPods := false
	err := d.eachMember(ctx, q, read.selectors, func(kind workload.Kind, obj *unstructured.Unstructured) error {
		if stamp.Mirrored(obj) || obj.GetDeletionTimestamp() != nil {
			return nil
		}
		makesPods = makesPods || !kind.Follows()
		switch {
		case len(stamp.Kept(obj)) == 0:
		case kind.Follows() && (follows == nil || older(obj, follows)):
			follows = obj
		case !kind.Follows() && (oldest == nil || older(obj, oldest)):
			oldest = obj
		}
		return nil
	})
	if !makesPods {
		oldest = follows // else it is where other units have it
	}
	if err != nil || oldest == nil {
		return false, err
	}
	decision.PhysicalClusters, decision.Rejected, decision.Scheduler = stamp.Kept(oldest), nil, ""
	decision.Division = placement.DivisionOver(read.Snapshot, read.unit, decision.PhysicalClusters)
	decision.Overrides = placement.OverridesOn(read.Snapshot, read.unit, decision.PhysicalClusters)
	return true, nil
}

// older compares by time and, made in the same second, by kind and name.
func older(a, b *unstructured.Unstructured) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !at.Equal(&bt) {
		return at.Before(&bt)
	}
	return a.GetKind()+"/"+a.GetName() < b.GetKind()+"/"+b.GetName()
}
