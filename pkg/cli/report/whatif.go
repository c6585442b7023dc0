package report

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Change is what would become of a unit.
type Change string

const (
	// Unchanged: it would be where it is.
	Unchanged Change = "Unchanged"
	// Moves: it would be somewhere else.
	Moves Change = "Moves"
	// Pending: it would be nowhere, or there is no other place for what is placed.
	Pending Change = "Pending"
	// Blocked: it would have to move, and something keeps it where it is.
	Blocked Change = "Blocked"
	// Placed: it is nowhere, and would go somewhere with its first object that runs.
	Placed Change = "Placed"
)

// Outcome is the answer for one unit.
type Outcome struct {
	Unit
	Change   Change
	From, To []string
	Message  string
}

// Compare reads the answer to a review.
//
//	decided  answer         change
//	none     none           Pending
//	none     some           Placed
//	some     none           Pending
//	some     the same       Unchanged
//	some     others         Moves, or Blocked if there are obstacles
func Compare(u Unit, s placementv1alpha1.PlacementReviewStatus) Outcome {
	o := Outcome{Unit: u, From: sorted(s.Decided), To: sorted(s.PhysicalClusters)}
	switch {
	case len(o.To) == 0:
		o.Change, o.Message = Pending, s.Message
	case len(o.From) == 0:
		o.Change = Placed
	case slices.Equal(o.From, o.To):
		o.Change = Unchanged
	case len(s.Obstacles) > 0:
		o.Change, o.Message = Blocked, strings.Join(s.Obstacles, "; ")
	default:
		o.Change, o.Message = Moves, left(o.From, s)
		if len(s.StopsFirst) > 0 {
			o.Message = strings.TrimPrefix(o.Message+"; stopped before it is started: "+strings.Join(s.StopsFirst, ", "), "; ")
		}
	}
	return o
}

// left says why what is placed would not stay where it is.
func left(from []string, s placementv1alpha1.PlacementReviewStatus) string {
	var out []string
	for _, r := range s.Rejected {
		if slices.Contains(from, r.PhysicalCluster) {
			out = append(out, r.PhysicalCluster+": "+r.Message)
		}
	}
	return strings.Join(out, "; ")
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// WhatIf is a row for each unit, those that change first.
func WhatIf(outcomes []Outcome, logicalClusters bool) *metav1.Table {
	columns := []string{"Namespace", "Change", "From", "To", "Message"}
	if logicalClusters {
		columns = append([]string{"Logical Cluster"}, columns...)
	}
	t := newTable(columns...)
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b Outcome) int {
		return slices.Compare([]string{order(a.Change), a.LogicalCluster, a.Namespace, a.Name}, []string{order(b.Change), b.LogicalCluster, b.Namespace, b.Name})
	})
	for _, o := range outcomes {
		cells := []string{o.title(), string(o.Change), names(o.From), names(o.To), orNone(o.Message)}
		if logicalClusters {
			cells = append([]string{o.LogicalCluster}, cells...)
		}
		add(t, cells...)
	}
	return t
}

func order(c Change) string {
	return fmt.Sprint(slices.Index([]Change{Pending, Blocked, Moves, Placed, Unchanged}, c))
}

// Noun is what a number of units is called: namespaces, if each is a whole one.
func Noun(outcomes []Outcome) string {
	if slices.ContainsFunc(outcomes, func(o Outcome) bool { return !o.whole() }) {
		return "unit"
	}
	return "namespace"
}

// Count says how many units would do what.
func Count(outcomes []Outcome) string {
	counts := map[Change]int{}
	for _, o := range outcomes {
		counts[o.Change]++
	}
	out := fmt.Sprintf("%s: %d would move, %d would have nowhere to go, %d stay where they are",
		plural(len(outcomes), Noun(outcomes)), counts[Moves], counts[Pending], counts[Unchanged])
	if counts[Blocked] > 0 {
		out += fmt.Sprintf(", %d would have to move and cannot", counts[Blocked])
	}
	if counts[Placed] > 0 {
		out += fmt.Sprintf(", %d would be placed", counts[Placed])
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
