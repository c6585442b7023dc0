package placement

import (
	"math/bits"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// dumb is Decide as one would write it without thought for speed, reasons or
// structure: make every set that has the shape, drop those that break a rule, take the
// best. It shares no code with Decide.
func dumb(s Snapshot, u Unit) []string {
	r := &placementv1alpha1.PolicyRules{}
	for _, p := range dumbHeard(s, u) {
		if p.Rules.Count != nil || p.Rules.MinCount != nil || p.Rules.Topology != nil || p.Rules.Spread != nil {
			r = p.Rules
			break
		}
	}
	if u.Pin != "" {
		r = &placementv1alpha1.PolicyRules{}
	}
	var fit []PhysicalCluster
	for _, c := range s.PhysicalClusters {
		if dumbPermits(s, u, c) {
			fit = append(fit, c)
		}
	}
	less := func(a, b PhysicalCluster) bool { return dumbLess(s, u, fit, a, b) }
	var best []PhysicalCluster
	for _, set := range dumbSets(r, r.Topology, fit) {
		sort.Slice(set, func(i, j int) bool { return less(set[i], set[j]) })
		if best == nil || dumbSetLess(u, less, set, best) {
			best = set
		}
	}
	for _, p := range dumbHeard(s, u) {
		if p.Rules.MaxCount != nil && len(best) > int(*p.Rules.MaxCount) {
			best = nil
		}
	}
	var names []string
	for _, c := range best {
		names = append(names, c.Name)
	}
	sort.Strings(names)
	return names
}

// dumbHeard are the policies that select the unit, the most specific first.
func dumbHeard(s Snapshot, u Unit) (heard []Policy) {
	for _, level := range []placementv1alpha1.PolicyLevel{"Namespace", "LogicalCluster", "Global"} {
		for _, name := range []string{"p", "q", "r"} {
			for _, p := range s.Policies {
				if p.Level == level && p.Name == name && dumbSelects(p, u) {
					heard = append(heard, p)
				}
			}
		}
	}
	return heard
}

// dumbSets are all sets that have the shape.
func dumbSets(r *placementv1alpha1.PolicyRules, tiers []placementv1alpha1.TopologyTier, from []PhysicalCluster) [][]PhysicalCluster {
	if len(tiers) == 0 {
		return dumbGroup(r, from)
	}
	var inside [][][]PhysicalCluster
	for _, value := range []string{"1", "2", "3"} {
		var group []PhysicalCluster
		for _, c := range from {
			if c.Labels[tiers[0].Key] == value {
				group = append(group, c)
			}
		}
		if sets := dumbSets(r, tiers[1:], group); len(sets) > 0 {
			inside = append(inside, sets)
		}
	}
	n, least := len(inside), 1
	if c := tiers[0].Count; c != nil {
		n, least = min(n, int(*c)), int(*c)
	}
	if m := tiers[0].MinCount; m != nil {
		least = int(*m)
	}
	if len(inside) < least {
		return nil
	}
	var out [][]PhysicalCluster
	for mask := range 1 << len(inside) {
		if bits.OnesCount(uint(mask)) != n {
			continue
		}
		sets := [][]PhysicalCluster{nil}
		for i, choices := range inside {
			if mask>>i&1 == 0 {
				continue
			}
			var longer [][]PhysicalCluster
			for _, set := range sets {
				for _, choice := range choices {
					longer = append(longer, append(append([]PhysicalCluster{}, set...), choice...))
				}
			}
			sets = longer
		}
		out = append(out, sets...)
	}
	return out
}

// dumbGroup are all subsets of the greatest size that can be had.
func dumbGroup(r *placementv1alpha1.PolicyRules, from []PhysicalCluster) [][]PhysicalCluster {
	count := 1
	if r.Count != nil {
		count = int(*r.Count)
	}
	least := count
	if r.MinCount != nil {
		least = int(*r.MinCount)
	}
	for n := count; n >= least; n-- {
		var out [][]PhysicalCluster
		for mask := range 1 << len(from) {
			var set []PhysicalCluster
			for i, c := range from {
				if mask>>i&1 == 1 {
					set = append(set, c)
				}
			}
			if len(set) == n && dumbEven(r.Spread, from, set) {
				out = append(out, set)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

func dumbEven(spread *placementv1alpha1.TopologySpread, from, set []PhysicalCluster) bool {
	if spread == nil {
		return true
	}
	numbers := map[string]int32{}
	for _, c := range from {
		if value, ok := c.Labels[spread.Key]; ok {
			numbers[value] = 0
		}
	}
	for _, c := range set {
		value, ok := c.Labels[spread.Key]
		if !ok {
			return false
		}
		numbers[value]++
	}
	for _, a := range numbers {
		for _, b := range numbers {
			if a-b > spread.MaxSkew {
				return false
			}
		}
	}
	return true
}

// dumbSetLess: the one that keeps more; then the one with the best that the other has
// not.
func dumbSetLess(u Unit, less func(a, b PhysicalCluster) bool, a, b []PhysicalCluster) bool {
	keeps := func(set []PhysicalCluster) (n int) {
		for _, c := range set {
			if has(u.Decided, c.Name) {
				n++
			}
		}
		return n
	}
	if keeps(a) != keeps(b) {
		return keeps(a) > keeps(b)
	}
	// best of those in one that are not in the other
	first := func(in, notIn []PhysicalCluster) *PhysicalCluster {
		for i, c := range in {
			if !slices.ContainsFunc(notIn, func(o PhysicalCluster) bool { return o.Name == c.Name }) {
				return &in[i]
			}
		}
		return nil
	}
	x, y := first(a, b), first(b, a)
	return x != nil && (y == nil || less(*x, *y))
}

func has(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

func dumbSelects(p Policy, u Unit) bool {
	return dumbMatches(p.NamespaceSelector, u.NamespaceLabels) && dumbMatches(p.LogicalClusterSelector, u.LogicalClusterLabels)
}

func dumbTerm(term placementv1alpha1.PhysicalClusterTerm, l map[string]string) bool {
	for k, v := range term.MatchLabels {
		if l[k] != v {
			return false
		}
	}
	for _, e := range term.MatchExpressions {
		value, exists := l[e.Key]
		ok := false
		switch e.Operator {
		case "In":
			ok = exists && has(e.Values, value)
		case "NotIn":
			ok = !exists || !has(e.Values, value)
		case "Exists":
			ok = exists
		case "DoesNotExist":
			ok = !exists
		case "Gt":
			ok = exists && value > e.Values[0] // of one digit
		case "Lt":
			ok = exists && value < e.Values[0]
		}
		if !ok {
			return false
		}
	}
	return true
}

// dumbMatches knows matchLabels only, which is all that the generator makes.
func dumbMatches(s *metav1.LabelSelector, l map[string]string) bool {
	if s == nil {
		return true
	}
	for k, v := range s.MatchLabels {
		if l[k] != v {
			return false
		}
	}
	return true
}

// dumbRelated: beside or apart from the others.
func dumbRelated(s Snapshot, u Unit, c PhysicalCluster, a placementv1alpha1.UnitAffinity) bool {
	beside := false
	for _, other := range u.Others {
		if !dumbMatches(&a.NamespaceSelector, other.Labels) {
			continue
		}
		for _, there := range s.PhysicalClusters {
			if !has(other.PhysicalClusters, there.Name) {
				continue
			}
			x, ok := there.Labels[a.TopologyKey]
			y, ok2 := c.Labels[a.TopologyKey]
			beside = beside || a.TopologyKey == "" && there.Name == c.Name || a.TopologyKey != "" && ok && ok2 && x == y
		}
	}
	return beside == (a.Type == "With")
}

func dumbPermits(s Snapshot, u Unit, c PhysicalCluster) bool {
	if c.Spec.Forget {
		return false
	}
	if d := c.Spec.Drain; d.Requested && (!has(u.Decided, c.Name) || d.Deadline == nil || s.Now.Before(d.Deadline.Time)) {
		return false
	}
	if u.Pin != "" && c.Name != u.Pin {
		return false
	}
	for _, p := range dumbHeard(s, u) {
		any := len(p.Rules.Terms) == 0
		for _, term := range p.Rules.Terms {
			any = any || dumbTerm(term, c.Labels)
		}
		if !any {
			return false
		}
		for _, a := range p.Rules.Affinity {
			if !dumbRelated(s, u, c, a) {
				return false
			}
		}
	}
	decided := has(u.Decided, c.Name)
	for _, t := range c.Spec.Taints {
		forbids := t.Effect == corev1.TaintEffectNoExecute || t.Effect == corev1.TaintEffectNoSchedule && !decided
		if forbids && !dumbTolerates(s, u, t, decided) {
			return false
		}
	}
	if decided {
		return !dumbAbandoned(s, u, c)
	}
	if c.Spec.Unschedulable || c.DeletionTimestamp != nil {
		return false
	}
	isReady := false
	for _, condition := range c.Status.Conditions {
		isReady = isReady || condition.Type == "Ready" && condition.Status == "True"
	}
	if !isReady {
		return false
	}
	if len(c.Status.APIs) > 0 {
		for _, api := range u.APIs {
			if !has(c.Status.APIs, api) {
				return false
			}
		}
		for _, class := range u.StorageClasses {
			somewhere, here := false, false
			for _, o := range s.PhysicalClusters {
				it := class == "" && o.Status.DefaultStorageClass != "" || class != "" && has(o.Status.StorageClasses, dumbName(o.Spec.Tenancy.StorageClassNames, class))
				somewhere, here = somewhere || it, here || it && o.Name == c.Name
			}
			if somewhere && !here {
				return false
			}
		}
	}
	for _, named := range []struct {
		classes  []string
		reported func(PhysicalCluster) *fleetv1alpha1.ReportedNames
		names    func(PhysicalCluster) map[string]string
	}{
		{u.RuntimeHandlers, func(c PhysicalCluster) *fleetv1alpha1.ReportedNames { return c.Status.RuntimeHandlers }, func(PhysicalCluster) map[string]string { return nil }},
		{u.IngressClasses, func(c PhysicalCluster) *fleetv1alpha1.ReportedNames { return c.Status.IngressClasses }, func(c PhysicalCluster) map[string]string { return c.Spec.Tenancy.IngressClassNames }},
	} {
		if named.reported(c) == nil {
			continue
		}
		for _, class := range named.classes {
			somewhere, here := false, false
			for _, o := range s.PhysicalClusters {
				it := named.reported(o) != nil && has(named.reported(o).Names, dumbName(named.names(o), class))
				somewhere, here = somewhere || it, here || it && o.Name == c.Name
			}
			if somewhere && !here {
				return false
			}
		}
	}
	if c.Status.PriorityClasses != nil {
		for _, mapped := range u.PriorityClasses {
			somewhere, here := false, len(mapped[c.Name]) == 0
			for _, o := range s.PhysicalClusters {
				it := len(mapped[o.Name]) > 0
				for _, class := range mapped[o.Name] {
					it = it && o.Status.PriorityClasses != nil && has(o.Status.PriorityClasses.Names, class)
				}
				somewhere, here = somewhere || it, here || it && o.Name == c.Name
			}
			if somewhere && !here {
				return false
			}
		}
	}
	if _, ok := c.Spec.Bounds["count/namespaces"]; ok && int64(c.Placements+1)*1000 > millis(c.Spec.Bounds, "count/namespaces") {
		return false
	}
	for name, want := range u.Requests {
		if want.MilliValue() == 0 {
			continue
		}
		used := dumbUsed(c, name)
		if _, ok := c.Spec.Bounds[name]; ok && used+want.MilliValue() > millis(c.Spec.Bounds, name) {
			return false
		}
		if len(c.Status.Allocatable) > 0 && used+want.MilliValue() > millis(c.Status.Allocatable, name) {
			return false
		}
	}
	return true
}

func millis(l corev1.ResourceList, name corev1.ResourceName) int64 {
	q := l[name]
	return q.MilliValue()
}

// dumbName is what a physical cluster calls a class.
func dumbName(names map[string]string, class string) string {
	if there, ok := names[class]; ok {
		return there
	}
	if there, ok := names["*"]; ok {
		return there
	}
	return class
}

// dumbUsed is what is used by what is said, or by what was let in if an admin bounds it.
func dumbUsed(c PhysicalCluster, name corev1.ResourceName) int64 {
	used := millis(c.Status.Requested, name) + millis(c.Assumed, name)
	if _, ok := c.Spec.Bounds[name]; ok {
		used = max(used, millis(c.LetIn, name))
	}
	return used
}

// dumbScore adds up the weights of the first policy that ranks.
func dumbScore(s Snapshot, u Unit, fit []PhysicalCluster, c PhysicalCluster) (preference, score int) {
	for _, p := range dumbHeard(s, u) {
		if p.Rules.Preferences == nil && p.Rules.Weights == nil {
			continue
		}
		for preference < len(p.Rules.Preferences) && !dumbTerm(p.Rules.Preferences[preference], c.Labels) {
			preference++
		}
		for _, w := range p.Rules.Weights {
			value := 0
			switch {
			case w.Term != nil:
				if dumbTerm(*w.Term, c.Labels) {
					value = 100
				}
			case w.Free != "":
				value = dumbFree(c, w.Free)
			default:
				costs := map[string]float64{"1": 1, "2.5": 2.5}
				low, high := 99.0, 0.0
				for _, other := range fit {
					if n, ok := costs[other.Labels[w.Label]]; ok {
						low, high = min(low, n), max(high, n)
					}
				}
				n, ok := costs[c.Labels[w.Label]]
				if !ok && w.Weight < 0 {
					value = 100
				} else if ok && high > low {
					value = int(100 * (n - low) / (high - low))
				}
			}
			score += int(w.Weight) * value
		}
		break
	}
	return preference, score
}

func dumbFree(c PhysicalCluster, name corev1.ResourceName) int {
	total := millis(c.Status.Allocatable, name)
	if _, ok := c.Spec.Bounds[name]; ok {
		total = min(total, millis(c.Spec.Bounds, name))
	}
	if total == 0 {
		return 0
	}
	left := total - dumbUsed(c, name)
	return max(0, min(100, int(100*left/total)))
}

// dumbLess: decided first, then preference, score, fewer taints to avoid, more free,
// fewer placements, name.
func dumbLess(s Snapshot, u Unit, fit []PhysicalCluster, a, b PhysicalCluster) bool {
	rank := func(c PhysicalCluster) []int {
		undecided, avoid := 1, 0
		if has(u.Decided, c.Name) {
			undecided = 0
		}
		for _, t := range c.Spec.Taints {
			if t.Effect == corev1.TaintEffectPreferNoSchedule && !dumbTolerates(s, u, t, true) {
				avoid++
			}
		}
		preference, score := dumbScore(s, u, fit, c)
		return []int{undecided, preference, -score, avoid, -min(dumbFree(c, "cpu"), dumbFree(c, "memory")), c.Placements}
	}
	x, y := rank(a), rank(b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return a.Name < b.Name
}
