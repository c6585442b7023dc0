package syncer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-dev/atoll/pkg/boundary"
)

// source is who sends a packet: a pod, with the labels of itself and of its namespace, or an
// address outside.
type source struct {
	pod       bool
	namespace labels.Set
	labels    labels.Set
	address   netip.Addr
}

// permitted is what NetworkPolicies of one namespace mean, after their documentation: pods
// that a policy of ingress selects take what any such policy permits.
func permitted(t *testing.T, policies []*unstructured.Unstructured, own labels.Set, from source, to labels.Set) bool {
	t.Helper()
	return permittedBy(t, networkingv1.PolicyTypeIngress, policies, own, from, to)
}

// permittedBy is the same for a direction: of is the pod of the namespace, with the peer.
func permittedBy(t *testing.T, direction networkingv1.PolicyType, policies []*unstructured.Unstructured, own labels.Set, with source, of labels.Set) bool {
	t.Helper()
	isolated, allowed := false, false
	for _, u := range policies {
		var p networkingv1.NetworkPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
			t.Fatal(err)
		}
		types := p.Spec.PolicyTypes
		if len(types) == 0 {
			types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		}
		if !slices.Contains(types, direction) || !matches(t, &p.Spec.PodSelector, of) {
			continue
		}
		isolated = true
		var rules [][]networkingv1.NetworkPolicyPeer
		if direction == networkingv1.PolicyTypeIngress {
			for _, rule := range p.Spec.Ingress {
				rules = append(rules, rule.From)
			}
		} else {
			for _, rule := range p.Spec.Egress {
				rules = append(rules, rule.To)
			}
		}
		for _, peers := range rules {
			allowed = allowed || len(peers) == 0
			for _, peer := range peers {
				allowed = allowed || reaches(t, peer, own, with)
			}
		}
	}
	return !isolated || allowed
}

func reaches(t *testing.T, peer networkingv1.NetworkPolicyPeer, own labels.Set, from source) bool {
	if block := peer.IPBlock; block != nil {
		in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(from.address) }
		return in(block.CIDR) && !slices.ContainsFunc(block.Except, in)
	}
	if !from.pod {
		return false
	}
	namespace := labels.Equals(from.namespace, own)
	if peer.NamespaceSelector != nil {
		namespace = matches(t, peer.NamespaceSelector, from.namespace)
	}
	return namespace && (peer.PodSelector == nil || matches(t, peer.PodSelector, from.labels))
}

func matches(t *testing.T, selector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(set)
}

var podNetwork = boundary.Permits{}

func init() {
	podNetwork.Network.PodCIDRs = []string{"10.244.0.0/16", "fd00:10::/56"}
	podNetwork.Network.NodeCIDRs = []string{"10.244.1.0/31"}
}

func randomPolicy(r *rand.Rand, name string) *unstructured.Unstructured {
	pick := func(of ...any) any { return of[r.IntN(len(of))] }
	selector := func() map[string]any {
		s := map[string]any{}
		if r.IntN(3) > 0 {
			s["matchLabels"] = map[string]any{"app": pick("a", "b")}
		}
		if r.IntN(3) == 0 {
			e := map[string]any{"key": pick("app", "tier"), "operator": pick("In", "NotIn", "Exists", "DoesNotExist")}
			if op := e["operator"]; op == "In" || op == "NotIn" {
				e["values"] = pick([]any{"a"}, []any{"b", "a"})
			}
			s["matchExpressions"] = []any{e}
		}
		return s
	}
	spec := map[string]any{"podSelector": selector(), "policyTypes": pick([]any{"Ingress"}, []any{"Ingress", "Egress"}, []any{"Egress"})}
	var rules []any
	for range r.IntN(3) {
		rule := map[string]any{}
		var peers []any
		for range r.IntN(3) {
			peers = append(peers, pick(
				map[string]any{"podSelector": selector()},
				map[string]any{"namespaceSelector": map[string]any{}},
				map[string]any{"ipBlock": map[string]any{"cidr": "0.0.0.0/0"}},
				map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.0/8", "except": []any{"10.9.0.0/16"}}},
				map[string]any{"ipBlock": map[string]any{"cidr": "203.0.113.0/24"}},
			))
		}
		if peers != nil {
			rule["from"] = peers
		}
		rules = append(rules, rule)
	}
	if rules != nil {
		spec["ingress"] = rules
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": map[string]any{"name": name, "namespace": "web"}, "spec": spec,
	}}
}

// On one physical cluster with others, everybody reaches a pod who would reach it in a cluster
// of its own, but for pods of other logical clusters; those never do.
func TestPodsOfOtherLogicalClustersAreKeptOutAndNobodyElse(t *testing.T) {
	kind := mustKind(t, "networking.k8s.io", "networkpolicies")
	const mine, other = "shop", "evil"
	tenant := func(cluster string) string { return boundary.Tenant("cp", cluster) }
	ours := labels.Set{boundary.TenantLabel: tenant(mine), "name": "web"}
	sources := map[string]source{
		"a pod of the namespace":         {pod: true, namespace: ours, labels: labels.Set{"app": "b"}, address: netip.MustParseAddr("10.244.1.1")},
		"a pod of a neighbour namespace": {pod: true, namespace: labels.Set{boundary.TenantLabel: tenant(mine), "name": "db"}, labels: labels.Set{"app": "a"}, address: netip.MustParseAddr("10.244.1.2")},
		"a pod of the physical cluster":  {pod: true, namespace: labels.Set{"name": "ingress"}, labels: labels.Set{"app": "nginx"}, address: netip.MustParseAddr("10.244.1.3")},
		"somebody through a tunnel":      {address: netip.MustParseAddr("10.244.1.0")},
		"somebody outside":               {address: netip.MustParseAddr("203.0.113.7")},
		"somebody of the same company":   {address: netip.MustParseAddr("10.3.0.7")},
		"somebody who is left out":       {address: netip.MustParseAddr("10.9.0.7")},
		"a pod of another tenant":        {pod: true, namespace: labels.Set{boundary.TenantLabel: tenant(other), "name": "web"}, labels: labels.Set{"app": "a"}, address: netip.MustParseAddr("10.244.1.4")},
		"one with another address":       {pod: true, namespace: labels.Set{boundary.TenantLabel: tenant(other), "name": "web"}, labels: labels.Set{"app": "b"}, address: netip.MustParseAddr("fd00:10::4")},
	}
	pods := []labels.Set{{}, {"app": "a"}, {"app": "b"}, {"tier": "a"}, {"app": "a", "tier": "b"}, {"app": "b", "tier": "a"}}
	space := Space{Cluster: mine, Namespace: "web", Physical: "web"}
	reached := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		var written, below []*unstructured.Unstructured
		for i := range r.IntN(5) {
			p := randomPolicy(r, fmt.Sprintf("p%d", i))
			written = append(written, p)
			copied, _ := Transform(p, Placing{Ref: Ref{Kind: kind, Cluster: mine, Namespace: "web", Name: p.GetName()}, ControlPlane: "cp", Namespace: "web", Permits: podNetwork})
			below = append(below, copied)
		}
		made, incomplete := Isolation("cp", space, podNetwork, below)
		if incomplete {
			t.Fatalf("seed %d: incomplete with %d policies", seed, len(made))
		}
		all := slices.Concat(below, made)
		again, _ := Isolation("cp", space, podNetwork, all)
		if len(again) != len(made) {
			t.Fatalf("seed %d: what is there of ours changes what ours are", seed)
		}
		for name, from := range sources {
			for _, to := range pods {
				got := permitted(t, all, ours, from, to)
				alone := from
				alone.pod = from.namespace[boundary.TenantLabel] == tenant(mine) // others are no pods of a cluster of its own
				want := permitted(t, written, ours, alone, to) && from.namespace[boundary.TenantLabel] != tenant(other)
				if got != want {
					t.Fatalf("seed %d: %s to %v: %v, want %v", seed, name, to, got, want)
				}
				if got {
					reached++
				}
			}
		}
	}
	if reached == 0 {
		t.Error("nobody reaches anything")
	}
}

func TestWhatUsersForbidStaysForbiddenWhenPoliciesAreMany(t *testing.T) {
	kind := mustKind(t, "networking.k8s.io", "networkpolicies")
	space := Space{Cluster: "shop", Namespace: "web", Physical: "web"}
	var below []*unstructured.Unstructured
	for i := range 9 { // each may not be fulfilled in two ways: 512 selectors
		p := randomPolicy(rand.New(rand.NewPCG(1, 1)), fmt.Sprintf("p%d", i))
		p.Object["spec"] = map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": fmt.Sprint(i), fmt.Sprintf("tier%d", i): "x"}}}
		copied, _ := Transform(p, Placing{Ref: Ref{Kind: kind, Cluster: "shop", Namespace: "web", Name: p.GetName()}, ControlPlane: "cp", Namespace: "web", Permits: podNetwork})
		below = append(below, copied)
	}
	made, incomplete := Isolation("cp", space, podNetwork, below)
	if !incomplete || len(made) == 0 || len(made) > maxIsolating {
		t.Fatalf("%d policies, incomplete %v", len(made), incomplete)
	}
	for i := range 9 {
		to := labels.Set{"app": fmt.Sprint(i), fmt.Sprintf("tier%d", i): "x"}
		if permitted(t, slices.Concat(below, made), labels.Set{}, source{address: netip.MustParseAddr("203.0.113.7")}, to) {
			t.Errorf("policies of ours open %v", to)
		}
	}
}

// Who owns a physical cluster, or a namespace, writes what this reads.
func TestTheWorkForPoliciesIsBounded(t *testing.T) {
	space := Space{Cluster: "shop", Namespace: "web", Physical: "web"}
	policy := func(name string, labels int) *unstructured.Unstructured {
		selector := map[string]any{}
		for i := range labels {
			selector[fmt.Sprintf("%s-%d", name, i)] = "x"
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"podSelector": map[string]any{"matchLabels": selector}},
		}}
	}
	var large, many []*unstructured.Unstructured
	for i := range maxRestricting {
		large = append(large, policy(fmt.Sprintf("p%d", i), 5000))
	}
	for i := range 10 * maxRestricting {
		many = append(many, policy(fmt.Sprintf("p%d", i), 2))
	}
	if made, incomplete := Isolation("cp", space, podNetwork, large); !incomplete || len(made) != maxIsolating {
		t.Errorf("of large ones: %d, incomplete %v", len(made), incomplete)
	}
	if made, incomplete := Isolation("cp", space, podNetwork, many); !incomplete || len(made) != 0 {
		t.Errorf("of many: %d, incomplete %v", len(made), incomplete)
	}
}

func TestNothingIsIsolatedWithoutTheRangesOfPodsOrAgainstTheAdmin(t *testing.T) {
	off := podNetwork
	off.Network.Isolation = "None"
	for name, permits := range map[string]boundary.Permits{"the ranges of pods are not known": {}, "the admin wants none": off} {
		if made, _ := Isolation("cp", Space{Cluster: "shop", Namespace: "web", Physical: "web"}, permits, nil); len(made) > 0 {
			t.Errorf("%s: %d policies", name, len(made))
		}
	}
}
