package names

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Tenant is a logical cluster of a control plane.
type Tenant struct{ ControlPlane, Cluster string }

const (
	// Label is on the Services and policies by which logical clusters reach their port. Its
	// value is the id of the control plane.
	Label = "atoll.dev/names"
	// serverAnnotation says what kubernetes.default leads to.
	serverAnnotation = "atoll.dev/server"
	// AppLabel is on the pods that answer, and AppName its value.
	AppLabel, AppName = "app.kubernetes.io/name", "atoll-dns"

	servicePrefix = "atoll-names-"
	// FirstPort and the ports that follow are for logical clusters; those that systems give
	// to clients begin at 32768.
	FirstPort, Ports = 10000, 20000
)

// PortName is the name of the Service, and of the policy, of a port.
func PortName(port int) string { return servicePrefix + strconv.Itoa(port) }

// PortService is the Service that leads a logical cluster to its port.
func PortService(namespace string, port int, t Tenant, server Server) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: PortName(port), Labels: map[string]string{Label: t.ControlPlane},
		Annotations: map[string]string{placementv1alpha1.LogicalClusterAnnotation: t.Cluster},
	}}
	s.Annotations[serverAnnotation] = ""
	if server.Host != "" {
		s.Annotations[serverAnnotation] = server.String()
	}
	s.Spec.Selector = map[string]string{AppLabel: AppName}
	for _, p := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: "dns-" + strings.ToLower(string(p)), Protocol: p, Port: 53, TargetPort: intstr.FromInt(port),
		})
	}
	return s
}

// PortOf reads what PortService wrote. The name of the Service is the port, so that no two
// have the same one.
func PortOf(s *corev1.Service) (port int, t Tenant, server Server, err error) {
	text, ok := strings.CutPrefix(s.Name, servicePrefix)
	port, convErr := strconv.Atoi(text)
	t = Tenant{ControlPlane: s.Labels[Label], Cluster: s.Annotations[placementv1alpha1.LogicalClusterAnnotation]}
	switch {
	case !ok || convErr != nil || PortName(port) != s.Name || port < FirstPort || port >= FirstPort+Ports:
		return 0, t, server, fmt.Errorf("the name %s is not %s and a port from %d to %d", s.Name, servicePrefix, FirstPort, FirstPort+Ports-1)
	case t.ControlPlane == "" || t.Cluster == "":
		return 0, t, server, fmt.Errorf("it does not say whose names it is for")
	}
	server, _ = ParseServer(s.Annotations[serverAnnotation])
	return port, t, server, nil
}

// Candidates are the ports to try for a logical cluster, in order: the first free one is
// its own.
func (t Tenant) Candidates(n int) []int {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s\x00%s", t.ControlPlane, t.Cluster)
	first := int(h.Sum32() % Ports)
	out := make([]int, 0, n)
	for i := range min(n, Ports) {
		out = append(out, FirstPort+(first+i)%Ports)
	}
	return out
}

// Place says whose namespace a Namespace of a physical cluster is; ok is false if it is none of
// ours.
func Place(n *corev1.Namespace) (t Tenant, namespace string, ok bool) {
	t = Tenant{ControlPlane: n.Labels[placementv1alpha1.ManagedByLabel], Cluster: n.Annotations[placementv1alpha1.LogicalClusterAnnotation]}
	namespace = n.Annotations[placementv1alpha1.NamespaceAnnotation]
	return t, namespace, t.ControlPlane != "" && t.Cluster != "" && namespace != ""
}

// Annotations are the keys that this package reads.
func Annotations() []string {
	return []string{
		placementv1alpha1.LogicalClusterAnnotation, placementv1alpha1.NamespaceAnnotation,
		serverAnnotation, serviceAnnotation, retiredAnnotation,
	}
}

// PortPolicy lets only the namespaces of a logical cluster, which have labels in common, reach
// its port, where the network has policies.
func PortPolicy(namespace string, port int, t Tenant, labels map[string]string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: PortName(port), Labels: map[string]string{Label: t.ControlPlane},
		Annotations: map[string]string{placementv1alpha1.LogicalClusterAnnotation: t.Cluster},
	}}
	p.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: AppName}}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	rule := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: labels}}}}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		number := intstr.FromInt(port)
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &number})
	}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{rule}
	return p
}
