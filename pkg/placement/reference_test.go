package placement

import (
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dumb is Decide as one would write it without thought for speed, reasons or
// structure: try every subset of the right size, drop those that break a rule,
// take the best. It shares no code with Decide.
func dumb(s Snapshot, u Unit) []string {
	count := 1
	var chosen *Policy
	for i, p := range s.Policies {
		if p.Spec.Count == nil || !dumbSelects(p, u) {
			continue
		}
		if chosen == nil || p.Level > chosen.Level || p.Level == chosen.Level && p.Name < chosen.Name {
			chosen = &s.Policies[i]
		}
	}
	if chosen != nil {
		count = int(*chosen.Spec.Count)
	}
	if u.Pin != "" {
		count = 1
	}

	var best []PhysicalCluster
	for mask := range 1 << len(s.PhysicalClusters) {
		var set []PhysicalCluster
		ok := true
		for i, c := range s.PhysicalClusters {
			if mask>>i&1 == 1 {
				set = append(set, c)
				ok = ok && dumbPermits(s, u, c)
			}
		}
		if !ok || len(set) != count {
			continue
		}
		sort.Slice(set, func(i, j int) bool { return dumbLess(s, u, set[i], set[j]) })
		if best == nil || dumbSetLess(s, u, set, best) {
			best = set
		}
	}
	var names []string
	for _, c := range best {
		names = append(names, c.Name)
	}
	sort.Strings(names)
	return names
}

func dumbSetLess(s Snapshot, u Unit, a, b []PhysicalCluster) bool {
	for i := range a {
		if a[i].Name != b[i].Name {
			return dumbLess(s, u, a[i], b[i])
		}
	}
	return false
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
	return dumbMatches(p.Spec.NamespaceSelector, u.NamespaceLabels) && dumbMatches(p.Spec.LogicalClusterSelector, u.LogicalClusterLabels)
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

func dumbTolerates(s Snapshot, u Unit, t corev1.Taint) bool {
	globally, locally, anyLocal := false, false, false
	for _, p := range s.Policies {
		if !dumbSelects(p, u) {
			continue
		}
		for _, x := range p.Spec.Tolerations {
			yes := (x.Key == "" || x.Key == t.Key) && (x.Effect == "" || x.Effect == t.Effect) &&
				(x.Operator == corev1.TolerationOpExists || x.Value == t.Value)
			if p.Level == Global {
				globally = globally || yes
			} else {
				anyLocal = true
				locally = locally || yes
			}
		}
	}
	return globally && (locally || !anyLocal)
}

func dumbPermits(s Snapshot, u Unit, c PhysicalCluster) bool {
	if u.Pin != "" && c.Name != u.Pin {
		return false
	}
	for _, p := range s.Policies {
		if !dumbSelects(p, u) || len(p.Spec.Terms) == 0 {
			continue
		}
		any := false
		for i := range p.Spec.Terms {
			any = any || dumbMatches(&p.Spec.Terms[i], c.Labels)
		}
		if !any {
			return false
		}
	}
	decided := has(u.Decided, c.Name)
	for _, t := range c.Spec.Taints {
		forbids := t.Effect == corev1.TaintEffectNoExecute || t.Effect == corev1.TaintEffectNoSchedule && !decided
		if forbids && !dumbTolerates(s, u, t) {
			return false
		}
	}
	if decided {
		return true
	}
	if c.Spec.Unschedulable || c.DeletionTimestamp != nil || c.Spec.Forget {
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
			if class == "" && c.Status.DefaultStorageClass == "" || class != "" && !has(c.Status.StorageClasses, class) {
				return false
			}
		}
	}
	for name, want := range u.Requests {
		if want.MilliValue() == 0 {
			continue
		}
		used := millis(c.Status.Requested, name) + millis(c.Assumed, name)
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

// dumbLess: decided first, then more free, fewer taints to avoid, fewer
// placements, name.
func dumbLess(s Snapshot, u Unit, a, b PhysicalCluster) bool {
	rank := func(c PhysicalCluster) []int {
		undecided, avoid, free := 1, 0, 100
		if has(u.Decided, c.Name) {
			undecided = 0
		}
		for _, t := range c.Spec.Taints {
			if t.Effect == corev1.TaintEffectPreferNoSchedule && !dumbTolerates(s, u, t) {
				avoid++
			}
		}
		for _, name := range []corev1.ResourceName{"cpu", "memory"} {
			total := millis(c.Status.Allocatable, name)
			if total == 0 {
				free = 0
				continue
			}
			left := total - millis(c.Status.Requested, name) - millis(c.Assumed, name)
			if percent := int(100 * left / total); percent < free {
				free = percent
			}
		}
		if free < 0 {
			free = 0
		}
		return []int{undecided, -free, avoid, c.Placements}
	}
	x, y := rank(a), rank(b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return a.Name < b.Name
}
