package logicalclusters

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const (
	serviceName = "kubernetes"
	// serviceIP is the first of the addresses that Services get, as in any
	// cluster.
	serviceIP = "10.96.0.1"
	// serviceRange is the range of all of them.
	serviceRange = "10.96.0.0/12"
)

// makeServiceRange makes the ServiceCIDR that says which addresses Services get.
func (c Config) makeServiceRange(ctx context.Context) error {
	client := c.Kube.NetworkingV1().ServiceCIDRs()
	cidr, err := client.Create(ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{serviceRange}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating service CIDR %s: %w", serviceName, err)
	}
	cidr.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Reason: "Served", Message: "Services get their addresses from this range",
		LastTransitionTime: metav1.Now(),
	}}
	if _, err := client.UpdateStatus(ctx, cidr, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("setting the status of service CIDR %s: %w", serviceName, err)
	}
	return nil
}

// makeService makes the Service by which clients in a cluster find its API
// server: tools look for it, and pods get its address. Where it leads is the
// address of this server; its Endpoints and EndpointSlice say so unless that is
// a name or an address of this machine alone, which no Endpoints may hold.
func (c Config) makeService(ctx context.Context, serverURL string) error {
	host, port, err := serverAddress(serverURL)
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: serviceName, Namespace: metav1.NamespaceDefault}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: serviceIP,
		Ports:     []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(port)}},
	}}
	service.Labels = map[string]string{"component": "apiserver", "provider": "kubernetes"}
	if _, err := c.Kube.CoreV1().Services(meta.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating service %s: %w", serviceName, err)
	}
	address, err := netip.ParseAddr(host)
	if err != nil || address.IsLoopback() || address.IsLinkLocalUnicast() {
		return nil
	}
	meta.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
	endpoints := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: host}},
		Ports:     []corev1.EndpointPort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: port}},
	}}}
	if _, err := c.Kube.CoreV1().Endpoints(meta.Namespace).Create(ctx, endpoints, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating endpoints %s: %w", serviceName, err)
	}
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: serviceName}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP), Port: &port}},
	}
	if address.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	if _, err := c.Kube.DiscoveryV1().EndpointSlices(meta.Namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating endpoint slice %s: %w", serviceName, err)
	}
	return nil
}

// serverAddress is the host and port of the URL of a logical cluster.
func serverAddress(serverURL string) (host string, port int32, err error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return "", 0, fmt.Errorf("reading the URL of the server: %w", err)
	}
	host, text := u.Hostname(), u.Port()
	if text == "" {
		return host, 443, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("reading the port of %s", net.JoinHostPort(host, text))
	}
	return host, int32(n), nil
}
