package syncer

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
)

const (
	supplyElsewhere = "elsewhere"
	// elsewherePrefix begins the names of policies that admit pods on other physical clusters.
	elsewherePrefix = "atoll-elsewhere-"
	// maxBlocks bounds the addresses in one of these policies: it is to weigh no more than what may
	// be held for the Copy of the policy of a user.
	maxBlocks = 1000
	// maxComparisons bounds the work for one namespace: policies and pods are the tenant's.
	maxComparisons = 500_000
	// bytesOfBlock is about what a block of addresses takes in a policy, bytesEachSecond what is
	// written of them for one logical cluster.
	bytesOfBlock, bytesEachSecond = 64, 256 << 10
	// maxElsewhereInterval is the longest time between two looks at who is elsewhere.
	maxElsewhereInterval = 10 * time.Minute
)

// PolicyPlace is a physical namespace, and who makes policies in it.
type PolicyPlace struct {
	ControlPlane, Target string
	Space                Space
	Permits              boundary.Permits
}

// Elsewhere are the NetworkPolicies of a physical namespace that admit pods on other physical clusters
// of the network by their addresses: for each policy of ours and of the user one beside it, with what
// its labels mean there. imports are those of the logical cluster.
//
//	a peer below selects                    means elsewhere
//	pods of the namespace                   those in the PodImport of the namespace
//	namespaces, or pods in them             those of all PodImports whose namespace it selects
//	addresses                               nobody: they are the same everywhere
//
// incomplete says that some are left out, as there are too many.
func Elsewhere(at PolicyPlace, beside []*unstructured.Unstructured, imports []*placementv1alpha1.PodImport) (policies []*unstructured.Unstructured, incomplete bool) {
	known := newElsewhere(at, imports)
	if len(known.namespaces) == 0 {
		return nil, false
	}
	users, isolating := 0, 0
	for _, p := range slices.SortedFunc(slices.Values(beside), func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) }) {
		switch {
		case p.GetDeletionTimestamp() != nil, IsElsewhere(at.ControlPlane, p):
			continue
		case IsIsolating(at.ControlPlane, p) && isolating < maxIsolating:
			isolating++
		case !IsSupply(at.ControlPlane, p) && users < maxRestricting:
			users++
		default:
			incomplete = true
			continue
		}
		if made := known.beside(at, p); made != nil {
			policies = append(policies, made)
		}
	}
	return policies, incomplete || known.incomplete
}

// IsElsewhere says that a policy below was made by Elsewhere.
func IsElsewhere(controlPlane string, obj *unstructured.Unstructured) bool {
	return IsSupply(controlPlane, obj) && obj.GetLabels()[SupplyLabel] == supplyElsewhere
}

// RewritePolicy is the JSON patch by which a policy, as it is present, becomes what was made.
func RewritePolicy(made, present *unstructured.Unstructured) []byte {
	patch, err := json.Marshal([]any{
		map[string]any{"op": "test", "path": "/metadata/uid", "value": present.GetUID()},
		map[string]any{"op": "replace", "path": "/spec", "value": made.Object["spec"]},
	})
	if err != nil {
		panic(err) // nothing but values of the API
	}
	return patch
}

// ElsewhereInterval is how long what was written for a logical cluster is left as it is: who has many
// namespaces, and many pods elsewhere, has all of it written again for each of these pods.
func ElsewhereInterval(namespaces, addresses int) time.Duration {
	const most = int64(maxElsewhereInterval/time.Second) * bytesEachSecond
	bytes := min(int64(namespaces)*int64(min(addresses, maxBlocks))*bytesOfBlock, most)
	return time.Duration(bytes) * time.Second / bytesEachSecond
}

// elsewhere are the pods of a logical cluster on other physical clusters of the network of a target.
type elsewhere struct {
	namespaces  []namespaceElsewhere
	comparisons int
	incomplete  bool
}

type namespaceElsewhere struct {
	name string
	// labels are those that the physical namespace would have here.
	labels labels.Set
	pods   []placementv1alpha1.ImportedPods
}

func newElsewhere(at PolicyPlace, imports []*placementv1alpha1.PodImport) *elsewhere {
	passage := boundary.Passage{Permits: at.Permits, Tenant: boundary.Tenant(at.ControlPlane, at.Space.Cluster.String())}
	e := &elsewhere{}
	for _, imp := range imports {
		i := slices.IndexFunc(imp.Spec.Importers, func(i placementv1alpha1.PodImporter) bool { return i.PhysicalCluster == at.Target })
		if i < 0 || imp.DeletionTimestamp != nil {
			continue
		}
		n := namespaceElsewhere{name: imp.Namespace, labels: passage.NamespaceLabels(imp.Namespace, imp.Spec.NamespaceLabels)}
		for _, pods := range imp.Spec.Pods {
			if pods.Network == imp.Spec.Importers[i].Network && pods.PhysicalCluster != at.Target {
				n.pods = append(n.pods, pods)
			}
		}
		e.incomplete = e.incomplete || imp.Spec.Truncated > 0
		if len(n.pods) > 0 {
			e.namespaces = append(e.namespaces, n)
		}
	}
	return e
}

// beside is the policy beside another one; nil if that admits nobody elsewhere.
func (e *elsewhere) beside(at PolicyPlace, p *unstructured.Unstructured) *unstructured.Unstructured {
	spec := map[string]any{}
	var types []any
	room := maxBlocks
	for _, direction := range []struct {
		policyType   networkingv1.PolicyType
		rules, peers string
	}{{networkingv1.PolicyTypeIngress, "ingress", "from"}, {networkingv1.PolicyTypeEgress, "egress", "to"}} {
		if !restricts(p, direction.policyType) {
			continue
		}
		var rules []any
		for _, rule := range list(field(p.Object, "spec"), direction.rules) {
			blocks := e.blocks(at, list(rule, direction.peers))
			if len(blocks) > room {
				blocks, e.incomplete = blocks[:room], true
			}
			if room -= len(blocks); len(blocks) == 0 {
				continue
			}
			made := map[string]any{direction.peers: blocks}
			if ports, ok := rule["ports"]; ok {
				made["ports"] = runtime.DeepCopyJSONValue(ports)
			}
			rules = append(rules, made)
		}
		if len(rules) > 0 {
			spec[direction.rules] = rules
			types = append(types, string(direction.policyType))
		}
	}
	if len(types) == 0 {
		return nil
	}
	spec["policyTypes"], spec["podSelector"] = types, map[string]any{}
	if selector := field(field(p.Object, "spec"), "podSelector"); selector != nil {
		spec["podSelector"] = runtime.DeepCopyJSON(selector)
	}
	made := supply(at.ControlPlane, networkPolicies.Kind, at.Space, elsewherePrefix+hash([]byte(p.GetName())), supplyElsewhere)
	made.SetAPIVersion(networkPolicies.Group + "/v1")
	made.Object["spec"] = spec
	return made
}

// blocks are the addresses elsewhere of what peers select.
func (e *elsewhere) blocks(at PolicyPlace, peers []map[string]any) []any {
	var addresses []string
	for _, peer := range peers {
		inNamespace, pods := peerSelector(peer, "namespaceSelector"), peerSelector(peer, "podSelector")
		if inNamespace == nil && pods == nil {
			continue // addresses
		}
		for _, n := range e.namespaces {
			if !e.compare() {
				return blocksOf(addresses)
			}
			if inNamespace == nil && n.name != at.Space.Namespace || inNamespace != nil && !inNamespace.Matches(n.labels) {
				continue
			}
			for _, group := range n.pods {
				if !e.compare() {
					return blocksOf(addresses)
				}
				if pods == nil || pods.Matches(labels.Set(group.Labels)) {
					addresses = append(addresses, group.Addresses...)
				}
			}
		}
	}
	return blocksOf(addresses)
}

// compare says that there is time for one more comparison.
func (e *elsewhere) compare() bool {
	if e.comparisons >= maxComparisons {
		e.incomplete = true
		return false
	}
	e.comparisons++
	return true
}

// peerSelector is a selector of a peer; nil if it has none. What cannot be read selects nothing.
func peerSelector(peer map[string]any, name string) labels.Selector {
	raw, ok := peer[name].(map[string]any)
	if !ok {
		return nil
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector); err != nil {
		return labels.Nothing()
	}
	s, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return labels.Nothing()
	}
	return s
}

// blocksOf are peers with nothing but these addresses.
func blocksOf(addresses []string) []any {
	ranges := make([]string, 0, len(addresses))
	for _, text := range addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			ranges = append(ranges, netip.PrefixFrom(address, address.BitLen()).String())
		}
	}
	var blocks []any
	for _, r := range JoinRanges(ranges) {
		blocks = append(blocks, map[string]any{"ipBlock": map[string]any{"cidr": r}})
	}
	return blocks
}
