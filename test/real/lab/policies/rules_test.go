package policies

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func pod(namespace, name, ip string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Status: corev1.PodStatus{PodIP: ip}}
	p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}
	return p
}

func TestRulesAreWhatNetworkPoliciesMean(t *testing.T) {
	t.Parallel()
	state := State{
		Namespaces: []*corev1.Namespace{
			{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "a"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{"team": "a"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "evil", Labels: map[string]string{"team": "b"}}},
		},
		Pods: []*corev1.Pod{
			pod("web", "subject", "10.0.0.1", map[string]string{"app": "web"}),
			pod("web", "client", "10.0.0.2", map[string]string{"role": "client"}),
			pod("db", "client", "10.0.0.3", map[string]string{"role": "client"}),
			pod("evil", "client", "10.0.0.4", map[string]string{"role": "client"}),
			pod("web", "starting", "", map[string]string{"app": "web", "role": "client"}),
			{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "host", Labels: map[string]string{"role": "client"}}, Spec: corev1.PodSpec{HostNetwork: true}, Status: corev1.PodStatus{PodIP: "10.0.0.9"}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "ended", Labels: map[string]string{"role": "client"}}, Status: corev1.PodStatus{PodIP: "10.0.0.8", Phase: corev1.PodSucceeded}},
		},
	}
	for name, c := range map[string]struct {
		policies        string
		ingress, egress []string // of the subject; nil is not restricted
	}{
		"none":             {``, nil, nil},
		"nobody":           {`{policyTypes: [Ingress]}`, []string{}, nil},
		"nobody, both":     {`{policyTypes: [Ingress, Egress]}`, []string{}, []string{}},
		"of other pods":    {`{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}`, nil, nil},
		"everybody":        {`{policyTypes: [Ingress], ingress: [{}]}`, []string{"return"}, nil},
		"own namespace":    {`{policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {role: client}}}]}]}`, []string{"ip saddr 10.0.0.2 return"}, nil},
		"other namespaces": {`{policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {role: client}}}]}]}`, []string{"ip saddr 10.0.0.2 return", "ip saddr 10.0.0.3 return"}, nil},
		"all of those":     {`{policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: b}}}]}]}`, nil, []string{"ip daddr 10.0.0.4 return"}},
		"blocks": {
			`{policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16, 10.1.2.0/24]}}, {ipBlock: {cidr: "fd00::/8"}}]}]}`,
			[]string{"ip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 ip saddr != 10.1.2.0/24 return"}, nil,
		},
		"ports": {
			`{policyTypes: [Ingress], ingress: [{ports: [{port: 80}, {port: 90, endPort: 99, protocol: UDP}, {protocol: SCTP}, {port: http}, {port: none}]}]}`,
			[]string{"meta l4proto sctp return", "tcp dport 80 return", "tcp dport 8080 return", "udp dport 90-99 return"}, nil,
		},
		"a named port of whom it is sent to": {
			`{policyTypes: [Egress], egress: [{ports: [{port: http}], to: [{podSelector: {}}, {ipBlock: {cidr: 0.0.0.0/0}}]}]}`,
			nil, []string{"ip daddr 10.0.0.1 tcp dport 8080 return", "ip daddr 10.0.0.2 tcp dport 8080 return"},
		},
		"peers that there are none of": {`{policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {role: nobody}}}]}]}`, []string{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			state := state
			if c.policies != "" {
				p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "web"}}
				if err := yaml.UnmarshalStrict([]byte(c.policies), &p.Spec); err != nil {
					t.Fatal(err)
				}
				state.Policies = []*networkingv1.NetworkPolicy{p}
			}
			made, err := Rules(state)
			if err != nil {
				t.Fatal(err)
			}
			for d, want := range map[direction][]string{ingress: c.ingress, egress: c.egress} {
				if got := chain(made, d, "10.0.0.1"); !cmp.Equal(got, want) {
					t.Errorf("%s is %q, want %q\n%s", d.name, got, want, made)
				}
			}
		})
	}
}

// chain is what is in the chain of an address, but for its ends, and nil if nothing leads there.
func chain(rules string, d direction, ip string) []string {
	name := d.name + "-" + ip
	_, content, found := strings.Cut(rules, "chain "+name+" {\n    ip "+d.peer+" "+ip+" return\n")
	if !found || !strings.Contains(rules, "ip "+d.pod+" "+ip+" jump "+name+"\n") {
		return nil
	}
	content, _, _ = strings.Cut(content, "    reject with icmpx admin-prohibited\n  }\n")
	lines := []string{}
	for line := range strings.Lines(content) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}
