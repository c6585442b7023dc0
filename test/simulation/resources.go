package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// resource is one that the servers serve.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
	// typed makes an empty object of a kind of our own; others are unstructured.
	typed func() object
	// physical says that physical clusters serve it, too.
	physical bool
}

func (r *resource) gvk() schema.GroupVersionKind { return r.GroupVersion().WithKind(r.kind) }

// resources are all that there are.
var resources = served()

// onPhysical are the kinds that may have copies and that physical clusters serve.
var onPhysical = []string{
	"namespaces", "limitranges", "resourcequotas", "configmaps", "services", "deployments", "replicasets", "jobs", "pods",
	"networkpolicies",
}

func served() map[schema.GroupVersionResource]*resource {
	out := map[schema.GroupVersionResource]*resource{}
	add := func(r *resource) { out[r.GroupVersionResource] = r }
	for _, k := range kinds.Kinds() {
		add(&resource{
			GroupVersionResource: k.GroupVersionResource(), kind: k.Kind, namespaced: k.Role != workload.Container,
			physical: slices.Contains(onPhysical, k.Resource),
		})
	}
	other := func(group, version, plural, kind string, namespaced, physical bool) {
		add(&resource{
			GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
			kind:                 kind, namespaced: namespaced, physical: physical,
		})
	}
	other("", "v1", "events", "Event", true, true)
	other("", "v1", "nodes", "Node", false, true)
	other("", "v1", "serviceaccounts", "ServiceAccount", true, false)
	other("coordination.k8s.io", "v1", "leases", "Lease", true, false)
	other("storage.k8s.io", "v1", "storageclasses", "StorageClass", false, true)
	other("", "v1", "persistentvolumes", "PersistentVolume", false, false)
	other("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false, false)
	other("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", true, false)
	other("snapshot.storage.k8s.io", "v1", "volumesnapshotcontents", "VolumeSnapshotContent", false, false)
	other("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses", "VolumeSnapshotClass", false, false)
	other("example.com", "v1", "gadgets", "Gadget", false, false)
	other("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false, false)
	other("apiregistration.k8s.io", "v1", "apiservices", "APIService", false, false)
	other("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false, true)
	other("apps", "v1", "controllerrevisions", "ControllerRevision", true, false)
	other("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true, false)
	own := func(gv schema.GroupVersion, plural, kind string, namespaced bool, typed func() object) {
		add(&resource{GroupVersionResource: gv.WithResource(plural), kind: kind, namespaced: namespaced, typed: typed})
	}
	own(placementv1alpha1.SchemeGroupVersion, "copies", "Copy", true, func() object { return &placementv1alpha1.Copy{} })
	own(placementv1alpha1.SchemeGroupVersion, "podimports", "PodImport", true, func() object { return &placementv1alpha1.PodImport{} })
	own(placementv1alpha1.SchemeGroupVersion, "serviceimports", "ServiceImport", true, func() object { return &placementv1alpha1.ServiceImport{} })
	own(placementv1alpha1.SchemeGroupVersion, "placements", "Placement", true, func() object { return &placementv1alpha1.Placement{} })
	own(placementv1alpha1.SchemeGroupVersion, "clusterplacementpolicies", "ClusterPlacementPolicy", false,
		func() object { return &placementv1alpha1.ClusterPlacementPolicy{} })
	own(placementv1alpha1.SchemeGroupVersion, "placementreviews", "PlacementReview", true, func() object { return &placementv1alpha1.PlacementReview{} })
	own(placementv1alpha1.SchemeGroupVersion, "podreviews", "PodReview", true, func() object { return &placementv1alpha1.PodReview{} })
	own(placementv1alpha1.SchemeGroupVersion, "placementpolicies", "PlacementPolicy", true, func() object { return &placementv1alpha1.PlacementPolicy{} })
	own(fleetv1alpha1.SchemeGroupVersion, "physicalclusters", "PhysicalCluster", false, func() object { return &fleetv1alpha1.PhysicalCluster{} })
	own(fleetv1alpha1.SchemeGroupVersion, "orphans", "Orphan", false, func() object { return &fleetv1alpha1.Orphan{} })
	own(tenancyv1alpha1.SchemeGroupVersion, "logicalclusters", "LogicalCluster", false, func() object { return &tenancyv1alpha1.LogicalCluster{} })
	return out
}

// servedBelow says that physical clusters serve a resource. Where nobody imports Services they have
// no EndpointSlices, where nobody claims volumes none of these: fewer requests make more worlds.
func (w *World) servedBelow(r *resource) bool {
	has, _ := w.optional(r.GroupResource())
	return r.physical || has || (w.imports || w.fronts) && r.GroupResource() == endpointSlices || w.volumes && slices.Contains(ofStorage, r.GroupResource()) ||
		w.data && slices.Contains(ofData, r.GroupResource()) || w.gadgets && slices.Contains(ofGadgets, r.GroupResource())
}

// optional says that only some worlds have objects of a resource which users make, and whether this one does: others are what they
// were before there were any.
func (w *World) optional(gr schema.GroupResource) (has, optional bool) {
	switch gr {
	case claims:
		return w.volumes, true
	case statefulSets:
		return w.data, true
	case ingresses:
		return w.entries, true
	case autoscalers:
		return w.scales, true
	case cronJobs:
		return w.crons, true
	case budgets:
		return w.budgets, true
	}
	return false, false
}

// listsClaims says that a request is for the claims of a namespace, of which any physical cluster says at least that there
// are none: a Namespace that leaves has that looked at.
func (r *request) listsClaims() bool {
	return r.method == http.MethodGet && r.res.GroupResource() == claims && r.name == "" && !r.watches()
}

// versionOf is a resource in the version that is served.
func versionOf(gr schema.GroupResource) schema.GroupVersionResource {
	for gvr := range resources {
		if gvr.GroupResource() == gr {
			return gvr
		}
	}
	panic("nobody serves " + gr.String())
}

// decode reads an object that a client sent.
func (r *resource) decode(body []byte) (object, error) {
	if r.typed != nil {
		obj := r.typed()
		if err := json.Unmarshal(body, obj); err != nil {
			return nil, fmt.Errorf("decoding: %w", err)
		}
		obj.GetObjectKind().SetGroupVersionKind(r.gvk())
		return obj, nil
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(withKind(body, r)); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	return u, nil
}

// withKind adds what typed clients leave out.
func withKind(body []byte, r *resource) []byte {
	var head metav1.TypeMeta
	if json.Unmarshal(body, &head) == nil && head.Kind != "" {
		return body
	}
	return append(fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, r.kind, r.GroupVersion().String()), body[1:]...)
}

type encoding struct {
	obj      object
	metadata bool
}

// encode writes an object, which is never changed once it is stored.
func (w *World) encode(obj object, r *resource, metadata bool) []byte {
	w.encodingsMu.Lock()
	defer w.encodingsMu.Unlock()
	key := encoding{obj, metadata}
	if body, known := w.encodings[key]; known {
		return body
	}
	var body []byte
	var err error
	u, isU := obj.(*unstructured.Unstructured)
	switch {
	case metadata && isU:
		body, err = json.Marshal(map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": u.Object["metadata"]})
	case metadata:
		meta := reflect.ValueOf(obj).Elem().FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta)
		body, err = json.Marshal(&metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: meta,
		})
	case isU:
		body, err = json.Marshal(u.Object)
	default:
		obj.GetObjectKind().SetGroupVersionKind(r.gvk())
		body, err = json.Marshal(obj)
	}
	if err != nil {
		panic(err)
	}
	w.encodings[key] = body
	return body
}

// sees says that an object is in the view of a target; everything is without one.
func sees(target string, obj object) bool {
	if target == "" {
		return true
	}
	if obj.GetObjectKind().GroupVersionKind().Kind == "Lease" && logicalcluster.From(obj) == scope.Root {
		return obj.GetName() == target // a type of its own on the real server
	}
	return slices.Contains(storage.TargetsOf(obj), target)
}
