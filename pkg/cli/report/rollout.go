package report

import (
	"fmt"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Rollout says how far a change is that is under way, a line for each wave, and whether
// nothing is.
func Rollout(p *placementv1alpha1.Placement) (lines []string, done bool) {
	waves, status := stamp.RolloutOf(p), p.Status.Rollout
	condition := apimeta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionRolledOut)
	switch {
	case status == nil && waves == nil:
		return []string{"no policy has changes rolled out in waves: they reach all physical clusters at once"}, true
	case status == nil:
		lines = append(lines, "nothing is under way")
	default:
		lines = append(lines, fmt.Sprintf("%s (%s): wave %d of %d has it", status.Revision, strings.Join(status.Objects, ", "), status.Wave, status.Waves))
	}
	if condition != nil && status != nil {
		lines = append(lines, fmt.Sprintf("%s: %s", condition.Reason, condition.Message))
	}
	if waves == nil {
		return lines, status == nil
	}
	for i, w := range waves.Waves {
		line := fmt.Sprintf("  wave %d: %s", i+1, strings.Join(w.PhysicalClusters, ", "))
		if w.Approval == placementv1alpha1.ApprovalManual {
			line += "; a person approves it"
		}
		if w.SoakSeconds > 0 && i+1 < len(waves.Waves) {
			line += fmt.Sprintf("; the next one after %d s", w.SoakSeconds)
		}
		lines = append(lines, line)
	}
	return lines, status == nil
}

// Approve is the value of the annotation that lets the next wave of a unit begin, or why
// none is to. If what has the change is not healthy, or has not soaked, only force lets it
// go on.
func Approve(p *placementv1alpha1.Placement, force bool) (string, error) {
	status := p.Status.Rollout
	condition := apimeta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionRolledOut)
	switch {
	case status == nil:
		return "", fmt.Errorf("nothing is under way: there is nothing to approve")
	case status.Wave >= status.Waves:
		return "", fmt.Errorf("the last wave has begun: there is nothing to approve")
	case !force && (condition == nil || condition.Status == metav1.ConditionTrue || condition.Reason != placementv1alpha1.ReasonNeedsApproval):
		why := "it is not known what it waits for"
		if condition != nil {
			why = condition.Reason + ": " + condition.Message
		}
		return "", fmt.Errorf("it does not wait for a person. %s. To have the next wave get it nevertheless: --force", why)
	}
	return fmt.Sprintf("%s/%d", status.Revision, status.Wave+1), nil
}
