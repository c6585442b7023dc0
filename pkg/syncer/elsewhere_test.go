package syncer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
)

// flatNetwork is what a physical cluster permits whose own pods are in 10.244.0.0/16, and those
// of another one of its network in 10.245.0.0/16.
func flatNetwork() boundary.Permits {
	pc := &fleetv1alpha1.PhysicalCluster{}
	pc.Spec.Tenancy, pc.Spec.Pods.Network = podNetwork, "n"
	pc.Status.Network = &fleetv1alpha1.NetworkStatus{PodCIDRs: []string{"10.245.0.0/16"}, NodeCIDRs: []string{"10.245.1.0/31"}}
	return pc.Permits()
}

// peerPod is who is at the other end: of a namespace of a logical cluster, here or elsewhere.
type peerPod struct {
	cluster, namespace string
	teams              labels.Set // labels of the namespace
	labels             labels.Set
	address            string
	elsewhere          bool
	// network is that of the physical cluster, n if it is empty.
	network string
}

func importsOf(pods map[string]peerPod, cluster string) []*placementv1alpha1.PodImport {
	found := map[string]*placementv1alpha1.PodImport{}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		p := pods[name]
		if p.cluster != cluster {
			continue
		}
		if found[p.namespace] == nil {
			found[p.namespace] = &placementv1alpha1.PodImport{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "pods"}, Spec: placementv1alpha1.PodImportSpec{
				NamespaceLabels: p.teams, Importers: []placementv1alpha1.PodImporter{{PhysicalCluster: "east", Network: "n"}},
			}}
		}
		on, network := "east", "n"
		if p.elsewhere {
			on = "west"
		}
		if p.network != "" {
			network = p.network
		}
		spec := &found[p.namespace].Spec
		spec.Pods = append(spec.Pods, placementv1alpha1.ImportedPods{PhysicalCluster: on, Network: network, Labels: p.labels, Addresses: []string{p.address}})
	}
	return slices.Collect(maps.Values(found))
}

// A pod is reached on several physical clusters of a network by who would reach it on one, but for
// pods of other logical clusters, and may reach as many itself.
func TestOnSeveralPhysicalClustersOfANetworkPodsAreReachedAsOnOne(t *testing.T) {
	kind := mustKind(t, "networking.k8s.io", "networkpolicies")
	const mine, other = "shop", "evil"
	permits := flatNetwork()
	pods := map[string]peerPod{
		"here":                          {mine, "web", labels.Set{"team": "web"}, labels.Set{"app": "b"}, "10.244.1.2", false, ""},
		"elsewhere":                     {mine, "web", labels.Set{"team": "web"}, labels.Set{"app": "b"}, "10.245.1.2", true, ""},
		"elsewhere, of another app":     {mine, "web", labels.Set{"team": "web"}, labels.Set{"app": "a", "tier": "a"}, "10.245.1.3", true, ""},
		"elsewhere, next to it":         {mine, "db", labels.Set{"team": "db"}, labels.Set{"app": "a"}, "10.245.1.8", true, ""},
		"elsewhere, without labels":     {mine, "db", labels.Set{"team": "db"}, nil, "10.245.1.9", true, ""},
		"of another tenant, here":       {other, "web", labels.Set{"team": "web"}, labels.Set{"app": "a"}, "10.244.1.9", false, ""},
		"of another tenant, elsewhere":  {other, "web", labels.Set{"team": "web"}, labels.Set{"app": "a"}, "10.245.1.4", true, ""},
		"of another tenant, among them": {other, "db", labels.Set{"team": "db"}, labels.Set{"app": "b"}, "10.245.1.10", true, ""},
	}
	outside := map[string]source{
		"somebody outside":             {address: netip.MustParseAddr("203.0.113.7")},
		"a node elsewhere":             {address: netip.MustParseAddr("10.245.1.0")},
		"somebody of the same company": {address: netip.MustParseAddr("10.3.0.7")},
		"a pod here of no tenant":      {pod: true, namespace: labels.Set{"name": "ingress"}, labels: labels.Set{"app": "nginx"}, address: netip.MustParseAddr("10.244.1.3")},
	}
	passage := func(cluster string) boundary.Passage {
		return boundary.Passage{Permits: permits, Tenant: boundary.Tenant("cp", cluster)}
	}
	space := Space{Cluster: mine, Namespace: "web", Physical: "web-below"}
	at := PolicyPlace{ControlPlane: "cp", Target: "east", Space: space, Permits: permits}
	own, ownBelow := labels.Set{"team": "web"}, labels.Set(passage(mine).NamespaceLabels("web", labels.Set{"team": "web"}))
	subjects := []labels.Set{{}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "b"}}
	imports := importsOf(pods, mine)
	reached, refused := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 2))
		var written, below []*unstructured.Unstructured
		for i := range r.IntN(4) {
			p := withEgress(r, withTeams(r, randomPolicy(r, fmt.Sprintf("p%d", i))))
			written = append(written, p)
			copied, _ := Transform(p, Placing{Ref: Ref{Kind: kind, Cluster: mine, Namespace: "web", Name: p.GetName()}, ControlPlane: "cp", Namespace: "web-below", Permits: permits})
			below = append(below, copied)
		}
		isolating, _ := Isolation("cp", space, permits, below)
		beside, incomplete := Elsewhere(at, slices.Concat(below, isolating), imports)
		if incomplete {
			t.Fatalf("seed %d: incomplete", seed)
		}
		all := slices.Concat(below, isolating, beside)
		if again, _ := Isolation("cp", space, permits, all); !cmp.Equal(again, isolating) {
			t.Fatalf("seed %d: who is elsewhere changes what is kept apart", seed)
		}
		if again, _ := Elsewhere(at, all, imports); !cmp.Equal(again, beside) {
			t.Fatalf("seed %d: what is there changes what is made", seed)
		}
		check := func(who string, direction networkingv1.PolicyType, of labels.Set, asWritten, seen source, others bool) {
			t.Helper()
			want := permittedBy(t, direction, written, own, asWritten, of) && !others
			got := permittedBy(t, direction, all, ownBelow, seen, of)
			if got != want {
				text, _ := json.MarshalIndent(all, "", " ")
				t.Fatalf("seed %d: %s and %v, %s: %v, want %v\n%s", seed, who, of, direction, got, want, text)
			}
			if got {
				reached++
			} else {
				refused++
			}
		}
		for _, of := range subjects {
			for who, p := range pods {
				asWritten := source{pod: p.cluster == mine, namespace: p.teams, labels: p.labels, address: netip.MustParseAddr(p.address)}
				seen := asWritten
				seen.pod, seen.namespace = !p.elsewhere, labels.Set(passage(p.cluster).NamespaceLabels(p.namespace, p.teams))
				check(who, networkingv1.PolicyTypeIngress, of, asWritten, seen, p.cluster != mine)
				if p.cluster == mine { // what leaves is kept out where it arrives
					check(who, networkingv1.PolicyTypeEgress, of, asWritten, seen, false)
				}
			}
			for who, s := range outside {
				asWritten := s
				asWritten.pod = false
				check(who, networkingv1.PolicyTypeIngress, of, asWritten, s, false)
			}
		}
	}
	if reached < 1000 || refused < 1000 {
		t.Errorf("%d are reached, %d are not", reached, refused)
	}
}

// withTeams has some peers select namespaces by their teams, with pods or without.
func withTeams(r *rand.Rand, p *unstructured.Unstructured) *unstructured.Unstructured {
	for _, rule := range list(field(p.Object, "spec"), "ingress") {
		for _, peer := range list(rule, "from") {
			if peer["ipBlock"] == nil && r.IntN(2) == 0 {
				peer["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "team", "operator": "In", "values": []any{[]string{"web", "db"}[r.IntN(2)], "qa"}}}}
			}
		}
	}
	return p
}

// withEgress has a policy of egress permit to others what it permits these, but for addresses.
func withEgress(r *rand.Rand, p *unstructured.Unstructured) *unstructured.Unstructured {
	types, _ := field(p.Object, "spec")["policyTypes"].([]any)
	if !slices.Contains(types, any("Egress")) {
		return p
	}
	var rules []any
	for _, rule := range list(field(p.Object, "spec"), "ingress") {
		var peers []any
		for _, peer := range list(rule, "from") {
			if peer["ipBlock"] == nil {
				peers = append(peers, maps.Clone(peer))
			}
		}
		if len(peers) > 0 || r.IntN(3) == 0 {
			rules = append(rules, map[string]any{"to": peers})
		}
	}
	if rules != nil {
		field(p.Object, "spec")["egress"] = rules
	}
	return p
}

func policyFor(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}}
}

func TestAPolicyBesideAnotherHasItsPodsAndPorts(t *testing.T) {
	t.Parallel()
	at := PolicyPlace{ControlPlane: "cp", Target: "east", Space: Space{Cluster: "shop", Namespace: "web", Physical: "below"}, Permits: flatNetwork()}
	ports := []any{map[string]any{"port": int64(80), "protocol": "TCP"}}
	selects := map[string]any{"matchLabels": map[string]any{"app": "web"}}
	p := policyFor("web", map[string]any{
		"podSelector": selects, "policyTypes": []any{"Ingress"},
		"ingress": []any{
			map[string]any{"ports": ports, "from": []any{map[string]any{"podSelector": map[string]any{}}, map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.0/24"}}}},
			map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "nobody"}}}}},
		},
		"egress": []any{map[string]any{"to": []any{map[string]any{"podSelector": map[string]any{}}}}},
	})
	pods := map[string]peerPod{
		"a": {"shop", "web", nil, labels.Set{"app": "a"}, "10.245.0.4", true, ""},
		"b": {"shop", "web", nil, labels.Set{"app": "a"}, "10.245.0.5", true, ""},
		"c": {"shop", "web", nil, nil, "fd00:2::1", true, ""},
		"d": {"shop", "web", nil, nil, "10.244.0.9", false, ""},         // here: the labels say so
		"e": {"shop", "web", nil, nil, "10.245.0.9", true, "of others"}, // has this address in another network
		"f": {"shop", "db", nil, nil, "10.245.0.10", true, ""},
	}
	got, incomplete := Elsewhere(at, []*unstructured.Unstructured{p}, importsOf(pods, "shop"))
	if len(got) != 1 || incomplete {
		t.Fatalf("%d policies, incomplete %v", len(got), incomplete)
	}
	want := map[string]any{"podSelector": selects, "policyTypes": []any{"Ingress"}, "ingress": []any{map[string]any{"ports": ports, "from": []any{
		map[string]any{"ipBlock": map[string]any{"cidr": "10.245.0.4/31"}}, map[string]any{"ipBlock": map[string]any{"cidr": "fd00:2::1/128"}},
	}}}}
	if diff := cmp.Diff(want, got[0].Object["spec"]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !IsElsewhere("cp", got[0]) || IsIsolating("cp", got[0]) || got[0].GetNamespace() != "below" {
		t.Errorf("it is marked as %v", got[0].Object["metadata"])
	}
	for name, imports := range map[string][]*placementv1alpha1.PodImport{
		"nobody is elsewhere": importsOf(map[string]peerPod{"d": pods["d"], "e": pods["e"]}, "shop"), "nothing is imported": nil,
		"another one imports": {{Spec: placementv1alpha1.PodImportSpec{Importers: []placementv1alpha1.PodImporter{{PhysicalCluster: "north", Network: "n"}},
			Pods: []placementv1alpha1.ImportedPods{{PhysicalCluster: "west", Network: "n", Addresses: []string{"10.245.0.1"}}}}}},
	} {
		if made, _ := Elsewhere(at, []*unstructured.Unstructured{p}, imports); len(made) > 0 {
			t.Errorf("%s: %v", name, made[0].Object)
		}
	}
}

// Policies and pods are the tenant's.
func TestTheWorkForPodsElsewhereIsBounded(t *testing.T) {
	t.Parallel()
	at := PolicyPlace{ControlPlane: "cp", Target: "east", Space: Space{Cluster: "shop", Namespace: "web", Physical: "below"}, Permits: flatNetwork()}
	of := func(name string, rules, peers int) *unstructured.Unstructured {
		var list, peer []any
		for range peers {
			peer = append(peer, map[string]any{"podSelector": map[string]any{}})
		}
		for range rules {
			list = append(list, map[string]any{"from": peer})
		}
		return policyFor(name, map[string]any{"policyTypes": []any{"Ingress"}, "ingress": list})
	}
	imported := func(n int) []*placementv1alpha1.PodImport {
		pods := map[string]peerPod{}
		for i := range n {
			pods[fmt.Sprint(i)] = peerPod{"shop", "web", nil, labels.Set{"n": fmt.Sprint(i)}, fmt.Sprintf("10.245.%d.%d", i/100, i%100*2), true, ""} // no two are neighbours
		}
		return importsOf(pods, "shop")
	}
	blocks := func(p *unstructured.Unstructured) (n int) {
		for _, rule := range list(field(p.Object, "spec"), "ingress") {
			n += len(list(rule, "from"))
		}
		return n
	}
	exact, incomplete := Elsewhere(at, []*unstructured.Unstructured{of("p", 1, 1)}, imported(maxBlocks))
	if incomplete || blocks(exact[0]) != maxBlocks {
		t.Errorf("as many as may be: %d, incomplete %v", blocks(exact[0]), incomplete)
	}
	if weight := len(mustJSON(t, exact[0])); weight > 100<<10 {
		t.Errorf("one policy is %d bytes", weight)
	}
	if more, incomplete := Elsewhere(at, []*unstructured.Unstructured{of("p", 3, 1)}, imported(600)); !incomplete || blocks(more[0]) != maxBlocks {
		t.Errorf("more than may be: %d, incomplete %v", blocks(more[0]), incomplete)
	}
	if _, incomplete := Elsewhere(at, []*unstructured.Unstructured{of("p", 100, 1000)}, imported(1000)); !incomplete {
		t.Error("a hundred million comparisons are made")
	}
	var many []*unstructured.Unstructured
	for i := range maxRestricting + 1 {
		many = append(many, of(fmt.Sprintf("p%03d", i), 1, 1))
	}
	if made, incomplete := Elsewhere(at, many, imported(1)); !incomplete || len(made) != maxRestricting {
		t.Errorf("%d policies, incomplete %v", len(made), incomplete)
	}
	truncated := imported(1)
	truncated[0].Spec.Truncated = 1
	if _, incomplete := Elsewhere(at, many[:1], truncated); !incomplete {
		t.Error("nobody hears of pods that the server left out")
	}
	for _, c := range []struct {
		namespaces, addresses int
		want                  time.Duration
	}{{1, 1, 244 * time.Microsecond}, {10, 100, 244 * time.Millisecond}, {100, 1000, 24 * time.Second}, {100, 5000, 24 * time.Second}, {100_000, 1000, 10 * time.Minute}, {100_000_000, 1000, 10 * time.Minute}} {
		if got := ElsewhereInterval(c.namespaces, c.addresses); got.Round(time.Millisecond) != c.want.Round(time.Millisecond) && got.Round(time.Second) != c.want {
			t.Errorf("%d namespaces, %d addresses: %v, want %v", c.namespaces, c.addresses, got, c.want)
		}
	}
}

func mustJSON(t *testing.T, obj *unstructured.Unstructured) []byte {
	t.Helper()
	text, err := obj.MarshalJSON()
	if err != nil {
		obj.SetKind("NetworkPolicy")
		if text, err = obj.MarshalJSON(); err != nil {
			t.Fatal(err)
		}
	}
	return text
}
