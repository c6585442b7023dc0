package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/names"
)

const (
	supplyImport = "import"
	// sliceManager says who keeps EndpointSlices with endpoints on other physical clusters.
	sliceManager = "syncer.atoll.dev"
	// maxInSlice bounds the endpoints of one EndpointSlice, as controllers of Kubernetes do.
	maxInSlice = 100
	// zoneElsewhere is the zone of endpoints on other physical clusters, as a Service sees them that
	// prefers what is close: none of a node.
	zoneElsewhere = "elsewhere.atoll.dev"
)

// ImportPlace is where what is made of an import goes.
type ImportPlace struct {
	ControlPlane, Target string
	// Names is the namespace of atoll-dns; empty if nobody would find a Service there.
	Names string
	// Physical is the namespace of the copy of the Service; empty if there is no copy.
	Physical string
	// Permits says which of the endpoints that users wrote it may lead to.
	Permits boundary.Permits
}

// ImportedOf is what an import means on a physical cluster: EndpointSlices, and after them the
// Service of its own, if there is to be one. before says that there is one already, which is
// retired when it is not needed any more.
//
//	the importer  says    and                       then
//	Beside        yes     a copy is there           slices in its namespace, with the endpoints elsewhere and those that users wrote
//	Own           yes     names are answered        slices in the namespace of atoll-dns with all endpoints, and a Service
//	Own           yes     it is a name              a Service that leads to it, as a copy would
//	Own           no      before                    the same, retired
//	is not named                                    nothing
//
// Endpoints are those of its network: in another one the addresses are somebody else's. Of those that
// users wrote the physical cluster takes what it permits, and those of pods of their namespace, on itself
// or in its network.
func ImportedOf(imp *placementv1alpha1.ServiceImport, at ImportPlace, before bool) (objects []*unstructured.Unstructured) {
	i := slices.IndexFunc(imp.Spec.Importers, func(i placementv1alpha1.Importer) bool { return i.PhysicalCluster == at.Target })
	if i < 0 {
		return nil
	}
	importer, mark := imp.Spec.Importers[i], importMark(imp, at.ControlPlane)
	var all, elsewhere []placementv1alpha1.ImportedEndpoints
	for _, e := range imp.Spec.Endpoints {
		if e.Network != importer.Network {
			continue
		}
		if all = append(all, e); e.PhysicalCluster != at.Target {
			elsewhere = append(elsewhere, e)
		}
	}
	written := takenOf(imp.Spec.Written, importer, at.Permits)
	if importer.Beside && at.Physical != "" {
		objects = importedSlices(imp, mark, at.Physical, imp.Name, slices.Concat(elsewhere, written))
	}
	if at.Names != "" && (importer.Own || before) {
		mark.Retired = !importer.Own
		objects = append(objects, importedSlices(imp, mark, at.Names, mark.ServiceName(), slices.Concat(all, written))...)
		if service := importedService(imp, mark, at.Names); service != nil {
			objects = append(objects, service)
		}
	}
	return objects
}

// takenOf are the endpoints that users wrote and that a physical cluster takes.
func takenOf(written []placementv1alpha1.ImportedEndpoints, by placementv1alpha1.Importer, permits boundary.Permits) (out []placementv1alpha1.ImportedEndpoints) {
	leadsTo := permits.LeadsTo()
	for _, e := range written {
		if e.PhysicalCluster != "" { // pods of the namespace have them there
			if e.PhysicalCluster == by.PhysicalCluster || e.Network != "" && e.Network == by.Network {
				out = append(out, e)
			}
			continue
		}
		e.Endpoints = slices.DeleteFunc(slices.Clone(e.Endpoints), func(to placementv1alpha1.ImportedEndpoint) bool {
			address, err := netip.ParseAddr(to.Address)
			return err != nil || !leadsTo(address)
		})
		if len(e.Endpoints) > 0 {
			out = append(out, e)
		}
	}
	return out
}

// ImportedService is the Service of its own among what ImportedOf says; nil if there is none.
func ImportedService(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	if n := len(objects); n > 0 && IsImportedService(objects[n-1]) {
		return objects[n-1]
	}
	return nil
}

var (
	serviceKind       = corev1.SchemeGroupVersion.WithKind("Service")
	endpointSliceKind = discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
)

// IsImportedService says of what is made of an import that it is the Service, no EndpointSlice.
func IsImportedService(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind() == serviceKind
}

// importMark says whose Service an import is.
func importMark(imp *placementv1alpha1.ServiceImport, controlPlane string) names.Imported {
	return names.Imported{
		Tenant:    names.Tenant{ControlPlane: controlPlane, Cluster: logicalcluster.From(imp).String()},
		Namespace: imp.Namespace, Name: imp.Name,
	}
}

// importedService is nil if it would lead to a name that no copy may lead to.
func importedService(imp *placementv1alpha1.ServiceImport, mark names.Imported, namespace string) *unstructured.Unstructured {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: mark.ServiceName()}}
	if imp.Spec.ExternalName != "" {
		name, verdict := boundary.ExternalName(imp.Spec.ExternalName)
		if verdict == boundary.Refused {
			return nil
		}
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, name
		return markImported(s, mark, []any{s.Spec, mark.Retired}, serviceKind)
	}
	if imp.Spec.Headless {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	for _, p := range imp.Spec.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = imp.Spec.SessionAffinity, imp.Spec.SessionAffinityConfig
	return markImported(s, mark, []any{s.Spec, mark.Retired}, serviceKind)
}

// importedSlices are EndpointSlices of a Service below with endpoints.
func importedSlices(imp *placementv1alpha1.ServiceImport, mark names.Imported, namespace, service string, endpoints []placementv1alpha1.ImportedEndpoints) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	count := map[corev1.IPFamily]int{} // the family of a slice never changes
	for _, e := range endpoints {
		for part := range slices.Chunk(e.Endpoints, maxInSlice) {
			s := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: mark.ServiceName() + "-" + strings.ToLower(string(e.Family)) + "-" + strconv.Itoa(count[e.Family]),
					Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: sliceManager},
				},
				AddressType: discoveryv1.AddressType(e.Family),
			}
			if imp.Spec.Headless {
				s.Labels[corev1.IsHeadlessService] = ""
			}
			for _, p := range e.Ports {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: ptr.To(p.Protocol), AppProtocol: p.AppProtocol, Port: &p.Port})
			}
			for _, endpoint := range part {
				to := discoveryv1.Endpoint{Addresses: []string{endpoint.Address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}
				if endpoint.Hostname != "" {
					to.Hostname = ptr.To(endpoint.Hostname)
				}
				if imp.Spec.TrafficDistribution != nil {
					to.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zoneElsewhere}}}
				}
				s.Endpoints = append(s.Endpoints, to)
			}
			count[e.Family]++
			out = append(out, markImported(s, mark, []any{s.AddressType, s.Ports, s.Endpoints, s.Labels}, endpointSliceKind))
		}
	}
	return out
}

// markImported is an object that says whose it is, and what was made of its content.
func markImported(obj metav1.Object, mark names.Imported, content any, kind schema.GroupVersionKind) *unstructured.Unstructured {
	b, err := json.Marshal(content)
	if err != nil {
		panic(err) // values of the API can be encoded
	}
	sum := sha256.Sum256(b)
	mark.Mark(obj)
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	labels[SupplyLabel] = supplyImport
	annotations[AppliedAnnotation] = hex.EncodeToString(sum[:8])
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err) // they are of the API, too
	}
	delete(fields, "status")
	unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
	out := &unstructured.Unstructured{Object: fields}
	out.SetGroupVersionKind(kind)
	return out
}

// IsImported says that an object below was made of an import.
func IsImported(controlPlane string, obj metav1.Object) bool {
	labels := obj.GetLabels()
	return labels[SupplyLabel] == supplyImport && labels[placementv1alpha1.ManagedByLabel] == controlPlane
}

// SameImported says that an object below is still what was made of an import.
func SameImported(made, present *unstructured.Unstructured) bool {
	return made.GetAnnotations()[AppliedAnnotation] == present.GetAnnotations()[AppliedAnnotation]
}

// Reimport is the merge patch by which an object below, as it is present, becomes what is made of
// an import now: a Service keeps its address. anew says that it has to be made anew, as it gets
// one, or has none any more, or leads to a name.
func Reimport(made, present *unstructured.Unstructured) (patch []byte, anew bool) {
	content := map[string]any{"metadata": map[string]any{
		"uid": present.GetUID(), "resourceVersion": present.GetResourceVersion(),
		"labels": replacing(present.GetLabels(), made.GetLabels()), "annotations": replacing(present.GetAnnotations(), made.GetAnnotations()),
	}}
	if IsImportedService(made) {
		spec, wanted := field(present.Object, "spec"), field(made.Object, "spec")
		headless := func(spec map[string]any) bool { return text(spec, "clusterIP") == corev1.ClusterIPNone }
		isName := func(spec map[string]any) bool { return text(spec, "externalName") != "" }
		content["spec"] = some(wanted, "ports", "sessionAffinity", "sessionAffinityConfig", "externalName")
		anew = headless(spec) != headless(wanted) || isName(spec) != isName(wanted)
	} else {
		maps.Copy(content, some(made.Object, "ports", "endpoints"))
	}
	patch, err := json.Marshal(content)
	if err != nil {
		panic(err) // nothing but values of the API
	}
	return patch, anew
}

// replacing are values by which those of made replace those that are present.
func replacing(present, made map[string]string) map[string]any {
	out := map[string]any{}
	for key := range present {
		out[key] = nil
	}
	for key, value := range made {
		out[key] = value
	}
	return out
}

// some are some of the fields of an object, nil if it has them not.
func some(of map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		out[name] = of[name]
	}
	return out
}

// ImportRequest names the Service of the logical cluster for which an object below was made of
// an import, as cluster, namespace and name; ok is false if that is not so.
func ImportRequest(controlPlane string, obj metav1.Object) (cluster logicalcluster.Name, namespace, name string, ok bool) {
	i, marked := names.MarkedImport(obj)
	return logicalcluster.Name(i.Cluster), i.Namespace, i.Name, marked && IsImported(controlPlane, obj)
}
