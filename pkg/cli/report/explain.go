package report

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Explanation is a decision in words, and a row for each physical cluster.
type Explanation struct {
	Lines []string
	Table *metav1.Table
}

func newExplanation(format string, args ...any) *Explanation {
	return &Explanation{
		Lines: []string{fmt.Sprintf(format, args...)},
		Table: newTable("Physical Cluster", "Answer", "Reason", "Message"),
	}
}

// ExplainPlacement explains the decision that there is.
func ExplainPlacement(p *placementv1alpha1.Placement) *Explanation {
	decided := stamp.Decided(p).Names()
	var e *Explanation
	if len(decided) == 0 {
		_, message, _ := notTrue(p.Status.Conditions, placementv1alpha1.ConditionScheduled)
		e = newExplanation("Namespace %s waits for a physical cluster: %s", p.Namespace, orNone(message))
	} else {
		e = newExplanation("Namespace %s is placed on %s.", p.Namespace, strings.Join(decided, ", "))
		e.policies(p.Spec.Decision.Policies)
	}
	if reason, message, ok := notTrue(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied); ok {
		e.Lines = append(e.Lines, fmt.Sprintf("The policies of now want something else (%s): %s", reason, message))
	}
	if line, ok := moving(p); ok {
		e.Lines = append(e.Lines, line)
	}
	phases := map[string]placementv1alpha1.TargetStatus{}
	for _, t := range p.Status.Targets {
		phases[t.PhysicalCluster] = t
	}
	for _, name := range decided {
		message := "it is decided; nothing is there yet"
		if t, ok := phases[name]; ok {
			message = string(t.Phase)
		}
		add(e.Table, name, "Chosen", orNone(phases[name].Reason), message)
	}
	e.rejected(p.Status.Rejected)
	return e
}

// ExplainReview explains where a namespace would go that is not placed yet.
func ExplainReview(namespace string, s placementv1alpha1.PlacementReviewStatus) *Explanation {
	var e *Explanation
	if len(s.PhysicalClusters) == 0 {
		e = newExplanation("Namespace %s is not placed, and could go nowhere: %s", namespace, orNone(s.Message))
	} else {
		e = newExplanation("Namespace %s is not placed yet: its first object that runs would go to %s.", namespace, strings.Join(s.PhysicalClusters, ", "))
	}
	e.policies(s.Policies)
	for _, name := range s.PhysicalClusters {
		add(e.Table, name, "WouldBeChosen", none, none)
	}
	e.rejected(s.Rejected)
	return e
}

func (e *Explanation) policies(heard []placementv1alpha1.PolicyReference) {
	if len(heard) == 0 {
		e.Lines = append(e.Lines, "No policy selects it.")
		return
	}
	var out []string
	for _, p := range heard {
		out = append(out, fmt.Sprintf("%s %s (generation %d)", p.Level, p.Name, p.Generation))
	}
	e.Lines = append(e.Lines, "Policies: "+strings.Join(out, ", ")+".")
}

func (e *Explanation) rejected(list []placementv1alpha1.RejectedPhysicalCluster) {
	for _, r := range list {
		add(e.Table, r.PhysicalCluster, "Rejected", r.Reason, r.Message)
	}
}
