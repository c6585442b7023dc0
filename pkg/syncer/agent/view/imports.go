package view

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// What is made below of imports is of these resources.
var (
	Services       = corev1.SchemeGroupVersion.WithResource("services")
	EndpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

const byImport = "import"

// informerOfImports watches the Services that are elsewhere and are to be reached from here.
func (v *View) informerOfImports() *imports {
	return controller.NewInformer("serviceimports for "+v.Target, &placementv1alpha1.ServiceImport{},
		controller.Lists(v.Up.Atoll.PlacementV1alpha1().ServiceImports(metav1.NamespaceAll)),
		controller.InformerOptions[*placementv1alpha1.ServiceImport]{
			Server: v.Up.Server, Metadata: connection.ListMetadata(v.Up.Metadata, placementv1alpha1.SchemeGroupVersion.WithResource("serviceimports")),
		})
}

// informerOfPodImports watches the pods that are elsewhere and that policies here may mean.
func (v *View) informerOfPodImports() *pods {
	return controller.NewInformer("podimports for "+v.Target, &placementv1alpha1.PodImport{},
		controller.Lists(v.Up.Atoll.PlacementV1alpha1().PodImports(metav1.NamespaceAll)),
		controller.InformerOptions[*placementv1alpha1.PodImport]{
			Server: v.Up.Server, Metadata: connection.ListMetadata(v.Up.Metadata, placementv1alpha1.SchemeGroupVersion.WithResource("podimports")),
		})
}

// PodsKnown says that PodImports have been listed: one that is not in view is not there.
func (v *View) PodsKnown() bool { return v.pods.HasSynced() }

// PodImports are the pods of a logical cluster that policies here may mean, by namespaces.
func (v *View) PodImports(cluster logicalcluster.Name) []*placementv1alpha1.PodImport {
	return v.pods.ListCluster(cluster)
}

func (v *View) imported(obj *unstructured.Unstructured) []string {
	if r, ok := v.importOf(obj); ok {
		return []string{r.String()}
	}
	return nil
}

func (v *View) importOf(obj *unstructured.Unstructured) (r controller.Request, ok bool) {
	r.Cluster, r.Namespace, r.Name, ok = syncer.ImportRequest(v.ControlPlane, obj)
	return r, ok
}

// ImportsKnown says that imports have been listed: one that is not in view is not there.
func (v *View) ImportsKnown() bool { return v.imports.HasSynced() }

// Import is a Service that is elsewhere, by its name.
func (v *View) Import(r controller.Request) (*placementv1alpha1.ServiceImport, bool) {
	return v.imports.Get(r)
}

// Imports names all of them, and those of which something is below still, in an order.
func (v *View) Imports() []controller.Request {
	all := map[controller.Request]bool{}
	for imp := range v.imports.All() {
		all[controller.RequestFor(imp)] = true
	}
	for _, i := range v.importedBelow() {
		for obj := range i.All() {
			if r, ok := v.importOf(obj); ok {
				all[r] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b controller.Request) int { return cmp.Compare(a.String(), b.String()) })
}

// ImportedBelow are the Services and EndpointSlices that were made of an import.
func (v *View) ImportedBelow(r controller.Request) (found []*unstructured.Unstructured) {
	for _, i := range v.importedBelow() {
		found = append(found, i.ByIndex(byImport, r.String())...)
	}
	return found
}

func (v *View) importedBelow() (informers []*objects) {
	for _, gvr := range []schema.GroupVersionResource{Services, EndpointSlices} {
		if i := v.now.Load().below(gvr); i != nil {
			informers = append(informers, i)
		}
	}
	return informers
}
