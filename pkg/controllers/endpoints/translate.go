package endpoints

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	endpointsv1 "k8s.io/kubernetes/pkg/api/v1/endpoints"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/backends"
)

const (
	// managedBy is the label of Endpoints that are made from slices, with the
	// value that Kubernetes gives it; skipMirror is how a user keeps Endpoints
	// to themselves.
	managedBy  = "endpoints.kubernetes.io/managed-by"
	manager    = "endpoint-controller"
	mirrorer   = "endpointslicemirroring-controller.k8s.io"
	skipMirror = discoveryv1.LabelSkipMirror
	// capacity is how many addresses a slice, and a subset, hold at most.
	capacity = 1000
)

// subsets are the addresses of slices as Endpoints list them: once each, in the
// order in which Kubernetes keeps them. A pod that has addresses of two families has
// one there, of the first family of its Service.
func subsets(list []discoveryv1.EndpointSlice, families []corev1.IPFamily) []corev1.EndpointSubset {
	list = slices.DeleteFunc(slices.Clone(list), func(s discoveryv1.EndpointSlice) bool {
		return s.AddressType == discoveryv1.AddressTypeFQDN || s.DeletionTimestamp != nil || s.Labels[discoveryv1.LabelManagedBy] == mirrorer
	})
	inFirst := map[string]bool{}
	isFirst := func(s *discoveryv1.EndpointSlice) bool {
		return len(families) > 0 && s.AddressType == discoveryv1.AddressType(families[0])
	}
	for i := range list {
		if isFirst(&list[i]) {
			for _, e := range list[i].Endpoints {
				if pod, ok := backends.PodOf(e); ok && !ends(e) { // another one may have the name of one that ends
					inFirst[pod] = true
				}
			}
		}
	}
	var out []corev1.EndpointSubset
	for i := range list {
		s := &list[i]
		ports := portsOfSlice(s.Ports)
		for _, e := range s.Endpoints {
			if pod, ok := backends.PodOf(e); ends(e) || ok && inFirst[pod] && !isFirst(s) {
				continue
			}
			for _, address := range addressesOf(e) {
				subset := corev1.EndpointSubset{Ports: ports}
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					subset.Addresses = []corev1.EndpointAddress{address}
				} else {
					subset.NotReadyAddresses = []corev1.EndpointAddress{address}
				}
				out = append(out, subset)
			}
		}
	}
	out = endpointsv1.RepackSubsets(out)
	for i := range out {
		out[i].Addresses = out[i].Addresses[:min(len(out[i].Addresses), capacity)]
		out[i].NotReadyAddresses = out[i].NotReadyAddresses[:min(len(out[i].NotReadyAddresses), capacity)]
	}
	return out
}

func ends(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Terminating, false) }

func addressesOf(e discoveryv1.Endpoint) []corev1.EndpointAddress {
	var out []corev1.EndpointAddress
	for _, ip := range e.Addresses {
		out = append(out, corev1.EndpointAddress{IP: ip, Hostname: ptr.Deref(e.Hostname, ""), NodeName: e.NodeName, TargetRef: e.TargetRef})
	}
	return out
}

func portsOfSlice(ports []discoveryv1.EndpointPort) []corev1.EndpointPort {
	var out []corev1.EndpointPort
	for _, p := range ports {
		if p.Port == nil {
			continue // any port: Endpoints cannot say that
		}
		out = append(out, corev1.EndpointPort{
			Name: ptr.Deref(p.Name, ""), Port: *p.Port, Protocol: ptr.Deref(p.Protocol, corev1.ProtocolTCP), AppProtocol: p.AppProtocol,
		})
	}
	return out
}

// mirrors are the slices that mirror Endpoints of a user, one for each set of
// ports and family of addresses, by name.
func mirrors(e *corev1.Endpoints) map[string]*discoveryv1.EndpointSlice {
	out := map[string]*discoveryv1.EndpointSlice{}
	for _, subset := range endpointsv1.RepackSubsets(e.Subsets) {
		for ready, addresses := range map[bool][]corev1.EndpointAddress{true: subset.Addresses, false: subset.NotReadyAddresses} {
			for _, a := range addresses {
				family, ok := familyOf(a.IP)
				if !ok {
					continue
				}
				name := mirrorName(e.Name, family, subset.Ports)
				if out[name] == nil {
					out[name] = newMirror(e, name, family, subset.Ports)
				}
				out[name].Endpoints = append(out[name].Endpoints, endpointOf(a, ready))
			}
		}
	}
	for _, s := range out {
		slices.SortFunc(s.Endpoints, func(a, b discoveryv1.Endpoint) int { return cmp.Compare(a.Addresses[0], b.Addresses[0]) })
		s.Endpoints = s.Endpoints[:min(len(s.Endpoints), capacity)]
	}
	return out
}

func familyOf(ip string) (discoveryv1.AddressType, bool) {
	address, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return "", false
	case address.Is4():
		return discoveryv1.AddressTypeIPv4, true
	}
	return discoveryv1.AddressTypeIPv6, true
}

func endpointOf(a corev1.EndpointAddress, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{a.IP}, NodeName: a.NodeName, TargetRef: a.TargetRef,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready},
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e
}

// newMirror has the labels and annotations of the Endpoints, and goes with them.
func newMirror(e *corev1.Endpoints, name string, family discoveryv1.AddressType, ports []corev1.EndpointPort) *discoveryv1.EndpointSlice {
	labels, annotations := maps.Clone(e.Labels), maps.Clone(e.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName], labels[discoveryv1.LabelManagedBy] = e.Name, mirrorer
	delete(annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: e.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: family,
	}
	for _, p := range ports {
		protocol := cmp.Or(p.Protocol, corev1.ProtocolTCP)
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr.To(p.Name), Port: ptr.To(p.Port), Protocol: &protocol, AppProtocol: p.AppProtocol})
	}
	return s
}

// mirrorName is the same for the same ports, so that a change of addresses is an
// update.
func mirrorName(service string, family discoveryv1.AddressType, ports []corev1.EndpointPort) string {
	h := sha256.New()
	fmt.Fprint(h, family)
	for _, p := range ports {
		fmt.Fprintf(h, "|%s/%d/%s/%s", p.Name, p.Port, p.Protocol, ptr.Deref(p.AppProtocol, ""))
	}
	return service[:min(len(service), 200)] + "-" + hex.EncodeToString(h.Sum(nil))[:8]
}
