package references

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// holder is what is kept of a placed object: who it is, where it is and what it
// refers to.
type holder struct {
	metav1.PartialObjectMetadata
	resource   schema.GroupVersionResource
	targets    placementv1alpha1.Targets
	references []workload.Reference
}

// DeepCopyObject implements runtime.Object.
func (h *holder) DeepCopyObject() runtime.Object {
	return &holder{
		PartialObjectMetadata: *h.PartialObjectMetadata.DeepCopy(),
		resource:              h.resource,
		targets:               maps.Clone(h.targets), references: slices.Clone(h.references),
	}
}

// referenceIndex finds holders by what they refer to, see referenceKey.
const referenceIndex = "references"

func referenceKey(c logicalcluster.Name, namespace string, r workload.Reference) string {
	return c.String() + "|" + namespace + "/" + r.Resource.Resource + "/" + r.Name
}

func (h *holder) keys() []string {
	c := logicalcluster.From(h)
	keys := make([]string, 0, len(h.references))
	for _, r := range h.references {
		keys = append(keys, referenceKey(c, h.Namespace, r))
	}
	return keys
}

// hold reduces an object of a kind. What refers to nothing or has no copy
// anywhere is not kept.
func hold(kind workload.Kind, obj *unstructured.Unstructured) *holder {
	targets := stamp.TargetsOf(obj.GetAnnotations())
	if !stamp.Refers(targets) {
		return nil
	}
	references := workload.References(kind, obj.Object)
	if stamp.Staged(obj) { // targets that have not got a change need what was referred to before
		if former, err := stamp.WithFormer(kind, obj); err == nil {
			for _, r := range workload.References(kind, former.Object) {
				if !slices.Contains(references, r) {
					references = append(references, r)
				}
			}
		}
	}
	if len(references) == 0 {
		return nil
	}
	h := &holder{resource: kind.GroupVersionResource(), targets: targets, references: references}
	h.Name, h.Namespace, h.UID, h.ResourceVersion = obj.GetName(), obj.GetNamespace(), obj.GetUID(), obj.GetResourceVersion()
	h.Annotations = map[string]string{logicalcluster.AnnotationKey: logicalcluster.From(obj).String()}
	return h
}

// newHolders makes an informer for each kind that refers to others.
func newHolders(kinds workload.Catalog, client dynamic.Interface) []*controller.Informer[*holder] {
	var informers []*controller.Informer[*holder]
	for _, kind := range kinds.Kinds() {
		if kind.Refers() {
			informers = append(informers, newHolder(kind, client))
		}
	}
	return informers
}

func newHolder(kind workload.Kind, client dynamic.Interface) *controller.Informer[*holder] {
	gvr := kind.GroupVersionResource()
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(kind.GroupVersionKind)
	return controller.NewInformer("references/"+gvr.GroupResource().String(), example,
		controller.Lists(client.Resource(gvr)), controller.InformerOptions[*holder]{
			Transform: func(o runtime.Object) (*holder, error) {
				u, ok := o.(*unstructured.Unstructured)
				if !ok {
					return nil, fmt.Errorf("unexpected type %T", o)
				}
				return hold(kind, u), nil
			},
			Indexers: map[string]func(*holder) []string{referenceIndex: (*holder).keys},
		})
}
