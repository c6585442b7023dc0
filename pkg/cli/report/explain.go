package report

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
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
		e = newExplanation("%s waits for a physical cluster: %s", upper(UnitName(p.Namespace, p.Name)), orNone(message))
	} else {
		e = newExplanation("%s is placed on %s.", upper(UnitName(p.Namespace, p.Name)), strings.Join(decided, ", "))
		e.policies(p.Spec.Decision.Policies)
		if p.Status.SchedulerName != "" {
			e.Lines = append(e.Lines, fmt.Sprintf("Scheduler %s decides where it goes.", p.Status.SchedulerName))
		}
	}
	if reason, message, ok := notTrue(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied); ok {
		e.Lines = append(e.Lines, fmt.Sprintf("The policies of now want something else (%s): %s", reason, message))
	}
	if line, ok := moving(p); ok {
		e.Lines = append(e.Lines, line)
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionContested); c != nil {
		e.Lines = append(e.Lines, "Several policies select some of it, and the first by name counts: "+c.Message)
	}
	e.division(stamp.DivisionOf(p))
	if _, message, ok := notTrue(p.Status.Conditions, placementv1alpha1.ConditionDivided); ok && stamp.DivisionOf(p) != nil {
		e.Lines = append(e.Lines, upper(message)+".")
	}
	e.overrides(stamp.OverridesOf(p))
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

// UnitName names a unit of a namespace for people.
func UnitName(namespace, unit string) string {
	if unit == "" || unit == placementv1alpha1.NamespaceUnit {
		return "namespace " + namespace
	}
	return "what policy " + unit + " of namespace " + namespace + " selects"
}

func upper(sentence string) string { return strings.ToUpper(sentence[:1]) + sentence[1:] }

// ExplainReview explains where a unit would go that is not placed yet.
func ExplainReview(namespace string, s placementv1alpha1.PlacementReviewStatus) *Explanation {
	var e *Explanation
	name := upper(UnitName(namespace, s.Unit))
	if len(s.PhysicalClusters) == 0 && s.SchedulerName != "" {
		e = newExplanation("%s is not placed yet: its first object that runs would wait: %s", name, orNone(s.Message))
	} else if len(s.PhysicalClusters) == 0 {
		e = newExplanation("%s is not placed, and could go nowhere: %s", name, orNone(s.Message))
	} else {
		e = newExplanation("%s is not placed yet: its first object that runs would go to %s.", name, strings.Join(s.PhysicalClusters, ", "))
	}
	e.policies(s.Policies)
	e.division(s.Division)
	e.overrides(s.Overrides)
	shares := map[string]string{}
	for _, share := range s.Shares {
		shares[share.PhysicalCluster] = fmt.Sprintf("%d replicas", share.Replicas)
	}
	for _, name := range s.PhysicalClusters {
		add(e.Table, name, "WouldBeChosen", none, orNone(shares[name]))
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

// division says how replicas are divided, if they are.
func (e *Explanation) division(d *placementv1alpha1.DecidedDivision) {
	if d == nil {
		return
	}
	parts := make([]string, 0, len(d.Targets))
	for _, t := range d.Targets {
		part := t.PhysicalCluster
		if d.By == placementv1alpha1.DivideByWeights {
			part += fmt.Sprintf(" weight %d", t.Weight)
		}
		if t.Min != nil {
			part += fmt.Sprintf(" min %d", *t.Min)
		}
		if t.Max != nil {
			part += fmt.Sprintf(" max %d", *t.Max)
		}
		parts = append(parts, part)
	}
	e.Lines = append(e.Lines, fmt.Sprintf("Replicas are divided by %s: %s.", strings.ToLower(string(d.By)), strings.Join(parts, ", ")))
}

func (e *Explanation) rejected(list []placementv1alpha1.RejectedPhysicalCluster) {
	for _, r := range list {
		add(e.Table, r.PhysicalCluster, "Rejected", r.Reason, r.Message)
	}
}
