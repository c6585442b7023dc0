package egress

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice"

	"github.com/atoll-dev/atoll/pkg/backends"
)

// Backend is a port of a pod behind a Service.
type Backend struct {
	Namespace, Pod string
	UID            types.UID
	Port           int32
}

// Backends are the pods that a port of a Service with a selector leads to, by name: those of
// backends.Of that have it, as far as their physical clusters are heard from; if none is, the
// others; of those, as far as they receive traffic; if none does, the others.
func Backends(s *corev1.Service, known Known, port int32) ([]Backend, error) {
	unlocated := unlocatedOf(s)
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == port && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "")
	})
	if i < 0 {
		return nil, unlocated(ServicePortError, "it has no port %d of TCP", port)
	}
	to := s.Spec.Ports[i]
	to.Protocol = corev1.ProtocolTCP
	of, matched := backends.Of(s, backends.Candidates(known.Pods))
	ready := len(of)
	of = slices.DeleteFunc(of, func(b backends.Backend) bool { return portOf(b.Pod, &to) == 0 })
	if heard := slices.DeleteFunc(slices.Clone(of), func(b backends.Backend) bool { return known.Silent.Has(b.Target) }); len(heard) > 0 {
		of = heard
	}
	var found []Backend
	for _, b := range backends.Receiving(of) {
		found = append(found, Backend{Namespace: b.Pod.Namespace, Pod: b.Pod.Name, UID: b.Pod.UID, Port: portOf(b.Pod, &to)})
	}
	switch {
	case matched == 0:
		return nil, unlocated(EndpointsNotFound, "it runs on a physical cluster, and no pod of its namespace has the labels that it selects (%s)", labels.Set(s.Spec.Selector))
	case ready == 0:
		return nil, unlocated(MissingEndpoints, "it runs on a physical cluster, and none of its %d pods is ready", matched)
	case len(found) == 0:
		return nil, unlocated(MissingEndpoints, "it runs on a physical cluster, and none of its %d ready pods has a port %q", ready, to.TargetPort.String())
	}
	slices.SortFunc(found, func(x, y Backend) int { return cmp.Compare(x.Pod, y.Pod) })
	return found, nil
}

// portOf is the number of a port of a Service in a pod; 0 if it has none.
func portOf(p *corev1.Pod, port *corev1.ServicePort) int32 {
	number, err := endpointslice.FindPort(p, port)
	if err != nil || number <= 0 || number > 65535 {
		return 0
	}
	return int32(number)
}

// podsPrefix begins the hosts that mean pods. No DNS name has it, so that no name or
// address of a Service is one.
const podsPrefix = "_pods."

// hostOf is a host for backends of a Service. It differs if they do: idle connections are
// kept by host.
func hostOf(s *corev1.Service, backends []Backend) string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s", s.UID)
	for _, b := range backends {
		fmt.Fprintf(hash, "|%s:%d", b.UID, b.Port)
	}
	return fmt.Sprintf("%s%x.%s.%s", podsPrefix, hash.Sum(nil)[:16], s.Name, s.Namespace)
}

// HostHeader is what a request to a host that Locate returned calls it: the Service, if that
// runs below.
func HostHeader(host string) string {
	if namespace, name, ok := serviceOf(host); ok {
		return name + "." + namespace + ".svc"
	}
	return host
}

// serviceOf is the Service of a host that hostOf made, with a port or without.
func serviceOf(host string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(host, podsPrefix)
	if !ok {
		return "", "", false
	}
	rest, _, _ = strings.Cut(rest, ":")
	parts := strings.Split(rest, ".")
	if len(parts) != 3 {
		return "", "", false
	}
	return parts[2], parts[1], true
}
