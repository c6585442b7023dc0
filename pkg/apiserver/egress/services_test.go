package egress

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// mirrored is what a syncer makes of endpoints.
func mirrored(endpoints []discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice {
	out := make([]discoveryv1.EndpointSlice, len(endpoints))
	for i := range endpoints {
		endpoints[i].DeepCopyInto(&out[i])
		out[i].Annotations = map[string]string{"placement.atoll.dev/targets": `{"east":{"state":"Observed","uid":"1"}}`}
	}
	return out
}

func TestAServiceIsWhereTheServerCanCallIt(t *testing.T) {
	t.Parallel()
	ingress := func(i corev1.LoadBalancerIngress) corev1.ServiceStatus {
		return corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{i}}}
	}
	placed := metav1.ObjectMeta{Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`}}
	https := []corev1.ServicePort{{Name: "https", Port: 443}}
	name, other, target, no := "https", "metrics", int32(8443), false
	endpoints := []discoveryv1.EndpointSlice{{
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &target}, {Name: &other, Port: &target}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"192.0.2.2"}}, {Addresses: []string{"192.0.2.1"}},
			{Addresses: []string{"192.0.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
		},
	}, {Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &target}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"2001:db8::1"}}}}}
	type result struct {
		Hosts  []string
		Reason string
	}
	for title, c := range map[string]struct {
		service   corev1.Service
		endpoints []discoveryv1.EndpointSlice
		want      result
	}{
		"an external name":                     {corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "hook.example.com"}}, nil, result{Hosts: []string{"hook.example.com:443"}}},
		"a load balancer that a user reports":  {corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"a": "b"}}, Status: ingress(corev1.LoadBalancerIngress{IP: "192.0.2.1"})}, nil, result{Hosts: []string{"192.0.2.1:443"}}},
		"one with a name":                      {corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}, Status: ingress(corev1.LoadBalancerIngress{Hostname: "lb.example.com", IP: "192.0.2.1"})}, nil, result{Hosts: []string{"lb.example.com:443"}}},
		"one of a syncer, of pods":             {corev1.Service{ObjectMeta: placed, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"a": "b"}, Ports: https}, Status: ingress(corev1.LoadBalancerIngress{IP: "192.0.2.66"})}, nil, result{Reason: EndpointsNotFound}},
		"one of a syncer, without":             {corev1.Service{ObjectMeta: placed, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: https}, Status: ingress(corev1.LoadBalancerIngress{Hostname: "lb.example.com"})}, endpoints[:1], result{Hosts: []string{"192.0.2.1:8443", "192.0.2.2:8443"}}},
		"an address that no load balancer has": {corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: https}, Status: ingress(corev1.LoadBalancerIngress{IP: "192.0.2.66"})}, endpoints[:1], result{Hosts: []string{"192.0.2.1:8443", "192.0.2.2:8443"}}},
		"endpoints that a syncer mirrored":     {corev1.Service{Spec: corev1.ServiceSpec{Ports: https}}, mirrored(endpoints), result{Reason: EndpointsNotFound}},
		"endpoints of a user":                  {corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: https}}, endpoints, result{Hosts: []string{"192.0.2.1:8443", "192.0.2.2:8443", "[2001:db8::1]:8443"}}},
		"a service that runs below":            {corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: https}}, endpoints, result{Reason: EndpointsNotFound}},
		"a port that it lacks":                 {corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, endpoints, result{Reason: ServicePortError}},
		"no endpoints":                         {corev1.Service{Spec: corev1.ServiceSpec{Ports: https}}, nil, result{Reason: EndpointsNotFound}},
		"none that is ready":                   {corev1.Service{Spec: corev1.ServiceSpec{Ports: https}}, []discoveryv1.EndpointSlice{{Ports: endpoints[0].Ports, Endpoints: endpoints[0].Endpoints[2:]}}, result{Reason: MissingEndpoints}},
	} {
		var got result
		hosts, err := Locate(&c.service, Known{Endpoints: c.endpoints}, 443)
		got.Hosts = hosts
		var unlocated *UnlocatedError
		if errors.As(err, &unlocated) {
			got.Reason = unlocated.Reason
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
}
