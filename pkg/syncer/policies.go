package syncer

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/workload"
)

var networkPolicies = schema.GroupKind{Group: "networking.k8s.io", Kind: "NetworkPolicy"}

const dnsPort = 53

// permitsNames says that a NetworkPolicy of a logical cluster lets pods ask the DNS of their
// cluster, though it does not let them go everywhere.
//
//	a rule of egress has ports  and peers                               it does
//	none                        none                                    everything is permitted: nothing is needed
//	none                        all namespaces, or kube-system by name  yes
//	53, by number or in range   none, or pods, or namespaces            yes
//	any                         blocks of addresses alone               no: that is another resolver
//	others                      any                                     no
func permitsNames(kind workload.Kind, obj map[string]any) bool {
	if kind.GroupKind() != networkPolicies {
		return false
	}
	permits := false
	for _, rule := range list(field(obj, "spec"), "egress") {
		ports, peers := list(rule, "ports"), list(rule, "to")
		if len(ports) == 0 && len(peers) == 0 {
			return false
		}
		inside, system := len(peers) == 0, false
		for _, peer := range peers {
			namespaces, named := peer["namespaceSelector"].(map[string]any)
			_, pods := peer["podSelector"].(map[string]any)
			inside = inside || named || pods
			system = system || named && (len(namespaces) == 0 || text(field(namespaces, "matchLabels"), "kubernetes.io/metadata.name") == "kube-system")
		}
		for _, port := range ports {
			permits = permits || inside && hasDNSPort(port)
		}
		permits = permits || len(ports) == 0 && system
	}
	return permits
}

func hasDNSPort(port map[string]any) bool {
	first, ok := port["port"].(int64)
	if !ok {
		return port["port"] == nil // all of a protocol
	}
	last := first
	if end, ok := port["endPort"].(int64); ok {
		last = end
	}
	return first <= dnsPort && dnsPort <= last
}

// permitNames lets the pods of a policy that may ask the DNS of their cluster ask who answers
// them on the physical cluster: behind the address that they ask is a port of its own.
func permitNames(kind workload.Kind, logical, obj map[string]any, n Nameserver) {
	if n.Port == 0 || !permitsNames(kind, logical) {
		return
	}
	labels := func(key, value string) map[string]any {
		return map[string]any{"matchLabels": map[string]any{key: value}}
	}
	port := func(protocol string) any { return map[string]any{"protocol": protocol, "port": int64(n.Port)} }
	spec := field(obj, "spec")
	rules, _ := spec["egress"].([]any)
	spec["egress"] = append(rules, map[string]any{
		"ports": []any{port("UDP"), port("TCP")},
		"to": []any{map[string]any{
			"namespaceSelector": labels("kubernetes.io/metadata.name", n.Namespace), "podSelector": labels(n.Label, n.App),
		}},
	})
}
