package egress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/backends"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// UnlocatedError says why a Service leads nowhere, in upstream's words for APIServices.
type UnlocatedError struct{ Reason, Message string }

// Error implements error.
func (e *UnlocatedError) Error() string { return e.Message }

// Reasons of an UnlocatedError.
const (
	ServicePortError  = "ServicePortError"
	EndpointsNotFound = "EndpointsNotFound"
	MissingEndpoints  = "MissingEndpoints"
)

// Known is what is read of a Service beside it.
type Known struct {
	// Endpoints are read if it has no selector, Pods if it has one.
	Endpoints []discoveryv1.EndpointSlice
	Pods      []corev1.Pod
	// Silent are the physical clusters of Pods that are not Ready, if there are several.
	Silent sets.Set[string]
}

// Locate returns where a port of a Service is for a caller outside of the physical
// clusters, as host:port. The cluster IP leads nowhere:
//
//	the Service has               it is at
//	type ExternalName             that name
//	type LoadBalancer, no         the first such address, which a user wrote
//	targets, and an address in
//	its status
//	no selector                   its ready endpoints, which a user wrote
//	a selector                    in its pods, see Backends: a host that a Caller connects to
//
// What a syncer says counts for what runs on its physical cluster only: that is its pods,
// which are asked there. No status that it writes and no endpoints are an address: it could name any.
func Locate(s *corev1.Service, known Known, port int32) ([]string, error) {
	at := func(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
	if s.Spec.Type == corev1.ServiceTypeExternalName && s.Spec.ExternalName != "" {
		return []string{at(s.Spec.ExternalName, port)}, nil
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		switch {
		case s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(stamp.TargetsOf(s.Annotations)) > 0:
		case ingress.Hostname != "":
			return []string{at(ingress.Hostname, port)}, nil
		case ingress.IP != "":
			return []string{at(ingress.IP, port)}, nil
		}
	}
	if len(s.Spec.Selector) > 0 {
		backends, err := Backends(s, known, port)
		if err != nil {
			return nil, err
		}
		return []string{at(hostOf(s, backends), port)}, nil
	}
	unlocated := unlocatedOf(s)
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return nil, unlocated(ServicePortError, "it has no port %d", port)
	}
	endpoints := slices.DeleteFunc(slices.Clone(known.Endpoints), func(e discoveryv1.EndpointSlice) bool { return stamp.Mirrored(&e) })
	if len(endpoints) == 0 {
		return nil, unlocated(EndpointsNotFound, "it has no selector and no endpoints. Give it a selector, endpoints, or the type ExternalName; a webhook may have a url instead")
	}
	var hosts []string
	for _, slice := range endpoints {
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name == nil || *p.Name != s.Spec.Ports[i].Name {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					hosts = append(hosts, at(e.Addresses[0], *p.Port))
				}
			}
		}
	}
	if len(hosts) == 0 {
		return nil, unlocated(MissingEndpoints, "none of its endpoints is ready at port %d", port)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

func unlocatedOf(s *corev1.Service) func(reason, format string, args ...any) error {
	return func(reason, format string, args ...any) error {
		return &UnlocatedError{Reason: reason, Message: fmt.Sprintf("service %s/%s has no address that the control plane could call: ", s.Namespace, s.Name) + fmt.Sprintf(format, args...)}
	}
}

// Services locates the Services of a logical cluster.
type Services struct {
	// Kube takes the logical cluster from its context, or knows it.
	Kube    kubernetes.Interface
	Cluster logicalcluster.Name
}

var _ webhookutil.ServiceResolver = Services{}

// resolveTimeout bounds the look at a Service; upstream's interface has no context.
const resolveTimeout = 5 * time.Second

// ResolveEndpoint implements webhookutil.ServiceResolver.
func (s Services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout) //nolint:forbidigo // upstream's interface has no context
	defer cancel()
	hosts, err := s.Locate(ctx, namespace, name, port)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: hosts[rand.N(len(hosts))]}, nil
}

// Locate reads a Service and returns where it is.
func (s Services) Locate(ctx context.Context, namespace, name string, port int32) ([]string, error) {
	service, known, err := s.read(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return Locate(service, known, port)
}

// Backends are the pods behind a port of a Service: that of a number, of a name, or the only one.
func (s Services) Backends(ctx context.Context, namespace, name, port string) ([]Backend, error) {
	service, known, err := s.read(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if len(service.Spec.Selector) == 0 {
		return nil, unlocatedOf(service)(EndpointsNotFound, "it has no selector, and so no pods")
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Name == port && port != "" || strconv.Itoa(int(p.Port)) == port
	})
	if port == "" && len(service.Spec.Ports) == 1 {
		i = 0
	}
	if i < 0 {
		return nil, unlocatedOf(service)(ServicePortError, "it has no port %q", port)
	}
	return Backends(service, known, service.Spec.Ports[i].Port)
}

// in is ctx in the logical cluster, whatever view the request has that it is of.
func (s Services) in(ctx context.Context) context.Context {
	return scope.With(ctx, scope.Scope{Cluster: s.Cluster})
}

// read reads a Service and what else Locate needs.
func (s Services) read(ctx context.Context, namespace, name string) (service *corev1.Service, known Known, err error) {
	ctx = s.in(ctx)
	service, err = s.Kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, known, fmt.Errorf("looking up service %s/%s: %w", namespace, name, err)
	}
	if len(service.Spec.Selector) > 0 {
		list, err := s.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			ResourceVersion: "0", LabelSelector: labels.Set(service.Spec.Selector).String(),
		})
		if err != nil {
			return nil, known, fmt.Errorf("looking up the pods of service %s/%s: %w", namespace, name, err)
		}
		known.Pods = list.Items
		known.Silent, err = s.silent(ctx, list.Items)
		return service, known, err
	}
	list, err := s.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{
		ResourceVersion: "0", LabelSelector: labels.Set{discoveryv1.LabelServiceName: name}.String(),
	})
	if err != nil {
		return nil, known, fmt.Errorf("looking up the endpoints of service %s/%s: %w", namespace, name, err)
	}
	known.Endpoints = list.Items
	return service, known, nil
}

// silent are the physical clusters of pods that are not Ready: Nodes of the logical cluster. Where
// there is one, nothing is to be chosen.
func (s Services) silent(ctx context.Context, pods []corev1.Pod) (sets.Set[string], error) {
	on, silent := sets.New[string](), sets.New[string]()
	for _, c := range backends.Candidates(pods) {
		on.Insert(c.Target)
	}
	if len(on) < 2 {
		return silent, nil
	}
	for name := range on.Delete("") {
		node, err := s.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
		switch {
		case apierrors.IsNotFound(err): // the logical cluster does not see it
		case err != nil:
			return nil, fmt.Errorf("looking up physical cluster %s: %w", name, err)
		case !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}):
			silent.Insert(name)
		}
	}
	return silent, nil
}
