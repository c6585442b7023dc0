package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// awaitsPods says that an object does not have its unit decided, though somewhere fits: it
// only follows others, which are mostly written right after it, and what these need decides.
// It leaves an undecided placement, so that the first object with pods finds it as one that
// waits; if none comes, the placement controller asks for it once more.
//
//	the object      asks                 its unit's placement  then
//	makes pods      any                  any                   decides
//	follows others  dry run              any                   decides, as if nothing else came
//	follows others  a user, or it is new any                   awaits pods
//	follows others  the controller       none                  awaits pods
//	follows others  the controller       undecided             decides
//
// Where nothing fits it, it is pending, or refused, as any other.
func (q question) awaitsPods(stored *placementv1alpha1.Placement) bool {
	return q.kind.Follows() && !q.dryRun && !(q.retried && stored.UID != "")
}

const awaitsPodsMessage = "nothing in it makes pods: what is there waits a moment for what it leads to, and is placed by itself then"

// await leaves an undecided placement, and says so. What was found to fit nowhere before
// still does: that is for the user who adds to it.
func (d *decider) await(ctx context.Context, q question, stored *placementv1alpha1.Placement) (outcome, error) {
	if stored.UID == "" {
		var err error
		if stored, err = d.store(ctx, q, stored, placement.Decision{}); err != nil {
			return outcome{}, fmt.Errorf("storing that it waits: %w", err)
		}
	}
	if c := meta.FindStatusCondition(stored.Status.Conditions, placementv1alpha1.ConditionScheduled); c != nil && c.Reason != placementv1alpha1.ReasonWaitsForPods {
		return outcome{message: c.Message}, nil
	}
	err := d.say(ctx, q, stored, placement.Decision{}, metav1.Condition{
		Type: placementv1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: placementv1alpha1.ReasonWaitsForPods, Message: awaitsPodsMessage,
	})
	if err != nil {
		return outcome{}, fmt.Errorf("explaining that it waits: %w", err)
	}
	return outcome{}, nil
}
