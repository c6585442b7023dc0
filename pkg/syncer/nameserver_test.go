package syncer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/boundary"
)

const namedPod = `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: web, uid: u1}
spec:
  containers: [{name: a, image: i}]
  `

func TestPodsAskForTheNamesOfTheirLogicalClusterAsTheKubeletWouldHaveThem(t *testing.T) {
	const searches = "searches: [web.svc.cluster.local, svc.cluster.local, cluster.local"
	many := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, ", ")
	}
	for written, want := range map[string]string{
		"":                        "dnsPolicy: None\ndnsConfig: {nameservers: [10.96.1.2], " + searches + "], options: [{name: ndots, value: '5'}]}",
		"dnsPolicy: ClusterFirst": "dnsPolicy: None\ndnsConfig: {nameservers: [10.96.1.2], " + searches + "], options: [{name: ndots, value: '5'}]}",
		"dnsPolicy: ClusterFirst\n  hostNetwork: true":            "dnsPolicy: ClusterFirst",
		"dnsPolicy: ClusterFirstWithHostNet\n  hostNetwork: true": "dnsPolicy: None\ndnsConfig: {nameservers: [10.96.1.2], " + searches + "], options: [{name: ndots, value: '5'}]}",
		"dnsPolicy: Default": "dnsPolicy: Default",
		"dnsPolicy: None\n  dnsConfig: {nameservers: [192.0.2.1]}": "dnsPolicy: None\ndnsConfig: {nameservers: [192.0.2.1]}",
		"dnsConfig: {nameservers: [192.0.2.1, 10.96.1.2], searches: [example.com, cluster.local], options: [{name: edns0}, {name: ndots, value: '2'}, {name: edns0}]}": "dnsPolicy: None\n" +
			"dnsConfig: {nameservers: [10.96.1.2, 192.0.2.1], " + searches + ", example.com], options: [{name: ndots, value: '2'}, {name: edns0}]}",
		"dnsConfig: {nameservers: [192.0.2.1, 192.0.2.2, 192.0.2.3]}": "dnsPolicy: None\ndnsConfig: {nameservers: [10.96.1.2, 192.0.2.1, 192.0.2.2], " + searches + "], options: [{name: ndots, value: '5'}]}",
		"dnsConfig: {searches: [" + many(32, "d%d") + "]}":            "dnsPolicy: None\ndnsConfig: {nameservers: [10.96.1.2], " + searches + ", " + many(29, "d%d") + "], options: [{name: ndots, value: '5'}]}",
	} {
		below := transformed(parse(t, namedPod+written), Placing{
			Ref: Ref{Kind: kindOf(t, parse(t, namedPod)), Cluster: "shop", Namespace: "web", Name: "p"}, ControlPlane: "cp", Namespace: "shop-web", Nameserver: Nameserver{Address: "10.96.1.2"},
		})
		got := map[string]any{}
		for _, name := range []string{"dnsPolicy", "dnsConfig"} {
			if value, ok := field(below.Object, "spec")[name]; ok {
				got[name] = value
			}
		}
		if diff := cmp.Diff(field(parse(t, "apiVersion: v1\nkind: Pod\nspec:\n"+indent(want)).Object, "spec"), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", written, diff)
		}
	}
}

func TestSearchDomainsFitWhatTheAPIAdmits(t *testing.T) {
	long := strings.Repeat("a", 250)
	all := bound([]string{long, long, long, long, long, long, long, long, long}, maxSearches, maxSearchBytes)
	if joined := len(all)*250 + len(all) - 1; joined > maxSearchBytes || len(all) != 8 {
		t.Errorf("%d domains of %d bytes", len(all), joined)
	}
}

func TestWithoutNamesNothingChangesInATemplate(t *testing.T) {
	p := Placing{Ref: Ref{Kind: kindOf(t, parse(t, namedPod)), Cluster: "shop", Namespace: "web", Name: "p"}, ControlPlane: "cp", Namespace: "shop-web"}
	below := transformed(parse(t, namedPod), p)
	if _, ok := field(below.Object, "spec")["dnsConfig"]; ok || strings.Contains(asYAML(t, below.Object), namesAnnotation+":") {
		t.Errorf("%v", asYAML(t, below.Object))
	}
}

// namedInput is a Deployment or Pod whose copy goes down, or is there.
func namedInput(t *testing.T, text string, physical *unstructured.Unstructured, n Nameserver) Input {
	t.Helper()
	logical := parse(t, text)
	return Input{
		Ref: Ref{Kind: kindOf(t, logical), Cluster: "shop", Namespace: "web", Name: logical.GetName()}, Logical: logical, Physical: physical,
		ControlPlane: "cp", Target: "east", Namespace: Namespace{Name: "shop-web", State: NamespaceReady}, Ruled: true, Nameserver: n,
	}
}

func planned(in Input) []Action {
	p := planner{Input: in, logical: logicalLive, copy: copyCurrent, physical: classifyPhysical(in)}
	return p.apply()
}

func TestNamesAreFoundBeforeThePodsAreMade(t *testing.T) {
	const other = "dnsPolicy: Default"
	for _, c := range []struct {
		name, text string
		nameserver Nameserver
		want       Verb
	}{
		{"not offered", namedPod, Nameserver{}, Apply},
		{"offered, and not known", namedPod, Nameserver{Offered: true}, Supply},
		{"offered, not known, not asked", namedPod + other, Nameserver{Offered: true}, Apply},
		{"known", namedPod, Nameserver{Offered: true, Address: "10.96.1.2"}, Apply},
	} {
		actions := planned(namedInput(t, c.text, nil, c.nameserver))
		if len(actions) != 1 || actions[0].Verb != c.want || actions[0].Supplies.Nameserver != (c.want == Supply) {
			t.Errorf("%s: %+v", c.name, actions)
		}
	}
}

func TestAPodThatRunsKeepsTheNamesThatItWasMadeWith(t *testing.T) {
	made := func(address string) *unstructured.Unstructured {
		in := namedInput(t, namedPod, nil, Nameserver{Offered: address != "", Address: address})
		return planned(in)[0].Object
	}
	for _, before := range []string{"", "10.96.1.2"} {
		for _, now := range []Nameserver{{}, {Offered: true}, {Offered: true, Address: "10.96.1.2"}, {Offered: true, Address: "10.96.9.9"}} {
			in := namedInput(t, namedPod, made(before), now)
			p := planner{Input: in, logical: logicalLive, copy: copyCurrent, physical: classifyPhysical(in)}
			if got, unknown := p.nameserver(); got.Address != before || unknown {
				t.Errorf("made with %q, now %+v: %q, unknown %v", before, now, got.Address, unknown)
			}
		}
	}
}

// A policy of a tenant that lets pods ask for names lets them ask who answers here; another
// lets them no more than before.
func TestAPolicyThatPermitsDNSPermitsWhoAnswersBelow(t *testing.T) {
	const policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: web, uid: u1}\nspec:\n  podSelector: {}\n  policyTypes: [Egress]\n  egress: "
	kind := kindOf(t, parse(t, policy+"[]"))
	n := Nameserver{Offered: true, Address: "10.96.1.2", Port: 12345, Namespace: "atoll-dns", Label: "app", App: "dns"}
	for rules, want := range map[string]bool{
		"[]":                                     false,
		"[{}]":                                   false, // everything is permitted
		"[{ports: [{port: 53, protocol: UDP}]}]": true,
		"[{ports: [{port: 80}]}, {ports: [{port: 53}]}]":                  true,
		"[{ports: [{port: 53}]}, {}]":                                     false,
		"[{ports: [{port: 1, endPort: 100}]}]":                            true,
		"[{ports: [{port: 54, endPort: 100}]}]":                           false,
		"[{ports: [{port: 5353}]}]":                                       false,
		"[{ports: [{port: dns}], to: [{podSelector: {}}]}]":               false,
		"[{ports: [{protocol: UDP}]}]":                                    true,
		"[{ports: [{port: 53}], to: [{ipBlock: {cidr: 192.0.2.53/32}}]}]": false,
		"[{ports: [{port: 53}], to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {}}]}]":      true,
		"[{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k: kube-dns}}}]}]": true,
		"[{to: [{namespaceSelector: {}}]}]":                    true,
		"[{to: [{namespaceSelector: {matchLabels: {a: b}}}]}]": false,
		"[{to: [{podSelector: {}}]}]":                          false,
	} {
		logical := parse(t, policy+rules)
		p := Placing{Ref: Ref{Kind: kind, Cluster: "shop", Namespace: "web", Name: "p"}, ControlPlane: "cp", Namespace: "shop-web", Permits: boundary.Permits{}}
		before := list(field(transformed(logical, p).Object, "spec"), "egress")
		p.Nameserver = n
		after := list(field(transformed(logical, p).Object, "spec"), "egress")
		wanted := before
		if want {
			wanted = append(wanted, map[string]any{
				"ports": []any{map[string]any{"protocol": "UDP", "port": int64(12345)}, map[string]any{"protocol": "TCP", "port": int64(12345)}},
				"to": []any{map[string]any{
					"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "atoll-dns"}},
					"podSelector":       map[string]any{"matchLabels": map[string]any{"app": "dns"}},
				}},
			})
		}
		if diff := cmp.Diff(wanted, after); diff != "" {
			t.Errorf("%s (-want +got)\n%s", rules, diff)
		}
	}
}
