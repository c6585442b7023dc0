package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// split is how a namespace is divided into units, seen from one of them.
type split struct {
	// own is the placement of that unit, others are those of the rest of the namespace.
	own    *placementv1alpha1.Placement
	others []*placementv1alpha1.Placement
	// selectors are those of the policies that select objects.
	selectors []units.Selector
	// of has the units of placed objects by UID; nil if the namespace is one unit.
	of map[types.UID][]string
	// waiting are mirrored objects of what does not come into its units yet.
	waiting map[types.UID]bool
}

// divided: else all objects of the namespace are in the one unit that it has.
func (s *split) divided() bool {
	return len(s.selectors) > 0 || len(s.others) > 0 || s.own.Name != placementv1alpha1.NamespaceUnit
}

// has says that a unit has a Placement.
func (s *split) has(unit string) bool {
	return unit == s.own.Name || slices.ContainsFunc(s.others, func(p *placementv1alpha1.Placement) bool { return p.Name == unit })
}

// merge is where what is in some units is to be; nil names are all units.
func (s *split) merge(names []string) stamp.Unit {
	if !s.divided() {
		return stamp.UnitOf(s.own)
	}
	var all []stamp.Unit
	if names == nil || slices.Contains(names, s.own.Name) {
		all = append(all, stamp.UnitOf(s.own))
	}
	for _, p := range s.others {
		if names == nil || slices.Contains(names, p.Name) {
			all = append(all, stamp.UnitOf(p))
		}
	}
	return stamp.Merge(all...)
}

// division is how the replicas of an object of some units are divided. What is in several
// units makes no pods.
func (s *split) division(names []string) *placementv1alpha1.DecidedDivision {
	if s.divided() && len(names) != 1 {
		return nil
	}
	if !s.divided() || names[0] == s.own.Name {
		return stamp.DivisionOf(s.own)
	}
	for _, p := range s.others {
		if p.Name == names[0] {
			return stamp.DivisionOf(p)
		}
	}
	return nil
}

// overrides are what changes of the copies of an object of some units.
func (s *split) overrides(names []string) []placementv1alpha1.DecidedOverride {
	if !s.divided() || len(names) == 1 && names[0] == s.own.Name {
		return stamp.OverridesOf(s.own)
	}
	var all [][]placementv1alpha1.DecidedOverride
	for _, p := range s.inOrder() {
		if names == nil || slices.Contains(names, p.Name) {
			all = append(all, stamp.OverridesOf(p))
		}
	}
	return stamp.MergeOverrides(all...)
}

// inOrder are all placements of the namespace by name.
func (s *split) inOrder() []*placementv1alpha1.Placement {
	all := append(slices.Clone(s.others), s.own)
	slices.SortFunc(all, func(a, b *placementv1alpha1.Placement) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// unitsOf are the units of an object; nil if it is in all. It is not known for what
// follows others and was not among what the namespace was divided by.
func (s *split) unitsOf(kind workload.Kind, o metav1.Object) (names []string, known bool) {
	switch {
	case kind.Role != workload.Placed || !s.divided():
		return nil, true
	case !kind.Follows() && !stamp.Mirrored(o):
		unit, _ := units.Selected(s.selectors, kind, o)
		return []string{unit}, true
	}
	names, known = s.of[o.GetUID()]
	return names, known
}

// mine says that an object is in the unit that is looked at.
func (s *split) mine(names []string) bool { return names == nil || slices.Contains(names, s.own.Name) }

// waits says that an object does not come into its units yet.
func (s *split) waits(kind workload.Kind, o metav1.Object, names []string) bool {
	return s.waiting[o.GetUID()] || kind.Role == workload.Placed && names != nil && units.Waits(o, names, append(s.others, s.own)...)
}

// unrecorded says that an object was stamped last by other units than those that it is in.
func (s *split) unrecorded(kind workload.Kind, o metav1.Object, names []string) bool {
	if kind.Role != workload.Placed || stamp.Mirrored(o) {
		return false
	}
	if names == nil {
		names = []string{placementv1alpha1.NamespaceUnit}
	}
	return !stamp.IsIn(o, names)
}

// divide reads, from informers, how a namespace is divided. What objects are about is read
// from the watch cache, and only if it is divided at all.
func (c *Controller) divide(ctx context.Context, own *placementv1alpha1.Placement, namespace *corev1.Namespace, u *unit) (split, error) {
	s := split{own: own}
	for _, p := range c.Placements.ListNamespace(u.key.Cluster, u.key.Namespace) {
		if p.Name != own.Name && stamp.BelongsTo(p, namespace.UID) {
			s.others = append(s.others, p)
		}
	}
	if c.NamespacePolicies.HasNamespace(u.key.Cluster, u.key.Namespace) {
		s.selectors = units.Selectors(c.NamespacePolicies.ListNamespace(u.key.Cluster, u.key.Namespace))
	}
	if !s.divided() {
		return s, nil
	}
	var objects []units.Object
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		if kind.Role != workload.Placed {
			continue
		}
		list, err := c.objectsOf(ctx, kind, u, cached)
		if err != nil {
			return s, err
		}
		for _, o := range list {
			objects = append(objects, units.Object{Kind: kind, Unstructured: o})
		}
	}
	s.assign(objects)
	return s, nil
}

func (s *split) assign(objects []units.Object) {
	division := units.Divide(s.selectors, objects)
	s.of = make(map[types.UID][]string, len(objects))
	s.waiting = map[types.UID]bool{}
	for _, o := range objects {
		s.of[o.GetUID()] = division.Of(o)
		if made, ok := division.Origin(o); ok && stamp.Mirrored(o) && s.waits(made.Kind, made, division.Of(made)) {
			s.waiting[o.GetUID()] = true // as what it was made of
		}
	}
}

// divideLive reads the same from the database, but what the objects are.
func (c *Controller) divideLive(ctx context.Context, u *unit) (split, error) {
	s := split{own: u.placement}
	client := c.Client.PlacementV1alpha1()
	policies, err := client.PlacementPolicies(u.key.Namespace).List(ctx, metav1.ListOptions{Limit: placement.MaxPolicies + 1})
	if err != nil {
		return s, fmt.Errorf("reading the policies of the namespace: %w", err)
	}
	own := make([]*placementv1alpha1.PlacementPolicy, 0, len(policies.Items))
	for i := range policies.Items {
		own = append(own, &policies.Items[i])
	}
	s.selectors = units.Selectors(own)
	placements, err := client.Placements(u.key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("reading the placements of the namespace: %w", err)
	}
	for i := range placements.Items {
		if p := &placements.Items[i]; p.Name != u.placement.Name && stamp.BelongsTo(p, u.namespace.UID) {
			s.others = append(s.others, p)
		}
	}
	return s, nil
}

// needless says that a unit has ended: no policy makes it any more, nothing is in it, and
// another one has the Namespace, or it is nowhere. What it left there is left by others.
func (u *unit) needless() bool {
	if u.key.Name == placementv1alpha1.NamespaceUnit || u.populated ||
		slices.ContainsFunc(u.selectors, func(s units.Selector) bool { return s.Unit == u.key.Name }) {
		return false
	}
	return !stamp.HasTargets(u.namespace) || slices.ContainsFunc(u.others, func(p *placementv1alpha1.Placement) bool { return p.Spec.Decision != nil })
}

// end deletes the placement of a unit that has ended, unless its policy is back. An object
// that comes into it meanwhile has it made again.
func (c *Controller) end(ctx context.Context, u *unit) error {
	client := c.Client.PlacementV1alpha1()
	policy, err := client.PlacementPolicies(u.key.Namespace).Get(ctx, u.key.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the policy of a unit: %w", err)
	}
	if err == nil && policy.Spec.Objects != nil {
		return nil
	}
	err = client.Placements(u.key.Namespace).Delete(ctx, u.key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &u.placement.UID, ResourceVersion: &u.placement.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the placement of a unit that has ended: %w", err)
	}
	return nil
}

// maxContested is how many objects are named that several policies select.
const maxContested = 5

// contested is the condition of a unit of which other policies select objects, too.
func (u *unit) contested() *metav1.Condition {
	if len(u.also) == 0 {
		return nil
	}
	slices.Sort(u.also)
	message := strings.Join(u.also[:min(len(u.also), maxContested)], "; ")
	if more := len(u.also) - maxContested; more > 0 {
		message += fmt.Sprintf("; and %d more", more)
	}
	return &metav1.Condition{Type: placementv1alpha1.ConditionContested, Status: metav1.ConditionTrue, Reason: "FirstByName", Message: message}
}
