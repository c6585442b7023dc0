package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// shape is how many physical clusters are wanted, and how they are laid out. It comes
// from one policy as a whole.
type shape struct {
	tiers []tier
	// count is wanted in each innermost group, least is enough.
	count, least int
	// spread is the label by whose values the numbers are even, up to skew; empty:
	// they need not be.
	spread string
	skew   int
}

// tier takes count groups by the values of a label, 0 all that fit; least are enough.
type tier struct {
	key          string
	count, least int
}

// everywhere is the count of what admins have on every physical cluster that fits, unless a policy says
// how many: units of root.
const everywhere = 1 << 20

// newShape is that of a policy; ok is false, and the shape the one before, if the
// policy says nothing about it.
func newShape(p Policy, before shape) (s shape, ok bool) {
	r := p.Rules
	if r.Count == nil && r.MinCount == nil && len(r.Topology) == 0 && r.Spread == nil {
		return before, false
	}
	s.count = max(1, int(ptr.Deref(r.Count, 1)))
	s.least = max(1, int(ptr.Deref(r.MinCount, int32(s.count))))
	for _, t := range r.Topology {
		read := tier{key: t.Key, count: max(0, int(ptr.Deref(t.Count, 0)))}
		read.least = max(1, int(ptr.Deref(t.MinCount, int32(read.count))))
		s.tiers = append(s.tiers, read)
	}
	if r.Spread != nil {
		s.spread, s.skew = r.Spread.Key, max(1, int(r.Spread.MaxSkew))
	}
	return s, true
}

// String says what is wanted: "2 physical clusters in each of 3 region".
func (s shape) String() string {
	var b strings.Builder
	switch s.count {
	case 1:
		b.WriteString("1 physical cluster")
	case everywhere:
		return "every physical cluster that fits"
	default:
		fmt.Fprintf(&b, "%d physical clusters", s.count)
	}
	if s.least < s.count {
		fmt.Fprintf(&b, " (at least %d)", s.least)
	}
	for _, t := range slices.Backward(s.tiers) {
		switch {
		case t.count == 0 && t.least > 1:
			fmt.Fprintf(&b, " for each value of %s (at least %d)", t.key, t.least)
		case t.count == 0:
			fmt.Fprintf(&b, " for each value of %s", t.key)
		case t.least < t.count:
			fmt.Fprintf(&b, " for each of %d values (at least %d) of %s", t.count, t.least, t.key)
		default:
			fmt.Fprintf(&b, " for each of %d values of %s", t.count, t.key)
		}
	}
	if s.spread != "" {
		fmt.Fprintf(&b, ", even by %s", s.spread)
	}
	return b.String()
}

// missing is a label that a physical cluster must have to be counted; empty if it has
// all.
func (s shape) missing(c *candidate) string {
	for _, t := range s.tiers {
		if _, ok := c.labels[t.key]; !ok {
			return t.key
		}
	}
	if _, ok := c.labels[s.spread]; s.spread != "" && !ok {
		return s.spread
	}
	return ""
}

// choose takes the best set that has the shape from candidates, the best first; nil if there is none. Of two sets the one that keeps more of what the unit
// has is better, then the one with the best physical cluster that the other lacks.
//
// Groups have no physical cluster in common, so that the best set of all is made of
// the best sets of the best groups: no other has to be tried.
func (s shape) choose(from []*candidate) []*candidate { return s.tier(s.tiers, from) }

func (s shape) tier(tiers []tier, from []*candidate) []*candidate {
	if len(tiers) == 0 {
		return s.group(from)
	}
	first := tiers[0]
	var sets [][]*candidate
	for _, group := range grouped(from, first.key) {
		if set := s.tier(tiers[1:], group); set != nil {
			sets = append(sets, set)
		}
	}
	if len(sets) < first.least {
		return nil
	}
	slices.SortFunc(sets, func(a, b []*candidate) int {
		return cmp.Or(-cmp.Compare(kept(a), kept(b)), better(a[0], b[0]))
	})
	if first.count > 0 && len(sets) > first.count {
		sets = sets[:first.count]
	}
	chosen := slices.Concat(sets...)
	slices.SortFunc(chosen, better)
	return chosen
}

// grouped are the candidates by the value of a label, in order. Those without it are
// in no group.
func grouped(ranked []*candidate, key string) [][]*candidate {
	var groups [][]*candidate
	index := map[string]int{}
	for _, c := range ranked {
		value, ok := c.labels[key]
		if !ok {
			continue
		}
		at, known := index[value]
		if !known {
			at = len(groups)
			index[value], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], c)
	}
	return groups
}

// group takes from an innermost group as many as are wanted, or as few as are enough.
func (s shape) group(from []*candidate) []*candidate {
	if s.spread == "" {
		if len(from) < s.least {
			return nil
		}
		return bestOf(from, s.count)
	}
	ranked := bestOf(from, len(from))
	groups := grouped(ranked, s.spread)
	for n := min(s.count, len(ranked)); n >= s.least; n-- {
		if set := s.even(ranked, groups, n); set != nil {
			return set
		}
	}
	return nil
}

// bestOf are the n best, or as many as there are, the best first. Few of many are found without an order of all.
func bestOf(from []*candidate, n int) []*candidate {
	if n = min(n, len(from)); n == 0 || n > len(from)/8 {
		ranked := slices.Clone(from)
		slices.SortFunc(ranked, better)
		return ranked[:n]
	}
	out := make([]*candidate, 0, n+1)
	for _, c := range from {
		if len(out) == n && better(out[n-1], c) < 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, c, better)
		out = slices.Insert(out, at, c)
		out = out[:min(n, len(out))]
	}
	return out
}

// even takes n whose numbers by the value of the label differ by no more than the
// skew. It tries every least number of a value: the best of each are taken, then the
// best of all until a value has as many as it may have.
func (s shape) even(ranked []*candidate, groups [][]*candidate, n int) (best []*candidate) {
	for least := 0; len(groups) > 0 && least*len(groups) <= n; least++ {
		taken, numbers := map[string]bool{}, map[string]int{}
		take := func(c *candidate) { taken[c.name] = true; numbers[c.labels[s.spread]]++ }
		for _, g := range groups {
			if len(g) < least {
				return best
			}
			for _, c := range g[:least] {
				take(c)
			}
		}
		for _, c := range ranked {
			value, ok := c.labels[s.spread]
			if ok && !taken[c.name] && len(taken) < n && numbers[value] < least+s.skew {
				take(c)
			}
		}
		if len(taken) < n {
			continue
		}
		set := slices.DeleteFunc(slices.Clone(ranked), func(c *candidate) bool { return !taken[c.name] })
		if best == nil || betterSet(set, best) < 0 {
			best = set
		}
	}
	return best
}

// betterSet compares two sets of the same size, each with its best first.
func betterSet(a, b []*candidate) int {
	return cmp.Or(-cmp.Compare(kept(a), kept(b)), slices.CompareFunc(a, b, better))
}

// kept counts what the unit has already.
func kept(set []*candidate) (n int) {
	for _, c := range set {
		if c.decided {
			n++
		}
	}
	return n
}
