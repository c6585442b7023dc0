package placement

import (
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestDecideAgreesWithADumbReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawSnapshot(t), drawUnit(t)
		got := Decide(s, u)
		if diff := cmp.Diff(dumb(s, u), got.PhysicalClusters); diff != "" {
			t.Fatalf("Decide differs from the reference (-reference +Decide):\n%s\n%+v", diff, got)
		}
	})
}

func TestEveryPhysicalClusterIsEitherChosenOrRejectedWithAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawSnapshot(t), drawUnit(t)
		d := Decide(s, u)
		seen := map[string]int{}
		for _, name := range d.PhysicalClusters {
			seen[name]++
		}
		for _, r := range d.Rejected {
			seen[r.PhysicalCluster]++
			if r.Reason == "" || r.Message() == "" {
				t.Fatalf("no reason for %+v", r)
			}
		}
		for _, c := range s.PhysicalClusters {
			if seen[c.Name] != 1 {
				t.Fatalf("%s is named %d times in %+v", c.Name, seen[c.Name], d)
			}
		}
		if len(seen) != len(s.PhysicalClusters) {
			t.Fatalf("%d names for %d physical clusters", len(seen), len(s.PhysicalClusters))
		}
	})
}

func TestDecideDoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawSnapshot(t), drawUnit(t)
		want := Decide(s, u)
		random := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		random.Shuffle(len(s.PhysicalClusters), func(i, j int) {
			s.PhysicalClusters[i], s.PhysicalClusters[j] = s.PhysicalClusters[j], s.PhysicalClusters[i]
		})
		random.Shuffle(len(s.Policies), func(i, j int) { s.Policies[i], s.Policies[j] = s.Policies[j], s.Policies[i] })
		if got := Decide(s, u); !reflect.DeepEqual(want, got) {
			t.Fatalf("after shuffling (-before +after):\n%s", cmp.Diff(want, got))
		}
	})
}

func TestADecisionIsStableUnderCordonSilenceAndLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u, first := drawDecided(t)
		for i := range s.PhysicalClusters {
			c := s.PhysicalClusters[i].PhysicalCluster.DeepCopy()
			c.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
			c.Status.Conditions = nil
			c.Status.Requested = c.Status.Allocatable
			s.PhysicalClusters[i].PhysicalCluster = c
		}
		if diff := cmp.Diff(first.PhysicalClusters, Decide(s, u).PhysicalClusters); diff != "" {
			t.Fatalf("moved without need (-before +after):\n%s", diff)
		}
	})
}

// A decision that has just been made meets the policies, and deciding again moves
// nothing, whatever else is there by then.
func TestWhatWasDecidedSatisfiesThePoliciesAndStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u, first := drawDecided(t)
		if v := Verify(s, u); !v.Satisfied {
			t.Fatalf("%v does not satisfy: %+v", first.PhysicalClusters, v)
		}
		if diff := cmp.Diff(first.PhysicalClusters, Decide(s, u).PhysicalClusters); diff != "" {
			t.Fatalf("moved without need (-before +after):\n%s", diff)
		}
	})
}

// No policy of a tenant lets a namespace go where it could not go without.
func TestAPolicyOfATenantPermitsNothingMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawSnapshot(t), drawUnit(t)
		admins := Snapshot{PhysicalClusters: s.PhysicalClusters, Now: s.Now, Watched: s.Watched, CutOff: s.CutOff}
		for _, p := range s.Policies {
			if p.Level == placementv1alpha1.PolicyGlobal {
				admins.Policies = append(admins.Policies, p)
			}
		}
		permitted := map[string]bool{}
		ranked, _ := compile(admins, u).filter(s.PhysicalClusters)
		for _, c := range ranked {
			permitted[c.name] = true
		}
		for _, name := range Decide(s, u).PhysicalClusters {
			if !permitted[name] {
				t.Fatalf("%s was chosen, which the policies of the admin do not permit", name)
			}
		}
	})
}

var (
	names  = []string{"a", "b", "c", "d", "e", "f"}
	values = []string{"x", "y"}
)

func drawLabels(t *rapid.T) labels.Set {
	return rapid.MapOfN(rapid.SampledFrom([]string{"region", "tier"}), rapid.SampledFrom(values), 0, 2).Draw(t, "labels")
}

// drawPlace has labels of two tiers, and a number.
func drawPlace(t *rapid.T) labels.Set {
	l := drawLabels(t)
	for key, values := range map[string][]string{"area": {"1", "2", "3"}, "zone": {"1", "2"}, "cost": {"1", "2.5", "cheap"}} {
		if rapid.IntRange(0, 7).Draw(t, "has "+key) > 0 {
			l[key] = rapid.SampledFrom(values).Draw(t, key)
		}
	}
	return l
}

func drawList(t *rapid.T, name string, upTo int64) corev1.ResourceList {
	l := corev1.ResourceList{}
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if rapid.Bool().Draw(t, name+" has "+string(r)) {
			l[r] = *resource.NewQuantity(rapid.Int64Range(0, upTo).Draw(t, name), resource.DecimalSI)
		}
	}
	return l
}

// drawMoment is one of few, so that they meet.
func drawMoment(t *rapid.T, name string) time.Time {
	return time.Unix(1000+rapid.Int64Range(0, 3).Draw(t, name), 0)
}

func drawTaints(t *rapid.T) []corev1.Taint {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.Taint {
		added := &metav1.Time{Time: drawMoment(t, "added")}
		if rapid.IntRange(0, 4).Draw(t, "timed") == 0 {
			added = nil
		}
		return corev1.Taint{
			TimeAdded: added,
			Key:       rapid.SampledFrom(values).Draw(t, "key"), Value: rapid.SampledFrom(values).Draw(t, "value"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule}).Draw(t, "effect"),
		}
	}), 0, 1).Draw(t, "taints")
}

func drawCluster(t *rapid.T, name string) PhysicalCluster {
	c := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: drawPlace(t)}}
	if rapid.IntRange(0, 9).Draw(t, "deleting") == 0 {
		c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	c.Spec = fleetv1alpha1.PhysicalClusterSpec{
		Unschedulable: rapid.IntRange(0, 4).Draw(t, "cordon") == 0, Forget: rapid.IntRange(0, 9).Draw(t, "forget") == 0,
		Taints: drawTaints(t), Bounds: drawList(t, "bounds", 20),
	}
	if rapid.IntRange(0, 4).Draw(t, "drain") == 0 {
		c.Spec.Drain.Requested = true
		if rapid.Bool().Draw(t, "for a time") {
			c.Spec.Drain.Deadline = &metav1.Time{Time: drawMoment(t, "deadline")}
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "counted") == 0 {
		if c.Spec.Bounds == nil {
			c.Spec.Bounds = corev1.ResourceList{}
		}
		c.Spec.Bounds["count/namespaces"] = *resource.NewQuantity(rapid.Int64Range(0, 2).Draw(t, "namespaces"), resource.DecimalSI)
	}
	c.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: rapid.SampledFrom([]metav1.ConditionStatus{"True", "True", "True", "False", "Unknown"}).Draw(t, "ready"),
		Reason:             rapid.SampledFrom([]string{"HeartbeatLost", "Unreachable", "Forbidden"}).Draw(t, "reason"),
		LastTransitionTime: metav1.Time{Time: drawMoment(t, "since")},
	}}
	c.Status.Allocatable = drawList(t, "allocatable", 20)
	c.Status.Requested = drawList(t, "requested", 10)
	if rapid.Bool().Draw(t, "reported") {
		c.Status.APIs = []string{"/v1/pods"}
		if rapid.Bool().Draw(t, "apps") {
			c.Status.APIs = append(c.Status.APIs, "apps/v1/deployments")
		}
		c.Status.StorageClasses = rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, 2, rapid.ID[string]).Draw(t, "classes")
		if len(c.Status.StorageClasses) > 0 && rapid.Bool().Draw(t, "default class") {
			c.Status.DefaultStorageClass = c.Status.StorageClasses[0]
		}
	}
	for _, names := range []*map[string]string{&c.Spec.Tenancy.StorageClassNames, &c.Spec.Tenancy.IngressClassNames} {
		if rapid.IntRange(0, 3).Draw(t, "classes mapped") == 0 {
			*names = map[string]string{rapid.SampledFrom(append([]string{"*"}, values...)).Draw(t, "class"): rapid.SampledFrom(values).Draw(t, "of its own")}
		}
	}
	for _, classes := range []**fleetv1alpha1.ReportedNames{&c.Status.RuntimeHandlers, &c.Status.IngressClasses, &c.Status.PriorityClasses} {
		if rapid.Bool().Draw(t, "classes reported") {
			*classes = &fleetv1alpha1.ReportedNames{Names: rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, 2, rapid.ID[string]).Draw(t, "reported classes")}
		}
	}
	return PhysicalCluster{PhysicalCluster: c, Assumed: drawList(t, "assumed", 3), LetIn: drawList(t, "let in", 12), Placements: rapid.IntRange(0, 2).Draw(t, "placements")}
}

func drawSelector(t *rapid.T, name string) *metav1.LabelSelector {
	if rapid.IntRange(0, 2).Draw(t, name) > 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: drawLabels(t)}
}

func drawTerms(t *rapid.T, name string) (terms []placementv1alpha1.PhysicalClusterTerm) {
	for range rapid.IntRange(0, 2).Draw(t, name) {
		var term placementv1alpha1.PhysicalClusterTerm
		if rapid.Bool().Draw(t, "labels") {
			term.MatchLabels = drawLabels(t)
		} else {
			term.MatchExpressions = []corev1.NodeSelectorRequirement{rapid.SampledFrom([]corev1.NodeSelectorRequirement{
				{Key: "region", Operator: corev1.NodeSelectorOpIn, Values: values}, {Key: "region", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"x"}},
				{Key: "tier", Operator: corev1.NodeSelectorOpExists}, {Key: "tier", Operator: corev1.NodeSelectorOpDoesNotExist},
				{Key: "area", Operator: corev1.NodeSelectorOpGt, Values: []string{"1"}}, {Key: "area", Operator: corev1.NodeSelectorOpLt, Values: []string{"3"}},
			}).Draw(t, "expression")}
		}
		terms = append(terms, term)
	}
	return terms
}

func drawOptional(t *rapid.T, name string, least, most int32) *int32 {
	if rapid.Bool().Draw(t, "no "+name) {
		return nil
	}
	n := rapid.Int32Range(least, most).Draw(t, name)
	return &n
}

func drawShape(t *rapid.T, r *placementv1alpha1.PolicyRules) {
	r.Count = drawOptional(t, "count", 1, 3)
	if r.Count != nil {
		r.MinCount = drawOptional(t, "minCount", 1, *r.Count)
	}
	switch rapid.IntRange(0, 3).Draw(t, "layout") {
	case 0:
		for _, key := range [][]string{{"area"}, {"area", "zone"}, {"zone", "area"}}[rapid.IntRange(0, 2).Draw(t, "tiers")] {
			tier := placementv1alpha1.TopologyTier{Key: key, Count: drawOptional(t, "groups", 1, 3)}
			if tier.Count != nil {
				tier.MinCount = drawOptional(t, "minimum of groups", 1, *tier.Count)
			}
			r.Topology = append(r.Topology, tier)
		}
	case 1:
		r.Spread = &placementv1alpha1.TopologySpread{Key: "area", MaxSkew: rapid.Int32Range(1, 2).Draw(t, "skew")}
	}
}

func drawTolerations(t *rapid.T, least int) (out []corev1.Toleration) {
	for range rapid.IntRange(least, 2).Draw(t, "tolerations") {
		seconds := rapid.Int64Range(0, 3).Draw(t, "seconds")
		out = append(out, rapid.SampledFrom([]corev1.Toleration{
			{Operator: corev1.TolerationOpExists},
			{Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			{Key: "x", Value: "x"},
			{Key: "y", Operator: corev1.TolerationOpEqual, Value: "y", Effect: corev1.TaintEffectNoExecute},
			{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			{Key: fleetv1alpha1.TaintUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
			{Key: fleetv1alpha1.TaintUnreachable, Operator: corev1.TolerationOpExists},
		}).Draw(t, "toleration"))
	}
	return out
}

func drawPolicy(t *rapid.T, name string) Policy {
	level := rapid.SampledFrom([]placementv1alpha1.PolicyLevel{
		placementv1alpha1.PolicyGlobal, placementv1alpha1.PolicyLogicalCluster, placementv1alpha1.PolicyNamespace}).Draw(t, "level")
	r := &placementv1alpha1.PolicyRules{Terms: drawTerms(t, "terms"), Preferences: drawTerms(t, "preferences")}
	p := Policy{PolicyReference: placementv1alpha1.PolicyReference{Level: level, Name: name}, Rules: r}
	p.LogicalClusterSelector = drawSelector(t, "logical cluster selector")
	p.NamespaceSelector = drawSelector(t, "namespace selector")
	r.Tolerations = drawTolerations(t, 0)
	drawShape(t, r)
	if rapid.IntRange(0, 4).Draw(t, "bounded") == 0 {
		r.MaxCount = drawOptional(t, "maxCount", 1, 4)
	}
	for range rapid.IntRange(0, 2).Draw(t, "weights") {
		w := rapid.SampledFrom([]placementv1alpha1.Weight{
			{Label: "cost"}, {Free: corev1.ResourceCPU}, {Term: &placementv1alpha1.PhysicalClusterTerm{MatchLabels: map[string]string{"tier": "x"}}},
		}).Draw(t, "weight of")
		w.Weight = rapid.SampledFrom([]int32{-2, -1, 1, 3}).Draw(t, "weight")
		r.Weights = append(r.Weights, w)
	}
	if rapid.IntRange(0, 4).Draw(t, "related") == 0 {
		r.Affinity = []placementv1alpha1.UnitAffinity{{
			Type:              rapid.SampledFrom([]placementv1alpha1.AffinityType{placementv1alpha1.AffinityWith, placementv1alpha1.AffinityWithout}).Draw(t, "type"),
			NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}},
			TopologyKey:       rapid.SampledFrom([]string{"", "area"}).Draw(t, "topology key"),
		}}
	}
	return p
}

func drawSnapshot(t *rapid.T) Snapshot {
	s := Snapshot{Now: drawMoment(t, "now"), Watched: drawMoment(t, "watched"), CutOff: rapid.IntRange(0, 3).Draw(t, "cut off") == 0}
	for _, name := range names[:rapid.IntRange(0, len(names)).Draw(t, "clusters")] {
		s.PhysicalClusters = append(s.PhysicalClusters, drawCluster(t, name))
	}
	for _, name := range []string{"p", "q", "r"}[:rapid.IntRange(0, 3).Draw(t, "policies")] {
		s.Policies = append(s.Policies, drawPolicy(t, name))
	}
	return s
}

// drawDecided draws until there is a decision: most of what is drawn permits none.
func drawDecided(t *rapid.T) (Snapshot, Unit, Decision) {
	for {
		s, u := drawSnapshot(t), drawUnit(t)
		u.Decided = nil
		if first := Decide(s, u); first.Possible() {
			u.Decided = first.PhysicalClusters
			return s, u, first
		}
	}
}

func drawUnit(t *rapid.T) Unit {
	u := Unit{
		LogicalCluster: "shop", LogicalClusterLabels: drawLabels(t), Namespace: "web", NamespaceLabels: drawLabels(t),
		Needs:   Needs{Requests: drawList(t, "requests", 6)},
		Decided: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID[string]).Draw(t, "decided"),
	}
	if rapid.IntRange(0, 5).Draw(t, "pinned") == 0 {
		u.Pin = rapid.SampledFrom(names).Draw(t, "pin")
	}
	for range rapid.IntRange(0, 2).Draw(t, "others") {
		u.Others = append(u.Others, Other{Labels: drawLabels(t), PhysicalClusters: []string{rapid.SampledFrom(names).Draw(t, "place")}})
	}
	if rapid.Bool().Draw(t, "apis") {
		u.APIs = []string{"apps/v1/deployments"}
	}
	if rapid.IntRange(0, 3).Draw(t, "storage") == 0 {
		u.StorageClasses = []string{rapid.SampledFrom([]string{"", "x"}).Draw(t, "class")}
	}
	if rapid.IntRange(0, 3).Draw(t, "runtime") == 0 {
		u.RuntimeHandlers = []string{rapid.SampledFrom(values).Draw(t, "handler")}
	}
	if rapid.IntRange(0, 3).Draw(t, "ingress") == 0 {
		u.IngressClasses = []string{rapid.SampledFrom(values).Draw(t, "ingress class")}
	}
	if rapid.IntRange(0, 3).Draw(t, "priority") == 0 {
		for _, name := range names {
			if class := rapid.SampledFrom(append([]string{""}, values...)).Draw(t, "priority class on "+name); class != "" {
				u.Prioritize("high", name, class)
			}
		}
	}
	return u
}
