package view

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Indexes.
const (
	// byEntryUID finds the logical object that was mirrored for a physical UID.
	byEntryUID = "entry-uid"
	// byUID and byOwner find physical objects by their UID and that of an owner.
	byUID   = "uid"
	byOwner = "owner"
	// byMark finds copies by the logical object that they name.
	byMark = "mark"
	// byCluster finds physical namespaces by their logical cluster.
	byCluster = "cluster"
	// byHost finds Ingresses by syncer.HostQueries.
	byHost = "host"
	// byService finds what leads to pods by a Service, as namespace/name.
	byService = "service"
	// byPhysicalName finds a Namespace by the name of its physical namespace.
	byPhysicalName = "physical-name"
	// byScaled finds an autoscaler by what it scales.
	byScaled = "scaled"
	// bySupply finds what was made for pods.
	bySupply = "supply"
	// byClaim finds Orphans by the logical object that they claim.
	byClaim = "claim"
)

type indexers = map[string]func(*unstructured.Unstructured) []string

func (v *View) informerAbove(kind workload.Kind) *objects {
	indexes := indexers{byEntryUID: v.mirroredUID}
	if kind.Role == workload.Container {
		indexes[byPhysicalName] = physicalName
	}
	if len(kind.Scales) > 0 {
		indexes[byScaled] = scales(kind)
	}
	if kind.Semantics == workload.IngressSemantics {
		indexes[byHost] = syncer.HostIndex
	}
	gvr := kind.GroupVersionResource()
	return controller.NewInformer(kind.Resource+" for "+v.Target, example(kind.GroupVersionKind),
		controller.Lists(v.Up.Dynamic.Resource(gvr)),
		controller.InformerOptions[*unstructured.Unstructured]{
			Indexers: indexes, Server: v.Up.Server, Metadata: connection.ListMetadata(v.Up.Metadata, gvr),
		})
}

func (v *View) informerBelow(kind workload.Kind) *objects {
	gvr := kind.GroupVersionResource()
	indexes := indexers{
		byUID:   func(o *unstructured.Unstructured) []string { return []string{string(o.GetUID())} },
		byOwner: owners,
		byMark:  marked(kind),
	}
	if kind.Semantics == workload.IngressSemantics {
		indexes[byHost] = syncer.HostIndex
		indexes[byService] = leadsBy(kind)
	}
	if gvr == Namespaces {
		indexes[byCluster] = func(o *unstructured.Unstructured) []string {
			return []string{o.GetAnnotations()[placementv1alpha1.LogicalClusterAnnotation]}
		}
	}
	if gvr == Services || gvr == EndpointSlices {
		indexes[byImport] = v.imported
	}
	if gvr == secrets || gvr == configMaps {
		indexes[bySupply] = v.supply
	}
	return controller.NewInformer(kind.Resource+" on "+v.Target, example(kind.GroupVersionKind),
		controller.Lists(v.Down.Dynamic.Resource(gvr)),
		controller.InformerOptions[*unstructured.Unstructured]{
			Unscoped: true, Server: v.Down.Server, Allowance: v.allowance, Metadata: connection.ListMetadata(v.Down.Metadata, gvr),
			Transform: whole, // drift is read from managed fields
			Tweak: func(o *metav1.ListOptions) {
				o.LabelSelector = placementv1alpha1.ManagedByLabel + "=" + v.ControlPlane
			},
			Indexers: indexes,
		})
}

func (v *View) informerOfOrphans() *orphans {
	return controller.NewInformer("orphans of "+v.Target, &fleetv1alpha1.Orphan{},
		controller.Lists(v.Up.Atoll.FleetV1alpha1().Orphans()),
		controller.InformerOptions[*fleetv1alpha1.Orphan]{Server: v.Up.Server, Indexers: map[string]func(*fleetv1alpha1.Orphan) []string{
			byUID: func(o *fleetv1alpha1.Orphan) []string { return []string{string(o.Spec.Object.UID)} },
			byClaim: func(o *fleetv1alpha1.Orphan) []string {
				if key, ok := v.KeyOfClaim(o); ok {
					return []string{key.String()}
				}
				return nil
			},
		}})
}

// informerOfEvents keeps of all events of the physical cluster those about objects in
// our namespaces.
func (v *View) informerOfEvents() *objects {
	events := corev1.SchemeGroupVersion.WithResource("events")
	return controller.NewInformer("events on "+v.Target, example(schema.GroupVersionKind{Version: "v1", Kind: "Event"}),
		controller.Lists(v.Down.Dynamic.Resource(events)),
		controller.InformerOptions[*unstructured.Unstructured]{Unscoped: true, Server: v.Down.Server, Allowance: v.allowance,
			Transform: func(obj runtime.Object) (*unstructured.Unstructured, error) {
				event, err := whole(obj)
				if err != nil {
					return nil, err
				}
				if namespace, _ := syncer.Involved(event); namespace == "" || v.NamespaceOf(namespace) == nil {
					return nil, nil
				}
				event.SetManagedFields(nil)
				return event, nil
			},
		})
}

func example(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// whole keeps an object as it is.
func whole(obj runtime.Object) (*unstructured.Unstructured, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	return u, nil
}

func (v *View) mirroredUID(obj *unstructured.Unstructured) []string {
	if uid := syncer.MirroredUID(v.Target, obj); uid != "" {
		return []string{string(uid)}
	}
	return nil
}

func physicalName(namespace *unstructured.Unstructured) []string {
	if name := syncer.PhysicalName(namespace); name != "" {
		return []string{name}
	}
	return nil
}

func owners(obj *unstructured.Unstructured) []string {
	var uids []string
	for _, ref := range obj.GetOwnerReferences() {
		uids = append(uids, string(ref.UID))
	}
	return uids
}

func marked(kind workload.Kind) func(*unstructured.Unstructured) []string {
	return func(obj *unstructured.Unstructured) []string {
		m, ok := syncer.MarkOf(kind.GroupResource(), obj)
		if !ok {
			return nil
		}
		return []string{KeyOfMark(kind, m).Request.String()}
	}
}

// leadsBy names the Services behind an Ingress.
func leadsBy(kind workload.Kind) func(*unstructured.Unstructured) []string {
	return func(obj *unstructured.Unstructured) (values []string) {
		for _, name := range syncer.ServicesOf(kind, obj) {
			values = append(values, obj.GetNamespace()+"/"+name)
		}
		return values
	}
}

// scales names what an autoscaler scales.
func scales(scaler workload.Kind) func(*unstructured.Unstructured) []string {
	return func(obj *unstructured.Unstructured) []string {
		kind, name := syncer.Scales(scaler, obj)
		return []string{scaledValue(controller.RequestFor(obj), kind.Kind, name)}
	}
}

func scaledValue(r controller.Request, kind, name string) string {
	return fmt.Sprintf("%s|%s/%s/%s", r.Cluster, r.Namespace, kind, name)
}
