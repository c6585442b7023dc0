// Package policies enforces the NetworkPolicies of a physical cluster on its node, as a
// network plugin does: rules of nftables, which are made anew with each change.
package policies

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// State is what the rules are made of.
type State struct {
	Policies   []*networkingv1.NetworkPolicy
	Namespaces []*corev1.Namespace
	Pods       []*corev1.Pod
}

// Rules is the input of nft: a table that refuses, at once and with an error that nothing else
// causes, what no policy permits. It has chains for the pods that policies select, as addresses
// are once kube-proxy has translated them, for IPv4. Connections that were permitted go on,
// and what the node itself sends is not looked at.
func Rules(s State) (string, error) {
	var verdicts, chains strings.Builder
	for _, pod := range addressed(s.Pods) {
		for _, d := range []direction{ingress, egress} {
			rules, restricted, err := s.rules(pod, d)
			if err != nil {
				return "", err
			}
			if !restricted {
				continue
			}
			ip := pod.Status.PodIP
			chain := d.name + "-" + ip
			fmt.Fprintf(&verdicts, "    ip %s %s jump %s\n", d.pod, ip, chain)
			fmt.Fprintf(&chains, "  chain %s {\n    ip %s %s return\n", chain, d.peer, ip) // a pod always reaches itself
			for _, rule := range rules {
				fmt.Fprintf(&chains, "    %s\n", strings.TrimSpace(rule+" return"))
			}
			chains.WriteString("    reject with icmpx admin-prohibited\n  }\n")
		}
	}
	// A table must be there to be deleted.
	return "table inet policies {}\ndelete table inet policies\ntable inet policies {\n" + chains.String() +
		"  chain forward {\n    type filter hook forward priority filter; policy accept;\n    ct state established,related accept\n" +
		verdicts.String() + "  }\n}\n", nil
}

// direction is what nft calls the two ends of a packet, seen from the pod of a policy.
type direction struct {
	name, pod, peer string
	policyType      networkingv1.PolicyType
}

var (
	ingress = direction{"ingress", "daddr", "saddr", networkingv1.PolicyTypeIngress}
	egress  = direction{"egress", "saddr", "daddr", networkingv1.PolicyTypeEgress}
)

// addressed are the pods that have an address of their own, by it.
func addressed(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return p.Spec.HostNetwork || p.Status.PodIP == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Status.PodIP, b.Status.PodIP) })
	return slices.CompactFunc(pods, func(a, b *corev1.Pod) bool { return a.Status.PodIP == b.Status.PodIP })
}

// rules are what the policies of a pod permit; restricted says that there is one.
func (s State) rules(pod *corev1.Pod, d direction) (rules []string, restricted bool, err error) {
	for _, p := range s.Policies {
		selected, err := matches(&p.Spec.PodSelector, pod.Labels)
		if err != nil {
			return nil, false, err
		}
		if p.Namespace != pod.Namespace || !selected || !slices.Contains(p.Spec.PolicyTypes, d.policyType) {
			continue
		}
		restricted = true
		for _, rule := range permissions(p, d) {
			made, err := s.permission(p.Namespace, pod, d, rule)
			if err != nil {
				return nil, false, err
			}
			rules = append(rules, made...)
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules), restricted, nil
}

// permission is a rule of either direction.
type permission struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func permissions(p *networkingv1.NetworkPolicy, d direction) (rules []permission) {
	if d.policyType == networkingv1.PolicyTypeIngress {
		for _, r := range p.Spec.Ingress {
			rules = append(rules, permission{r.From, r.Ports})
		}
		return rules
	}
	for _, r := range p.Spec.Egress {
		rules = append(rules, permission{r.To, r.Ports})
	}
	return rules
}

// permission makes the rules of one: for each peer with each port. A port that has a name is
// that of whoever receives: the pod itself, or each peer.
func (s State) permission(namespace string, pod *corev1.Pod, d direction, rule permission) (rules []string, err error) {
	add := func(peer string, receiver *corev1.Pod) {
		if len(rule.ports) == 0 {
			rules = append(rules, peer)
		}
		for _, p := range rule.ports {
			if port := match(p, receiver); port != "" {
				rules = append(rules, strings.TrimSpace(peer+" "+port))
			}
		}
	}
	receiver := func(peer *corev1.Pod) *corev1.Pod {
		if d.policyType == networkingv1.PolicyTypeIngress {
			return pod
		}
		return peer
	}
	if len(rule.peers) == 0 {
		add("", receiver(nil))
	}
	for _, peer := range rule.peers {
		if peer.IPBlock != nil {
			if block := addresses(d.peer, peer.IPBlock); block != "" {
				add(block, receiver(nil))
			}
			continue
		}
		pods, err := s.peers(namespace, peer)
		if err != nil {
			return nil, err
		}
		for _, p := range pods {
			add(fmt.Sprintf("ip %s %s", d.peer, p.Status.PodIP), receiver(p))
		}
	}
	return rules, nil
}

// addresses is a match of a block, and empty for IPv6.
func addresses(end string, block *networkingv1.IPBlock) string {
	is4 := func(cidr string) bool { p, err := netip.ParsePrefix(cidr); return err == nil && p.Addr().Is4() }
	if !is4(block.CIDR) {
		return ""
	}
	match := fmt.Sprintf("ip %s %s", end, block.CIDR)
	for _, except := range block.Except { // one by one: a set takes none that overlap
		if is4(except) {
			match += fmt.Sprintf(" ip %s != %s", end, except)
		}
	}
	return match
}

// peers are the pods that a peer selects.
func (s State) peers(namespace string, peer networkingv1.NetworkPolicyPeer) (pods []*corev1.Pod, err error) {
	namespaces := map[string]bool{namespace: peer.NamespaceSelector == nil}
	for _, n := range s.Namespaces {
		if peer.NamespaceSelector != nil {
			if namespaces[n.Name], err = matches(peer.NamespaceSelector, n.Labels); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range addressed(s.Pods) {
		selected := namespaces[p.Namespace]
		if selected && peer.PodSelector != nil {
			if selected, err = matches(peer.PodSelector, p.Labels); err != nil {
				return nil, err
			}
		}
		if selected {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// match is that of a port; it is empty if the receiver has none of that name.
func match(port networkingv1.NetworkPolicyPort, receiver *corev1.Pod) string {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	name := strings.ToLower(string(protocol))
	switch {
	case port.Port == nil:
		return "meta l4proto " + name
	case port.EndPort != nil:
		return fmt.Sprintf("%s dport %d-%d", name, port.Port.IntVal, *port.EndPort)
	case port.Port.Type == intstr.Int:
		return fmt.Sprintf("%s dport %d", name, port.Port.IntVal)
	case receiver == nil:
		return ""
	}
	for _, c := range receiver.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == port.Port.StrVal && cmp.Or(p.Protocol, corev1.ProtocolTCP) == protocol {
				return fmt.Sprintf("%s dport %d", name, p.ContainerPort)
			}
		}
	}
	return ""
}

func matches(selector *metav1.LabelSelector, of map[string]string) (bool, error) {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, fmt.Errorf("reading a selector: %w", err)
	}
	return s.Matches(labels.Set(of)), nil
}
