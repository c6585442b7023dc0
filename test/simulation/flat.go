package simulation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// network1 is the only network, in worlds where there is one.
const network1 = "n"

// join has a physical cluster be in the network, part has it leave.
func (w *World) join(h Happening) {
	w.cluster(h.Physical).edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Pods.Network = network1 })
}

func (w *World) part(h Happening) {
	w.cluster(h.Physical).edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Pods.Network = "" })
}

// range24 is where pods have their addresses from: of each physical cluster its own where they reach
// those of others.
func (p *physical) range24() string {
	if !p.world.flat {
		return "10.244.0.0/24"
	}
	return fmt.Sprintf("10.%d.0.0/24", 244+len(p.world.clusters))
}

// running is the status of a pod that has just begun to run. Addresses come again, as they do.
func (p *physical) running() map[string]any {
	status := map[string]any{"phase": "Running"}
	if p.world.flat || p.world.fronts {
		const usable = 40
		address := netip.MustParsePrefix(p.addressRange()).Addr()
		for range 2 + p.addresses%usable {
			address = address.Next()
		}
		p.addresses++
		status["podIP"], status["podIPs"] = address.String(), []any{map[string]any{"ip": address.String()}}
	}
	return status
}

func (p *physical) addressRange() string {
	node := cast(p.api.List(nodes)[0])
	ranges, _, _ := unstructured.NestedStringSlice(node.Object, "spec", "podCIDRs") // as readyNode made it
	return ranges[0]
}

// networkOf is the network of a physical cluster that works; empty if it is in none.
func (w *World) networkOf(p *physical) string {
	pc, ok := w.api.Find(p.key()).(*fleetv1alpha1.PhysicalCluster)
	if !ok || p.dead || !p.syncing() {
		return ""
	}
	return pc.Spec.Pods.Network
}

// admitted: at rest the pods that no policy of a user restricts are reached by all pods of their
// logical cluster on other physical clusters of the network, and by no others from there.
func (w *World) admitted(p *physical) {
	if !w.flat || !p.syncing() {
		return
	}
	for _, obj := range p.api.List(namespaces) {
		namespace := cast(obj)
		m, marked := syncer.MarkOf(namespaces, namespace)
		_, logical := w.api.ByUID(m.UID)
		if !marked || !labelled(namespace) || namespace.GetDeletionTimestamp() != nil || logical == nil {
			continue
		}
		if target, here := targetsOf(logical)[p.name]; !here || !target.Keeps() {
			continue // nobody's, as after a restored backup
		}
		isolating, want := false, map[string]bool{}
		if network := w.networkOf(p); network != "" {
			for _, q := range w.clusters {
				if q != p && w.networkOf(q) == network {
					maps.Copy(want, w.addressesOn(q, m.Cluster.String()))
				}
			}
		}
		got := map[string]bool{}
		for _, obj := range p.api.ListNamespace(netPolicies, "", namespace.GetName()) {
			policy := cast(obj)
			isolating = isolating || syncer.IsIsolating(controlPlane, policy)
			if syncer.IsElsewhere(controlPlane, policy) {
				maps.Copy(got, addressesIn(policy))
			}
		}
		if isolating && !maps.Equal(got, want) {
			w.fail(Converges, "%s on %s admits %v from elsewhere, of its logical cluster there are %v", namespace.GetName(), p.name,
				slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
}

// addressesOn are those that pods of a logical cluster have on a physical cluster, as its mirrors say.
func (w *World) addressesOn(p *physical, cluster string) map[string]bool {
	found := map[string]bool{}
	for _, obj := range w.api.List(pods) {
		key := w.api.KeyOf(pods, obj)
		target, on := targetsOf(obj)[p.name]
		phase := text(obj, "status", "phase")
		if key.Cluster.String() != cluster || !on || target.State != "" && target.State != "Observed" || phase == "Succeeded" || phase == "Failed" {
			continue
		}
		// One that a user wrote may be on several, of which its status has the address of one.
		if address, err := netip.ParseAddr(text(obj, "status", "podIP")); err == nil && netip.MustParsePrefix(p.addressRange()).Contains(address) {
			found[address.String()] = true
		}
	}
	return found
}

// addressesIn are those of the blocks of a policy.
func addressesIn(policy kube.Object) map[string]bool {
	found := map[string]bool{}
	rules, _, _ := unstructured.NestedSlice(cast(policy).Object, "spec", "ingress")
	for _, rule := range rules {
		peers, _, _ := unstructured.NestedSlice(rule.(map[string]any), "from")
		for _, peer := range peers {
			cidr, _, _ := unstructured.NestedString(peer.(map[string]any), "ipBlock", "cidr")
			block := netip.MustParsePrefix(cidr)
			for a := block.Addr(); block.Contains(a); a = a.Next() {
				found[a.String()] = true
			}
		}
	}
	return found
}
