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

	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Backend is a port of a pod behind a Service.
type Backend struct {
	Namespace, Pod string
	UID            types.UID
	Port           int32
}

// Backends are the pods that a port of a Service with a selector leads to, by name:
//
//	the pod                                  traffic of s   it is
//	of another namespace, not matched,       any            left out
//	being deleted, ended
//	not ready (and s wants ready ones)       any            left out
//	ready, without the named port            any            left out
//	ready                                    goes there     taken
//	ready                                    is withdrawn   taken if no other is
//
// Traffic goes to a pod if it is on a target whose copy of the Service receives it. Pods
// only count: endpoints are what anybody wrote.
func Backends(s *corev1.Service, pods []corev1.Pod, port int32) ([]Backend, error) {
	unlocated := unlocatedOf(s)
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == port && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "")
	})
	if i < 0 {
		return nil, unlocated(ServicePortError, "it has no port %d of TCP", port)
	}
	to := s.Spec.Ports[i]
	to.Protocol = corev1.ProtocolTCP
	var found, withdrawn []Backend
	matched, ready := 0, 0
	for i := range pods {
		p := &pods[i]
		if !selects(s, p) {
			continue
		}
		matched++
		if !s.Spec.PublishNotReadyAddresses && !isReady(p) {
			continue
		}
		ready++
		number, err := endpointslice.FindPort(p, &to)
		if err != nil || number <= 0 || number > 65535 {
			continue
		}
		b := Backend{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Port: int32(number)}
		if receives(s, p) {
			found = append(found, b)
		} else {
			withdrawn = append(withdrawn, b)
		}
	}
	if len(found) == 0 {
		found = withdrawn
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

// selects says that p is one of the pods that s is made of.
func selects(s *corev1.Service, p *corev1.Pod) bool {
	return len(s.Spec.Selector) > 0 && p.Namespace == s.Namespace && p.DeletionTimestamp == nil &&
		p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels))
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func receives(s *corev1.Service, p *corev1.Pod) bool {
	of := stamp.TargetsOf(s.Annotations)
	for name := range stamp.TargetsOf(p.Annotations) {
		if target, ok := of[name]; ok && target.Receives() {
			return true
		}
	}
	return false
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
