package logicalclusters

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/clusterips"
)

const serviceName = "kubernetes"

// makeServiceRange makes the ServiceCIDR that says which addresses Services get.
func (c Config) makeServiceRange(ctx context.Context) error {
	client := c.Kube.NetworkingV1().ServiceCIDRs()
	cidr, err := client.Create(ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{clusterips.IPv4.String(), clusterips.IPv6.String()}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating service CIDR %s: %w", serviceName, err)
	}
	cidr.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Reason: "Served", Message: "Services get their addresses from these ranges",
		LastTransitionTime: metav1.Now(),
	}}
	if _, err := client.UpdateStatus(ctx, cidr, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("setting the status of service CIDR %s: %w", serviceName, err)
	}
	return nil
}

// leads says by an endpoint where the Service leads; ok is false if the address is a name, or one of this machine
// alone, which no Endpoints may hold.
func leads(host string) (address netip.Addr, ok bool) {
	address, err := netip.ParseAddr(host)
	return address, err == nil && !address.IsLoopback() && !address.IsLinkLocalUnicast()
}

// serveAt makes the Service by which clients in a cluster find its API server: tools look for it, and pods get its
// address. Where it leads is the address of this server; its Endpoints and EndpointSlice say so if they can, see leads.
// What is there and leads elsewhere is changed.
func (c Config) serveAt(ctx context.Context, serverURL string) error {
	host, port, err := serverAddress(serverURL)
	if err != nil {
		return err
	}
	made, err := c.serve(ctx, port)
	if err != nil {
		return fmt.Errorf("making service %s: %w", serviceName, err)
	}
	address, ok := leads(host)
	switch {
	case ok:
		err = c.leadTo(ctx, address, port)
	case !made: // each request counts when a logical cluster is made
		err = c.leadNowhere(ctx)
	}
	if err != nil {
		return fmt.Errorf("having service %s lead to %s: %w", serviceName, host, err)
	}
	return nil
}

// serve makes the Service, or has it lead to another port. It looks first: who asks for an address that is taken claims
// it in vain.
func (c Config) serve(ctx context.Context, port int32) (made bool, err error) {
	client := c.Kube.CoreV1().Services(metav1.NamespaceDefault)
	ports := []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(port)}}
	there, err := client.Get(ctx, serviceName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
			Spec:       corev1.ServiceSpec{ClusterIP: clusterips.Server, Ports: ports},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil // by another server, which looks at it as this one does
		}
		return true, err
	case err != nil || apiequality.Semantic.DeepEqual(there.Spec.Ports, ports):
		return false, err
	}
	there.Spec.Ports = ports
	_, err = client.Update(ctx, there, metav1.UpdateOptions{})
	return false, err
}

// leadTo makes the Endpoints and the EndpointSlice of the Service, or has them lead elsewhere.
func (c Config) leadTo(ctx context.Context, address netip.Addr, port int32) error {
	meta := metav1.ObjectMeta{Name: serviceName, Namespace: metav1.NamespaceDefault, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}}
	endpoints, all := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: address.String()}},
		Ports:     []corev1.EndpointPort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: port}},
	}}}, c.Kube.CoreV1().Endpoints(metav1.NamespaceDefault)
	_, err := all.Create(ctx, endpoints, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = all.Update(ctx, endpoints, metav1.UpdateOptions{}) // a write that changes nothing is none
	}
	if err != nil {
		return fmt.Errorf("making the endpoints: %w", err)
	}
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: serviceName}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP), Port: &port}},
	}
	if address.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	if err := c.makeSlice(ctx, slice); err != nil {
		return fmt.Errorf("making the endpoint slice: %w", err)
	}
	return nil
}

// makeSlice makes the EndpointSlice, or changes the one that is there; its family cannot be changed.
func (c Config) makeSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	all := c.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	_, err := all.Create(ctx, slice, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := all.Get(ctx, slice.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if there.AddressType == slice.AddressType {
		_, err = all.Update(ctx, slice, metav1.UpdateOptions{})
		return err
	}
	if err := all.Delete(ctx, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.UID}}); err != nil {
		return err
	}
	_, err = all.Create(ctx, slice, metav1.CreateOptions{})
	return err
}

// leadNowhere removes what says where the Service leads.
func (c Config) leadNowhere(ctx context.Context) error {
	err := c.Kube.CoreV1().Endpoints(metav1.NamespaceDefault).Delete(ctx, serviceName, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		err = c.Kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Delete(ctx, serviceName, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing endpoints: %w", err)
	}
	return nil
}

// ofServer says that an object is the Service, says where it leads, or is the ServiceCIDR.
func ofServer(resource schema.GroupResource, obj metav1.Object) bool {
	switch obj.GetNamespace() {
	case "":
		return resource == serviceCIDRs && obj.GetName() == serviceName
	case metav1.NamespaceDefault:
		return slices.Contains(serviceResources, resource) && obj.GetName() == serviceName
	}
	return false
}

var serviceCIDRs = networkingv1.Resource("servicecidrs")

var serviceResources = []schema.GroupResource{
	corev1.Resource("services"), corev1.Resource("endpoints"), discoveryv1.Resource("endpointslices"),
}

// lacksService says that the ServiceCIDR, the Service, or what says where it leads is missing: a user may have deleted all
// that there is in the namespace default.
func lacksService(serverURL string, exists func(schema.GroupResource) bool) bool {
	host, _, err := serverAddress(serverURL)
	if err != nil {
		return false
	}
	of := append([]schema.GroupResource{serviceCIDRs}, serviceResources...)
	if _, ok := leads(host); !ok {
		of = of[:2]
	}
	return slices.ContainsFunc(of, func(gr schema.GroupResource) bool { return !exists(gr) })
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
