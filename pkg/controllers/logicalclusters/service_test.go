package logicalclusters

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
)

// The Service of the server leads to where that is, wherever that was before.
func TestTheServiceOfTheServerFollowsItsURL(t *testing.T) {
	t.Parallel()
	type state struct {
		Port             int
		Endpoints, Slice []string
		Family           string
	}
	where := map[string]state{
		"https://192.0.2.1:6443":       {6443, []string{"192.0.2.1"}, []string{"192.0.2.1"}, "IPv4"},
		"https://192.0.2.2:6444":       {6444, []string{"192.0.2.2"}, []string{"192.0.2.2"}, "IPv4"},
		"https://[2001:db8::1]":        {443, []string{"2001:db8::1"}, []string{"2001:db8::1"}, "IPv6"},
		"https://127.0.0.1:6443":       {Port: 6443}, // is another place in each pod
		"https://atoll.example":        {Port: 443},  // no Endpoints may hold a name
		"https://[fe80::1%25eth]:6443": {Port: 6443},
	}
	read := func(c Config) (s state) {
		t.Helper()
		kube := c.Kube
		service, err := kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Port = service.Spec.Ports[0].TargetPort.IntValue()
		endpoints, err := kube.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err == nil {
			s.Endpoints = append(s.Endpoints, endpoints.Subsets[0].Addresses[0].IP)
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		slice, err := kube.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err == nil {
			s.Slice, s.Family = slice.Endpoints[0].Addresses, string(slice.AddressType)
			if *slice.Ports[0].Port != endpoints.Subsets[0].Ports[0].Port || int(*slice.Ports[0].Port) != s.Port {
				t.Errorf("the slice leads to port %d, the endpoints to %d, the Service to %d", *slice.Ports[0].Port, endpoints.Subsets[0].Ports[0].Port, s.Port)
			}
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return s
	}
	for before := range where {
		for after, want := range where {
			c := Config{Kube: fake.NewClientset()}
			for _, url := range []string{before, after} {
				if err := c.serveAt(t.Context(), url); err != nil {
					t.Fatalf("at %s after %s: %v", url, before, err)
				}
			}
			if diff := cmp.Diff(want, read(c)); diff != "" {
				t.Errorf("at %s after %s (-want +got):\n%s", after, before, diff)
			}
		}
	}
}

func TestWhatTheServiceOfTheServerLacks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url  string
		has  []string
		want bool
	}{
		"nothing":                            {"https://192.0.2.1", []string{"servicecidrs", "services", "endpoints", "endpointslices"}, false},
		"the Service":                        {"https://192.0.2.1", []string{"servicecidrs", "endpoints", "endpointslices"}, true},
		"the ServiceCIDR":                    {"https://localhost", []string{"services"}, true},
		"its endpoints":                      {"https://192.0.2.1", []string{"servicecidrs", "services", "endpointslices"}, true},
		"its slice":                          {"https://192.0.2.1", []string{"servicecidrs", "services", "endpoints"}, true},
		"endpoints, which it cannot have":    {"https://localhost", []string{"servicecidrs", "services"}, false},
		"the Service, which leads to a name": {"https://localhost", nil, true},
		"it has no URL":                      {"https://localhost:none", nil, false},
	} {
		if got := lacksService(c.url, func(gr schema.GroupResource) bool { return slices.Contains(c.has, gr.Resource) }); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	of := func(namespace, name string) metav1.Object {
		return &metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	if services := corev1.Resource("services"); !ofServer(services, of("default", "kubernetes")) || !ofServer(serviceCIDRs, of("", "kubernetes")) || ofServer(services, of("web", "kubernetes")) || ofServer(services, of("default", "web")) ||
		ofServer(corev1.Resource("secrets"), of("default", "kubernetes")) {
		t.Error("the Service of the server is mistaken for others, or others for it")
	}
}
