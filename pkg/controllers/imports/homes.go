package imports

import (
	"iter"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-dev/atoll/pkg/backends"
)

// Homes are the pods that have an address, as far as that counts on the physical cluster on which they
// run: two that are in no common network may each have a pod with the same one.
type Homes map[netip.Addr][]home

type home struct{ pod, physicalCluster string }

// HomesOf are those of the pods of a namespace. One that ends is still there: what is written of it is
// for its user to take back.
func HomesOf(pods []corev1.Pod, fleet Fleet) Homes {
	homes := Homes{}
	for i := range pods {
		p := &pods[i]
		if backends.HasEnded(p) {
			continue
		}
		on := backends.RunsOn(p)
		if len(on) > 1 { // the address is one of those on which it is known what pods have
			on = slices.DeleteFunc(on, func(name string) bool { return !fleet[name].Known })
		}
		for address, name := range fleet.addressesOf(p, on) {
			homes[address] = append(homes[address], home{pod: p.Name, physicalCluster: name})
		}
	}
	return homes
}

// addressesOf are the addresses of a pod, and for each the first of some physical clusters on which a pod may
// have it; without one it does not count.
func (f Fleet) addressesOf(p *corev1.Pod, on []string) iter.Seq2[netip.Addr, string] {
	return func(yield func(netip.Addr, string) bool) {
		for _, ip := range p.Status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil {
				continue
			}
			address = address.Unmap()
			if i := slices.IndexFunc(on, func(name string) bool { return f[name].has(address) }); i >= 0 && !yield(address, on[i]) {
				return
			}
		}
	}
}

// of is the physical cluster on which a pod has an address that a user wrote, empty if none has; ref is
// what the user says of it. ok is false if several have.
func (h Homes) of(text string, ref *corev1.ObjectReference) (physicalCluster string, ok bool) {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return "", true
	}
	all := h[address.Unmap()]
	if len(all) > 1 && ref != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(o home) bool { return o.pod != ref.Name })
	}
	switch len(all) {
	case 0:
		return "", len(h[address.Unmap()]) == 0
	case 1:
		return all[0].physicalCluster, true
	}
	return "", false
}
