package report

import (
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Move says how far a move is, and whether it is complete.
func Move(p *placementv1alpha1.Placement, to string) (line string, done bool) {
	on := strings.Join(stamp.Decided(p).Names(), ", ")
	moving := apimeta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
	switch {
	case p.Spec.Transition != nil:
		line = fmt.Sprintf("%s: from %s to %s", p.Spec.Transition.Phase, strings.Join(p.Spec.Transition.From, ", "), on)
	case on == to:
		return "on " + to, true
	default:
		line = "decided for " + orNone(on)
	}
	if moving != nil {
		line += fmt.Sprintf(" (%s: %s)", moving.Reason, moving.Message)
	}
	return line, false
}

// barWidth is that of the bar of Progress.
const barWidth = 20

// Progress says how much of what was on a physical cluster is left, and about how long that
// takes; zero is not known.
func Progress(began, left Usage, about time.Duration) string {
	gone := began.Placements - left.Placements
	filled := barWidth
	if began.Placements > 0 {
		filled = barWidth * gone / began.Placements
	}
	line := fmt.Sprintf("[%s%s] %d of %d namespaces have left, copies left: %d",
		strings.Repeat("#", filled), strings.Repeat("-", barWidth-filled), gone, began.Placements, left.Copies)
	if about > 0 {
		line += ", about " + duration.HumanDuration(about) + " to go"
	}
	return line
}

// Stays counts the units that could not leave.
func Stays(outcomes []Outcome) int {
	n := 0
	for _, o := range outcomes {
		if o.Change == Pending || o.Change == Blocked {
			n++
		}
	}
	return n
}

// moving is what a Placement says about its move.
func moving(p *placementv1alpha1.Placement) (string, bool) {
	c := apimeta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving)
	w := p.Spec.WentBack
	switch {
	case c == nil && w != nil && p.Spec.Transition == nil:
		return fmt.Sprintf("It went back from %s at %s, as it did not become available there: %s", strings.Join(w.PhysicalClusters, ", "), w.At.UTC().Format(time.RFC3339), orNone(w.Message)), true
	case c == nil:
		return "", false
	case c.Status == metav1.ConditionTrue:
		return fmt.Sprintf("It moves (%s): %s", c.Reason, c.Message), true
	case c.Reason == placementv1alpha1.ReasonWaitsToReturn, c.Reason == placementv1alpha1.ReasonWentBack: // nothing keeps it but time
		return upper(c.Message) + ".", true
	}
	return fmt.Sprintf("It should move and cannot (%s): %s", c.Reason, c.Message), true
}
