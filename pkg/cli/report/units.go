package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Unit names a unit by its Placement, and says when it is asked about.
type Unit struct {
	LogicalCluster, Namespace, Name string
	// Waits is since when it wants to move and does not; zero: it does not.
	Waits time.Time
}

// NewUnit is one of which there may be no Placement yet.
func NewUnit(logicalCluster, namespace, name string, p *placementv1alpha1.Placement) Unit {
	u := Unit{LogicalCluster: logicalCluster, Namespace: namespace, Name: name}
	if p != nil {
		if c := apimeta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving); c != nil && c.Status == metav1.ConditionFalse {
			u.Waits = c.LastTransitionTime.Time
		}
	}
	return u
}

// Compare orders units as those that move begin: who waits for longest first, then those that
// do not wait yet, of equals by name.
func (u Unit) Compare(other Unit) int {
	if u.Waits.IsZero() != other.Waits.IsZero() {
		if u.Waits.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(u.Waits.Compare(other.Waits), cmp.Compare(u.LogicalCluster, other.LogicalCluster),
		cmp.Compare(u.Namespace, other.Namespace), cmp.Compare(u.Name, other.Name))
}

// whole says that it is what no policy of the namespace selects.
func (u Unit) whole() bool { return u.Name == "" || u.Name == placementv1alpha1.NamespaceUnit }

// title is the name of the namespace, and of the policy that makes the unit.
func (u Unit) title() string {
	if u.whole() {
		return u.Namespace
	}
	return u.Namespace + "/" + u.Name
}

// Taken adds up what answers take of physical clusters, for the questions that follow.
type Taken struct {
	of map[string]placementv1alpha1.AssumedRequests
	// units says that units are counted, which is for admins only.
	units bool
}

// NewTaken is nothing.
func NewTaken(units bool) *Taken {
	return &Taken{of: map[string]placementv1alpha1.AssumedRequests{}, units: units}
}

// Add adds what a unit takes.
//
//	the change                takes
//	Moves, Placed             what it requests, of each physical cluster that it comes to
//	Unchanged                 nothing that is not reported
//	Pending, Blocked          nothing: it does not move
//
// Nothing becomes free where it leaves: it holds both while it moves.
func (t *Taken) Add(o Outcome, requests corev1.ResourceList) {
	if o.Change != Moves && o.Change != Placed {
		return
	}
	for _, name := range o.To {
		if slices.Contains(o.From, name) {
			continue
		}
		a := t.of[name]
		a.PhysicalCluster = name
		if t.units {
			a.Units++
		}
		sum := a.Requests.DeepCopy()
		if sum == nil {
			sum = corev1.ResourceList{}
		}
		for resource, quantity := range requests {
			total := sum[resource]
			total.Add(quantity)
			sum[resource] = total
		}
		a.Requests = sum
		t.of[name] = a
	}
}

// Assumed is what to suppose.
func (t *Taken) Assumed() []placementv1alpha1.AssumedRequests {
	var out []placementv1alpha1.AssumedRequests
	for _, name := range slices.Sorted(maps.Keys(t.of)) {
		out = append(out, t.of[name])
	}
	return out
}
