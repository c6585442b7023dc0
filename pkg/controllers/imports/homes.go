package imports

import (
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
		for _, ip := range p.Status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil {
				continue
			}
			address = address.Unmap()
			at := slices.IndexFunc(on, func(name string) bool { return (len(on) == 1 || fleet[name].Known) && fleet[name].has(address) })
			if at >= 0 {
				homes[address] = append(homes[address], home{pod: p.Name, physicalCluster: on[at]})
			}
		}
	}
	return homes
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
