package placement

import (
	"cmp"
	"slices"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Edit is a change of one policy: Old is nil if it is new, New if it is deleted.
type Edit struct{ Old, New *Policy }

// Concerns says that a version of the policy is for a unit.
func (e Edit) Concerns(u Unit) bool {
	for _, p := range []*Policy{e.Old, e.New} {
		if p == nil {
			continue
		}
		if selects, err := p.selects(u); selects || err != nil {
			return true
		}
	}
	return false
}

// makes is the unit that a version makes of what it selects; empty: none.
func makes(p *Policy) string {
	if p == nil {
		return ""
	}
	return p.Unit
}

// Moves says that an edit moves a unit, if there is somewhere to go: it is where the
// policies of before permit it, or keep it, and those of after do not. s has the other
// policies, and of physical clusters those of the unit. home is where the unit of the
// namespace is.
//
//	the edit                     the unit                                  moves
//	makes the unit               is not permitted after it                 yes: its objects begin where they run
//	ends the unit                is not where the namespace is             yes: its objects are of the namespace then
//	any other                    would move before, too                    no: that is not by this edit
//	any other                    would move after it                       yes
func (e Edit) Moves(s Snapshot, u Unit, home []string) bool {
	before, after := e.with(s, e.Old), e.with(s, e.New)
	switch was, is := makes(e.Old), makes(e.New); {
	case is == u.Name && was != u.Name:
		return leaves(after, u)
	case was == u.Name && is != u.Name && len(home) > 0:
		return !slices.Equal(home, u.Decided)
	case was == u.Name && is != u.Name: // what runs begins there as what the namespace is
		u.Name = placementv1alpha1.NamespaceUnit
		return leaves(after, u)
	}
	return !leaves(before, u) && leaves(after, u)
}

// Returns says that policies want a unit elsewhere by an edit, so that it returns there once
// that is ready for it. s is as for Moves, but for all physical clusters.
func (e Edit) Returns(s Snapshot, u Unit) bool {
	if makes(e.Old) != makes(e.New) {
		return false // see Moves
	}
	after := e.with(s, e.New)
	return MayReturn(after.Policies) && Preferred(after, u).Better && !Preferred(e.with(s, e.Old), u).Better
}

// with is a snapshot with a version of the policy, and without affinity: where others are
// moves nothing.
func (e Edit) with(s Snapshot, version *Policy) Snapshot {
	policies := make([]Policy, 0, len(s.Policies)+1)
	for _, p := range s.Policies {
		if !e.is(p) {
			policies = append(policies, unrelated(p))
		}
	}
	if version != nil {
		policies = append(policies, unrelated(*version))
	}
	s.Policies = policies
	return s
}

func (e Edit) is(p Policy) bool {
	one := cmp.Or(e.Old, e.New)
	return one != nil && one.Level == p.Level && one.Name == p.Name
}

func unrelated(p Policy) Policy {
	if p.Rules != nil && len(p.Rules.Affinity) > 0 {
		rules := *p.Rules
		rules.Affinity, p.Rules = nil, &rules
	}
	return p
}

// leaves says that a unit moves from where it is, if there is somewhere to go. What another
// scheduler decides waits for it.
func leaves(s Snapshot, u Unit) bool {
	v := Verify(s, u)
	waits := v.Scheduler != "" && v.Reason != ReasonBound
	return !v.Satisfied && !waits && (v.Move.Mode != placementv1alpha1.MoveNever || u.Pin != "")
}

// Radius counts what an edit moves, in all and of the units of each policy that bounds it.
type Radius struct {
	// Units is the number of units.
	Units int
	// bounds are those of the policies before and after the edit.
	bounds []bounded
}

// bounded is a policy of which an edit may not move more units without a confirmation.
type bounded struct {
	policy Policy
	moved  int
}

// NewRadius counts for an edit beside other policies, which are those of the level of the edit
// and above: tenants bound no admin. A bound counts that was there before the edit, or is
// after it.
func NewRadius(e Edit, others []Policy) *Radius {
	r := &Radius{}
	for _, p := range []*Policy{e.Old, e.New} {
		if p != nil && p.ConfirmAbove != nil {
			r.bounds = append(r.bounds, bounded{policy: *p})
		}
	}
	for _, p := range others {
		if p.ConfirmAbove != nil && !e.is(p) {
			r.bounds = append(r.bounds, bounded{policy: p})
		}
	}
	return r
}

// Add counts a unit.
func (r *Radius) Add(u Unit) {
	r.Units++
	for i := range r.bounds {
		b := &r.bounds[i]
		if selects, err := b.policy.selects(u); selects || err != nil {
			b.moved++
		}
	}
}

// Exceeds is the bound that is exceeded most, of which policy; false if none is.
func (r *Radius) Exceeds() (policy string, most, moved int, ok bool) {
	for _, b := range r.bounds {
		limit := int(*b.policy.ConfirmAbove)
		if b.moved > limit && (!ok || b.moved-limit > moved-most) {
			policy, most, moved, ok = b.policy.String(), limit, b.moved, true
		}
	}
	return policy, most, moved, ok
}
