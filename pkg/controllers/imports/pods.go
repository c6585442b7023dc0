package imports

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/backends"
)

const (
	// MaxPods bounds the pods of an import, maxLabelBytes the labels of all of them, as the object
	// is written whole.
	MaxPods       = 1000
	maxLabelBytes = 256 << 10
)

// PodsOf are the pods of a namespace as policies on other physical clusters mean them; nil if
// there are none. present are the physical clusters on which namespaces of the logical cluster are.
//
//	X is present, and another one in its network        then X imports
//	the pod runs on a physical cluster of a network     its addresses there count, if they are in the
//	that has importers, and has not ended               ranges of that: without ranges none does
//	there are more than MaxPods, or larger labels       those of the groups that are last are left out
func PodsOf(namespaceLabels map[string]string, pods []corev1.Pod, present []string, fleet Fleet) *placementv1alpha1.PodImportSpec {
	spec := &placementv1alpha1.PodImportSpec{NamespaceLabels: namespaceLabels}
	networks, joining := map[string]bool{}, fleet.joining(present)
	for _, name := range slices.Sorted(slices.Values(present)) {
		if network := fleet[name].Network; joining[network] {
			networks[network] = true
			spec.Importers = append(spec.Importers, placementv1alpha1.PodImporter{PhysicalCluster: name, Network: network})
		}
	}
	groups := map[string]*placementv1alpha1.ImportedPods{}
	for i := range pods {
		p := &pods[i]
		if backends.HasEnded(p) {
			continue
		}
		on := slices.DeleteFunc(backends.RunsOn(p), func(name string) bool { return !networks[fleet[name].Network] || !fleet[name].Known })
		for address, target := range fleet.addressesOf(p, on) {
			key := target + " " + apilabels.Set(p.Labels).String()
			if groups[key] == nil {
				groups[key] = &placementv1alpha1.ImportedPods{PhysicalCluster: target, Network: fleet[target].Network, Labels: p.Labels}
			}
			groups[key].Addresses = append(groups[key].Addresses, address.String())
		}
	}
	if len(groups) == 0 {
		return nil
	}
	left, room := MaxPods, maxLabelBytes
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b].Addresses), len(groups[a].Addresses)), cmp.Compare(a, b)) // large ones first
	}) {
		g := groups[key]
		slices.Sort(g.Addresses)
		taken := min(len(g.Addresses), left)
		if room -= len(key); room < 0 {
			taken, room = 0, room+len(key)
		}
		if spec.Truncated += int32(len(g.Addresses) - taken); taken > 0 {
			left, g.Addresses = left-taken, g.Addresses[:taken]
			spec.Pods = append(spec.Pods, *g)
		}
	}
	slices.SortStableFunc(spec.Pods, func(a, b placementv1alpha1.ImportedPods) int {
		return cmp.Or(cmp.Compare(a.PhysicalCluster, b.PhysicalCluster), cmp.Compare(apilabels.Set(a.Labels).String(), apilabels.Set(b.Labels).String()))
	})
	return spec
}
