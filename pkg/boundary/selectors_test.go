package boundary

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// TestSelectorsFindTheSameNamespacesBelowAsAbove: those of the logical cluster
// that they find there, and no namespace of anybody else.
func TestSelectorsFindTheSameNamespacesBelowAsAbove(t *testing.T) {
	namespaces := map[string]map[string]string{ // of the logical cluster, by name
		"shop": {"team": "web", "kubernetes.io/metadata.name": "shop"},
		"db":   {"team": "data", "tier": "back", "kubernetes.io/metadata.name": "db"},
		"bare": {"kubernetes.io/metadata.name": "bare"},
	}
	selectors := []string{
		"{}",
		"{matchLabels: {team: web}}",
		"{matchLabels: {kubernetes.io/metadata.name: db}}",
		"{matchExpressions: [{key: team, operator: Exists}]}",
		"{matchExpressions: [{key: team, operator: DoesNotExist}]}",
		"{matchExpressions: [{key: team, operator: NotIn, values: [web]}], matchLabels: {tier: back}}",
		"{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [shop, bare]}]}",
	}
	mine, theirs := Tenant("plane", "mine"), Tenant("plane", "theirs")
	for _, text := range selectors {
		policy := parseObject(t, object("NetworkPolicy", "networking.k8s.io/v1", "spec: {ingress: [{from: [{namespaceSelector: "+text+"}]}]}"))
		above := selectorIn(t, policy.Object)
		if findings := Filter(kindOf(policy), policy.Object, Passage{Tenant: mine}); len(findings) != 0 {
			t.Errorf("%s: %v", text, findings)
		}
		below := selectorIn(t, policy.Object)
		for name, set := range namespaces {
			if got, want := below.Matches(labels.Set((Passage{Tenant: mine}).NamespaceLabels(name, set))), above.Matches(labels.Set(set)); got != want {
				t.Errorf("%s finds %s: %v below, %v above", text, name, got, want)
			}
			if below.Matches(labels.Set((Passage{Tenant: theirs}).NamespaceLabels(name, set))) || below.Matches(labels.Set(set)) {
				t.Errorf("%s finds the namespace %s of somebody else", text, name)
			}
		}
	}
}

func selectorIn(t *testing.T, policy map[string]any) labels.Selector {
	t.Helper()
	spec := policy["spec"].(map[string]any)
	rule := spec["ingress"].([]any)[0].(map[string]any)
	peer := rule["from"].([]any)[0].(map[string]any)
	var s metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(peer["namespaceSelector"].(map[string]any), &s); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		t.Fatal(err)
	}
	return selector
}

func TestAffinityByNamesOfNamespacesIsASelector(t *testing.T) {
	term := func(lines string) map[string]any {
		pod := parseObject(t, object("Pod", "v1", "spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, "+lines+"}]}}}"))
		findings := Filter(kindOf(pod), pod.Object, Passage{Tenant: "me"})
		if len(Refusals(findings)) > 0 {
			return nil
		}
		affinity := pod.Object["spec"].(map[string]any)["affinity"].(map[string]any)["podAffinity"].(map[string]any)
		return affinity["requiredDuringSchedulingIgnoredDuringExecution"].([]any)[0].(map[string]any)
	}
	got := term("namespaces: [shop, db]")
	selector := selectorIn(t, map[string]any{"spec": map[string]any{"ingress": []any{map[string]any{"from": []any{got}}}}})
	for name, want := range map[string]bool{"shop": true, "db": true, "bare": false} {
		if selector.Matches(labels.Set((Passage{Tenant: "me"}).NamespaceLabels(name, nil))) != want {
			t.Errorf("%s: want %v from %v", name, want, got)
		}
	}
	if got["namespaces"] != nil {
		t.Errorf("names of the logical cluster went down: %v", got)
	}
	if term("namespaces: [shop], namespaceSelector: {}") != nil {
		t.Error("both cannot be carried, and were not refused")
	}
	if got := term("labelSelector: {}"); len(got) != 2 {
		t.Errorf("a term about its own namespace was changed: %v", got)
	}
}

func TestLabelsOfTenantsAreUnderKeysOfOurs(t *testing.T) {
	for key, value := range (Passage{Tenant: "me"}).NamespaceLabels("shop", map[string]string{"pod-security.kubernetes.io/enforce": "privileged", "a": "b"}) {
		switch {
		case key == "pod-security.kubernetes.io/enforce" && value == "baseline", key == TenantLabel, strings.HasPrefix(key, selectable):
		default:
			t.Errorf("a key of the tenant: %s: %s", key, value)
		}
	}
}

func TestATenantMayOnlyTightenTheLevel(t *testing.T) {
	for _, c := range []struct {
		floor, asked, want fleetv1alpha1.PodSecurityLevel
	}{
		{"", "", "baseline"}, {"", "privileged", "baseline"}, {"", "restricted", "restricted"}, {"", "nonsense", "baseline"},
		{"restricted", "privileged", "restricted"}, {"privileged", "", "privileged"}, {"privileged", "baseline", "baseline"},
	} {
		p := Passage{Permits: Permits{PodSecurity: c.floor}}
		labels := p.NamespaceLabels("web", map[string]string{"pod-security.kubernetes.io/enforce": string(c.asked)})
		if got := labels["pod-security.kubernetes.io/enforce"]; got != string(c.want) {
			t.Errorf("%q where at least %q: %q, want %q", c.asked, c.floor, got, c.want)
		}
	}
}
