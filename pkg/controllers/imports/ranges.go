package imports

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Settled is a fleet in which no two physical clusters of a network have the same addresses: whose
// pod has one nobody could say.
//
//	ranges of two overlap, and     then
//	an admin named those of one    those of the other one do not count
//	else                           neither do
func (f Fleet) Settled() Fleet {
	type claim struct {
		member string
		r      netip.Prefix
	}
	var claims []claim
	for name, m := range f {
		for _, r := range m.Ranges {
			claims = append(claims, claim{member: name, r: r})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(f[a.member].Network, f[b.member].Network), a.r.Addr().Compare(b.r.Addr()), cmp.Compare(a.r.Bits(), b.r.Bits()), cmp.Compare(a.member, b.member))
	})
	lost := map[claim]bool{}
	var around []claim // those that the next one may be in: ranges are in one another, or apart
	for _, c := range claims {
		around = slices.DeleteFunc(around, func(o claim) bool {
			return f[o.member].Network != f[c.member].Network || !o.r.Overlaps(c.r)
		})
		for _, o := range around {
			if o.member == c.member {
				continue
			}
			lost[c] = lost[c] || f[o.member].Named || !f[c.member].Named
			lost[o] = lost[o] || f[c.member].Named || !f[o.member].Named
		}
		around = append(around, c)
	}
	if len(lost) == 0 {
		return f
	}
	settled := maps.Clone(f)
	for name, m := range f {
		m.Ranges = slices.DeleteFunc(slices.Clone(m.Ranges), func(r netip.Prefix) bool { return lost[claim{member: name, r: r}] })
		settled[name] = m
	}
	return settled
}
