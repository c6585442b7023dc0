package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// reject says why not; nil means yes. Whoever asks knows of which physical cluster.
func reject(reason, format string, args ...any) *Rejection {
	return ptr.To(NewRejection("", reason, format, args...))
}

// predicate says why a physical cluster is not for a unit; nil: it is.
type predicate func(PhysicalCluster) *Rejection

// mayReceive reports whether a physical cluster that does not have the unit may
// get it. The first reason counts: those that an admin or user chose come
// before those that the physical cluster reports.
func (r *rules) mayReceive() predicate {
	checks := []predicate{
		forgotten, r.pinned, r.selected, r.related, deleting, draining, cordoned, ready, r.synced, r.tainted,
		r.permits, r.serves, r.offers, counted, r.bounded, r.roomy,
	}
	return func(c PhysicalCluster) *Rejection {
		for _, check := range checks {
			if why := check(c); why != nil {
				return why
			}
		}
		return nil
	}
}

// mayKeep reports whether a physical cluster that has the unit may keep it. A
// cordon, silence for which no policy has a time, a failure, lack of room, NoSchedule
// taints and a deletion, which waits for what is there, say nothing about that. What an admin
// gave up keeps nothing, whether it answers or not. What admins have everywhere does not hold up a deletion.
func (r *rules) mayKeep(c PhysicalCluster) *Rejection {
	for _, check := range []predicate{forgotten, r.pinned, r.selected, r.related, r.removed, r.drained} {
		if why := check(c); why != nil {
			return why
		}
	}
	why, ends := r.evicted(c)
	r.stay = r.stay.sooner(ends)
	return why
}

// Lacks says what a physical cluster lacks for what is needed, whether or not anything
// may go there; empty: nothing that is known.
func Lacks(c PhysicalCluster, u Unit) string {
	r := newRules(u)
	for _, check := range []predicate{r.serves, r.offers, r.bounded, r.roomy} {
		if no := check(c); no != nil {
			return no.Message()
		}
	}
	return ""
}

func (r *rules) pinned(c PhysicalCluster) *Rejection {
	if r.unit.Pin != "" && r.unit.Pin != c.Name {
		return reject(ReasonNotPinned, "the namespace is pinned to %s", r.unit.Pin)
	}
	return nil
}

func (r *rules) selected(c PhysicalCluster) *Rejection {
	for _, p := range r.fences {
		if p.err != nil {
			return reject(ReasonInvalidPolicy, "%s: %v", p.name, p.err)
		}
		if len(p.terms) == 0 {
			continue
		}
		if !slices.ContainsFunc(p.terms, func(s labels.Selector) bool { return s.Matches(labels.Set(c.Labels)) }) {
			return reject(ReasonPolicyMismatch, "no term of %s selects it", p.name)
		}
	}
	return nil
}

func deleting(c PhysicalCluster) *Rejection {
	if c.DeletionTimestamp != nil {
		return reject(ReasonDeleting, "it is being removed")
	}
	return nil
}

// removed is what a deletion says to what is there.
func (r *rules) removed(c PhysicalCluster) *Rejection {
	if r.unit.LogicalCluster != scope.Root {
		return nil
	}
	return deleting(c)
}

// forgotten comes before all else: what an admin declared lost for good is lost whatever
// a user chose.
func forgotten(c PhysicalCluster) *Rejection {
	if c.Spec.Forget {
		return reject(ReasonForgotten, "it was given up (spec.forget is set)")
	}
	return nil
}

func draining(c PhysicalCluster) *Rejection {
	if c.Spec.Drain.Requested {
		return reject(ReasonDraining, "it is being drained")
	}
	return nil
}

// drained is what draining says to what is there: until the deadline.
func (r *rules) drained(c PhysicalCluster) *Rejection {
	if !Drains(c.PhysicalCluster, r.now) {
		return nil
	}
	return draining(c)
}

// Drains reports whether what is on a physical cluster is to leave it by a drain. After its
// deadline what has not begun to leave stays; nothing new comes as long as it is requested.
//
//	requested   deadline                   is there  may come
//	no          any                        stays     may
//	yes         none, or it lies ahead     leaves    may not
//	yes         has come                   stays     may not
func Drains(c *fleetv1alpha1.PhysicalCluster, now time.Time) bool {
	d := c.Spec.Drain
	return d.Requested && (d.Deadline == nil || now.Before(d.Deadline.Time))
}

func cordoned(c PhysicalCluster) *Rejection {
	if c.Spec.Unschedulable {
		return reject(ReasonCordoned, "it is cordoned")
	}
	return nil
}

func ready(c PhysicalCluster) *Rejection {
	condition := meta.FindStatusCondition(c.Status.Conditions, fleetv1alpha1.ConditionReady)
	switch {
	case condition == nil:
		return reject(ReasonReadyUnknown, "it has not reported yet")
	case condition.Status == metav1.ConditionTrue:
		return nil
	case condition.Status == metav1.ConditionFalse:
		return reject(ReasonNotReady, "it is not ready (%s)", condition.Reason)
	}
	return reject(ReasonReadyUnknown, "it is not known to be ready (%s)", condition.Reason)
}

// startTimeout is how long nothing may be synced on a physical cluster that receives units: a syncer that
// starts there anew has its watches within seconds.
const startTimeout = time.Minute

// synced rejects a physical cluster that answers, and on which nothing would run: its syncer has no watches
// yet, and has had time for them. What is not known says nothing about that.
func (r *rules) synced(c PhysicalCluster) *Rejection {
	condition := meta.FindStatusCondition(c.Status.Conditions, fleetv1alpha1.ConditionSyncing)
	if condition == nil || condition.Status != metav1.ConditionFalse || r.now.Before(condition.LastTransitionTime.Add(startTimeout)) {
		return nil
	}
	return reject(ReasonNotSyncing, "nothing is synced there (%s)", condition.Reason)
}

func (r *rules) permits(c PhysicalCluster) *Rejection {
	if what, ok := r.unit.NotPermitted[c.Name]; ok {
		return reject(ReasonNotPermitted, "it does not permit %s", what)
	}
	return nil
}

func (r *rules) serves(c PhysicalCluster) *Rejection {
	if len(c.Status.APIs) == 0 {
		return nil // not reported: nothing is known
	}
	for _, api := range r.unit.APIs {
		if !slices.Contains(c.Status.APIs, api) {
			return reject(ReasonAPINotServed, "it does not serve %s", strings.TrimPrefix(api, "/"))
		}
	}
	return nil
}

// counted is about what the server itself knows: all else rests on what the physical
// cluster says of itself.
func counted(c PhysicalCluster) *Rejection {
	bound, ok := c.Spec.Bounds[fleetv1alpha1.BoundNamespaces]
	if ok && bound.CmpInt64(int64(c.Placements)) <= 0 {
		return reject(ReasonBoundsExceeded, "it has %d namespaces, its bound is %s", c.Placements, bound.String())
	}
	return nil
}

func (r *rules) bounded(c PhysicalCluster) *Rejection {
	for _, name := range r.requested {
		bound, ok := c.Spec.Bounds[name]
		want := r.unit.Requests[name]
		if !ok || want.IsZero() {
			continue
		}
		left, used := bound.DeepCopy(), taken(c, name)
		left.Sub(used)
		if want.Cmp(left) <= 0 {
			continue
		}
		why := ""
		if used.Cmp(reported(c, name)) > 0 {
			why = fmt.Sprintf(": what is placed there came with %s, whatever it reports", used.String())
		}
		return reject(ReasonBoundsExceeded, "%s of %s is wanted, %s of the bound %s is left%s", want.String(), name, floor(left), bound.String(), why)
	}
	return nil
}

func (r *rules) roomy(c PhysicalCluster) *Rejection {
	if len(c.Status.Allocatable) == 0 {
		return nil // not reported: nothing is known
	}
	for _, name := range r.requested {
		want := r.unit.Requests[name]
		if want.IsZero() {
			continue
		}
		if left := free(c, name); want.Cmp(left) > 0 {
			return reject(ReasonInsufficient, "%s of %s is wanted, %s is free", want.String(), name, floor(left))
		}
	}
	return nil
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
