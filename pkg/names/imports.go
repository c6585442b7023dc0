package names

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// ImportLabel is on the Services, in the namespace of atoll-dns, that lead to Services of
	// logical clusters on other physical clusters. Its value is the id of the control plane.
	ImportLabel = "atoll.dev/import"
	// serviceAnnotation says which Service of the logical cluster such a one leads to.
	serviceAnnotation = "atoll.dev/service"
	// retiredAnnotation is "true" on one that is kept for who holds its address.
	retiredAnnotation = "atoll.dev/retired"

	importPrefix = "atoll-import-"
)

// Imported is the Service of a logical cluster that a Service of a physical cluster leads to.
type Imported struct {
	Tenant
	// Namespace and Name are the logical ones.
	Namespace, Name string
	// Retired says that a Service that is there goes before it: see Zone.SetImport.
	Retired bool
}

// ServiceName is the name of the Service that leads there. Retired is no part of it.
func (i Imported) ServiceName() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{i.ControlPlane, i.Cluster, i.Namespace, i.Name}, "\x00")))
	return importPrefix + hex.EncodeToString(sum[:10])
}

// Mark writes into labels and annotations what ImportOf reads, and that the object is of the
// control plane. An EndpointSlice needs it as well as the Service: atoll-dns sees no other.
func (i Imported) Mark(obj metav1.Object) {
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, obj.GetLabels())
	maps.Copy(annotations, obj.GetAnnotations())
	labels[ImportLabel], labels[placementv1alpha1.ManagedByLabel] = i.ControlPlane, i.ControlPlane
	annotations[placementv1alpha1.LogicalClusterAnnotation] = i.Cluster
	annotations[placementv1alpha1.NamespaceAnnotation] = i.Namespace
	annotations[serviceAnnotation] = i.Name
	delete(annotations, retiredAnnotation)
	if i.Retired {
		annotations[retiredAnnotation] = "true"
	}
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// ImportOf reads what Mark wrote; ok is false if something is missing, or if the name is not
// ServiceName. It believes what it reads: a Service of a namespace that tenants write to is not
// for it.
func ImportOf(s *corev1.Service) (i Imported, ok bool) {
	if i, ok = MarkedImport(s); !ok || s.Name != i.ServiceName() {
		return Imported{}, false
	}
	return i, true
}

// MarkedImport is ImportOf for objects of any name, as EndpointSlices are.
func MarkedImport(obj metav1.Object) (i Imported, ok bool) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	i = Imported{
		Tenant:    Tenant{ControlPlane: labels[ImportLabel], Cluster: annotations[placementv1alpha1.LogicalClusterAnnotation]},
		Namespace: annotations[placementv1alpha1.NamespaceAnnotation],
		Name:      annotations[serviceAnnotation],
		Retired:   annotations[retiredAnnotation] == "true",
	}
	return i, i.ControlPlane != "" && i.Cluster != "" && i.Namespace != "" && i.Name != "" && labels[placementv1alpha1.ManagedByLabel] == i.ControlPlane
}

// ServiceFrom is the function of that name, for the Service that leads there and its
// EndpointSlices: it has the logical namespace and name.
func (i Imported) ServiceFrom(s *corev1.Service, endpoints []*discoveryv1.EndpointSlice) Service {
	out := ServiceFrom(i.Namespace, s, endpoints)
	out.Name = i.Name
	return out
}
