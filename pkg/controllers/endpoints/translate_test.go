package endpoints

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func slice(managedBy string, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: managedBy}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(80)), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
}

func endpoint(ip string, ready, terminating bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Terminating: &terminating}}
}

func TestSlicesOfAllPhysicalClustersMakeOneSetOfAddresses(t *testing.T) {
	t.Parallel()
	const below = "endpointslice-controller.k8s.io"
	leaving := slice(below, endpoint("10.0.0.9", true, false))
	leaving.DeletionTimestamp = &metav1.Time{}
	got := subsets([]discoveryv1.EndpointSlice{
		slice(below, endpoint("10.0.0.2", true, false), endpoint("10.0.0.3", false, false), endpoint("10.0.0.4", false, true)),
		slice(below, endpoint("10.0.0.1", true, false), endpoint("10.0.0.2", true, false)),
		slice(mirrorer, endpoint("10.0.0.8", true, false)),
		leaving,
	}, []corev1.IPFamily{corev1.IPv4Protocol})
	want := []corev1.EndpointSubset{{
		Addresses:         []corev1.EndpointAddress{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}},
		NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.3"}},
		Ports:             []corev1.EndpointPort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPodOfTwoFamiliesHasOneAddressInEndpoints(t *testing.T) {
	t.Parallel()
	const below = "endpointslice-controller.k8s.io"
	of := func(pod, address string) discoveryv1.Endpoint {
		e := endpoint(address, true, false)
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
		return e
	}
	left := of("d", "10.0.0.5") // which is at another place now
	left.Conditions.Terminating = ptr.To(true)
	four := slice(below, of("a", "10.0.0.1"), of("b", "10.0.0.2"), left)
	six := slice(below, of("a", "2001:db8::1"), of("b", "2001:db8::2"), of("c", "2001:db8::3"), endpoint("2001:db8::4", true, false), of("d", "2001:db8::5"))
	four.AddressType, six.AddressType = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	for first, want := range map[corev1.IPFamily][]string{
		corev1.IPv4Protocol: {"10.0.0.1", "10.0.0.2", "2001:db8::3", "2001:db8::4", "2001:db8::5"}, // c runs where there is no IPv4
		corev1.IPv6Protocol: {"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8::5"},
	} {
		var got []string
		for _, s := range subsets([]discoveryv1.EndpointSlice{six, four}, []corev1.IPFamily{first}) {
			for _, a := range s.Addresses {
				got = append(got, a.IP)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s first (-want +got):\n%s", first, diff)
		}
	}
}

func TestNoSlicesMakeNoSubsets(t *testing.T) {
	t.Parallel()
	if got := subsets(nil, nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestEndpointsOfAUserAreMirroredByFamilyAndPorts(t *testing.T) {
	t.Parallel()
	e := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", UID: "u", Labels: map[string]string{"app": "db"}, Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: "{}", "note": "x",
		}},
		Subsets: []corev1.EndpointSubset{{
			Addresses:         []corev1.EndpointAddress{{IP: "10.1.2.4"}, {IP: "10.1.2.3", Hostname: "a"}, {IP: "2001:db8::1"}},
			NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.1.2.2"}},
			Ports:             []corev1.EndpointPort{{Port: 5432}},
		}},
	}
	got := mirrors(e)
	if len(got) != 2 {
		t.Fatalf("%d slices", len(got))
	}
	want := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: mirrorName("db", discoveryv1.AddressTypeIPv4, e.Subsets[0].Ports), Namespace: "shop",
			Labels:          map[string]string{"app": "db", discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: mirrorer},
			Annotations:     map[string]string{"note": "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Endpoints", Name: "db", UID: "u", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.1.2.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			{Addresses: []string{"10.1.2.3"}, Hostname: ptr.To("a"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
			{Addresses: []string{"10.1.2.4"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
		},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(5432)), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	if diff := cmp.Diff(want, *got[want.Name]); diff != "" {
		t.Error(diff)
	}
}
