package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// What has to hold of where Services lead that select pods.
const (
	// NeverEmpty: traffic is withdrawn from the last endpoints of a Service only once it goes elsewhere.
	NeverEmpty = "clients have an endpoint through a move"
	// LeadsWhereItRuns: at rest a Service leads to what its copies lead to, and to nothing that left.
	LeadsWhereItRuns = "Services lead to what runs"
)

// front: a user has a Service lead to the pods of a Deployment, which can be on several physical clusters at a time.
func (w *World) front(h Happening) {
	app := []string{"a", "b"}[h.N%2]
	h.Resource, h.Name = services, "front-"+app
	u := newObject(services, h.Namespace, h.Name)
	_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"app": app}, "spec", "selector") // a path of maps
	if h.N%3 > 0 {
		_ = unstructured.SetNestedField(u.Object, string(corev1.ServiceTypeLoadBalancer), "spec", "type")
	}
	w.create(h.key(), u, nil)
	h.Resource, h.Name = deployments, app
	if w.api.Find(h.key()) == nil {
		d := example(deployments, h.Namespace, app, 1+h.N%2)
		w.create(h.key(), d, nil)
	}
}

// frontSet: a user has a Service lead to the pods of a StatefulSet, and makes one without claims if there is none.
func (w *World) frontSet(h Happening) {
	h = h.set()
	set := h
	h.Resource = services
	u := newObject(services, h.Namespace, h.Name)
	_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"app": h.Name}, "spec", "selector") // a path of maps
	if h.N%3 > 0 {
		_ = unstructured.SetNestedField(u.Object, string(corev1.ServiceTypeLoadBalancer), "spec", "type")
	}
	w.create(h.key(), u, nil)
	if w.api.Find(set.key()) == nil {
		d := example(statefulSets, h.Namespace, h.Name, 1+h.N%3)
		unstructured.RemoveNestedField(d.Object, "spec", "volumeClaimTemplates")
		w.create(set.key(), d, nil)
	}
}

// scaleSet: a user wants another number of ordinals, by the object or by its Scale.
func (w *World) scaleSet(h Happening) { w.scaleTo(h.set(), int64(h.N%5)) }

// enter: a user has an Ingress lead to one of these Services or to both, changes that, or takes it back.
func (w *World) enter(h Happening) {
	h.Resource, h.Name = ingresses, "door"
	var paths []any
	for _, name := range []string{"front-a", "front-b"}[:1+h.N%2] {
		paths = append(paths, map[string]any{"path": "/" + name, "pathType": "Prefix", "backend": map[string]any{
			"service": map[string]any{"name": name, "port": map[string]any{"number": int64(80)}},
		}})
	}
	host := h.Namespace + "." + h.Cluster.String() + ".example.com"
	spec := map[string]any{"rules": []any{map[string]any{"host": host, "http": map[string]any{"paths": paths}}}}
	w.writeSpec(h, spec)
}

// writeSpec: a user makes an object with a spec, changes it, or at times takes it back.
func (w *World) writeSpec(h Happening, spec map[string]any) {
	switch u := newObject(h.Resource, h.Namespace, h.Name); {
	case h.N%7 == 0:
		w.remove(h.key(), h.N)
	case w.api.Find(h.key()) == nil:
		u.Object["spec"] = spec
		w.create(h.key(), u, nil)
	default:
		w.update(w.people, h.key(), func(there *unstructured.Unstructured) bool {
			there.Object["spec"] = spec
			return true
		})
	}
}

// behindOf are the Services that an Ingress leads to.
func behindOf(ingress kube.Object) (names []string) {
	rules, _, _ := unstructured.NestedSlice(cast(ingress).Object, "spec", "rules")
	for _, rule := range rules {
		m, _ := rule.(map[string]any)
		paths, _, _ := unstructured.NestedSlice(m, "http", "paths")
		for _, path := range paths {
			m, _ := path.(map[string]any)
			name, _, _ := unstructured.NestedString(m, "backend", "service", "name")
			names = append(names, name)
		}
	}
	return names
}

// balanced is the status of what a load balancer of a physical cluster leads to.
func balanced(physical, name string) map[string]any {
	return map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"hostname": physical + "." + name}}}}
}

// moveFront: a user has a namespace of one place go elsewhere.
func (w *World) moveFront(h Happening) { w.moveData(h) }

// slicesOf is the controller that follows the pods of a Service.
func (p *physical) slicesOf(key kube.Key, service *unstructured.Unstructured) error {
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	if !p.world.fronts || len(selector) == 0 || service.GetDeletionTimestamp() != nil {
		return nil
	}
	endpoints := []any{}
	for _, pod := range p.api.ListNamespace(pods, "", key.Namespace) {
		address := text(pod, "status", "podIP")
		if address == "" || !includes(pod.GetLabels(), selector) || text(pod, "status", "phase") != "Running" {
			continue
		}
		going := pod.GetDeletionTimestamp() != nil
		endpoints = append(endpoints, map[string]any{
			"addresses": []any{address}, "conditions": map[string]any{"ready": !going, "serving": true, "terminating": going},
			"targetRef": map[string]any{"kind": "Pod", "namespace": key.Namespace, "name": pod.GetName(), "uid": string(pod.GetUID())},
		})
	}
	slice := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": discoveryv1.SchemeGroupVersion.String(), "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
		"ports": []any{map[string]any{"port": int64(80)}},
	}}
	slice.SetNamespace(key.Namespace)
	slice.SetName(key.Name + "-1")
	labels := maps.Clone(service.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName], labels[discoveryv1.LabelManagedBy] = key.Name, "endpointslice-controller.k8s.io"
	slice.SetLabels(labels)
	ref := kube.OwnerOf(service)
	slice.SetOwnerReferences(append(slice.GetOwnerReferences(), ref))
	there := cast(p.api.Find(p.api.KeyOf(endpointSlices, slice)))
	if there == nil {
		return tolerate(p.api.Create(controllers, endpointSlices, slice))
	}
	if len(there.GetOwnerReferences()) == 0 || there.GetOwnerReferences()[0].UID != ref.UID || there.GetDeletionTimestamp() != nil {
		return nil // that of one before it, which is collected
	}
	next := there.DeepCopy()
	next.SetLabels(labels)
	next.Object["endpoints"] = endpoints
	_, err := p.api.Update(controllers, endpointSlices, next)
	return err
}

func includes(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// frontsChanged has Services looked at whose pods or slices change.
func (p *physical) frontsChanged(e kube.Event) {
	if p.world.fronts && (e.Key.Resource == pods || e.Key.Resource == endpointSlices) {
		for _, s := range p.api.ListNamespace(services, "", e.Key.Namespace) {
			p.work.add(p.api.KeyOf(services, s))
		}
	}
}

// readyIn are the endpoints of a slice that clients are sent to.
func readyIn(slice kube.Object) (uids []types.UID) {
	if u, ok := slice.(*unstructured.Unstructured); !ok || u == nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(cast(slice).Object, "endpoints")
	for _, e := range list {
		m, _ := e.(map[string]any)
		ready, said, _ := unstructured.NestedBool(m, "conditions", "ready")
		uid, _, _ := unstructured.NestedString(m, "targetRef", "uid")
		if ready || !said {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids
}

// mirroredFrom is the physical cluster that a slice is mirrored from; empty if it is no mirror.
func mirroredFrom(slice kube.Object) string {
	for name, t := range targetsOf(slice) {
		if t.State == placementv1alpha1.TargetObserved {
			return name
		}
	}
	return ""
}

// leads is a Service as one physical cluster leads to it.
type leads struct {
	service kube.Key
	from    string
}

// sliceWritten checks that a Service leads elsewhere when traffic is withdrawn from all that it led to.
func (l *ledger) sliceWritten(e kube.Event) {
	slice := e.New
	if slice == nil {
		slice = e.Old
	}
	name := mirroredFrom(slice)
	if !l.world.fronts || name == "" {
		return
	}
	service := kube.Key{Resource: services, Cluster: e.Key.Cluster, Namespace: e.Key.Namespace, Name: slice.GetLabels()[discoveryv1.LabelServiceName]}
	before, now := readyIn(e.Old), readyIn(e.New)
	if len(before)+len(now) > 0 {
		l.led[leads{service, name}] = l.world.now()
	}
	obj := cast(l.world.api.Find(service))
	if obj == nil || e.Old == nil || e.New == nil || !isSyncer(e.By) || len(before) == 0 || len(now) > 0 || l.turnedBack > 0 || l.world.withdraws ||
		targetsOf(obj)[name].State != placementv1alpha1.TargetStateDraining || !l.startsFirst(service, obj) {
		return
	}
	for _, v := range slices.Backward(l.versions[obj.GetUID()]) {
		t, had := targetsOf(v)[name]
		if t.State == placementv1alpha1.TargetStateDraining {
			continue
		}
		if !had || !t.Receives() {
			return // a move that was taken back before clients were sent there
		}
		break
	}
	for _, other := range l.world.api.ListNamespace(endpointSlices, e.Key.Cluster, e.Key.Namespace) {
		if other.GetLabels()[discoveryv1.LabelServiceName] == service.Name && len(readyIn(other)) > 0 {
			return
		}
	}
	for other, at := range l.led {
		if other.service == service && other.from != name && l.world.now().Sub(at) < lately {
			return
		}
	}
	p := l.world.cluster(name)
	if below := cast(p.api.Find(kube.Key{Resource: endpointSlices, Namespace: l.physicalNamespace(obj), Name: service.Name + "-1"})); len(readyIn(below)) == 0 {
		return // they ended
	}
	l.world.fail(NeverEmpty, "%s leads nowhere: it was withdrawn from %s, and leads to no other place: %s", service, name, targetsText(obj))
}

func (l *ledger) physicalNamespace(obj kube.Object) string {
	namespace := l.world.api.Find(namespaceOf(l.world.api.KeyOf(services, obj)))
	if namespace == nil {
		return ""
	}
	return namespace.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]
}

// startsFirst says that all that a Service selects is Deployments which are started elsewhere before they are stopped, and
// wants pods; and that nothing keeps these from being there, as their deletion does.
func (l *ledger) startsFirst(key kube.Key, service *unstructured.Unstructured) bool {
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	any := false
	for _, gr := range content {
		kind := kindOf(gr)
		if kind.Role != workload.Placed || kind.PodTemplate == nil {
			continue
		}
		for _, obj := range l.world.api.ListNamespace(gr, key.Cluster, key.Namespace) {
			u := cast(obj)
			labels, _, _ := unstructured.NestedStringMap(u.Object, append(slices.Clone(kind.PodTemplate), "metadata", "labels")...)
			if isObserved(u) || !includes(labels, selector) {
				continue
			}
			if gr != deployments || u.GetDeletionTimestamp() != nil || number(u, "spec", "replicas") == 0 || workload.StopsFirst(kind, u.Object) || l.failing(u) {
				return false
			}
			any = true
		}
	}
	return any && !l.failing(service)
}

// failing says that a Copy of an object says that it cannot be in its place.
func (l *ledger) failing(obj kube.Object) bool {
	return slices.ContainsFunc(l.world.api.List(copies), func(c kube.Object) bool {
		is := c.(*placementv1alpha1.Copy)
		return is.Spec.Object.UID == obj.GetUID() && is.Status.State == placementv1alpha1.CopyFailed
	})
}

// frontsConverged: what leads anywhere above is a slice below, with the same pods; and each of these is above.
func (w *World) frontsConverged(p *physical) {
	if !w.fronts || !p.syncing() {
		return
	}
	above := map[types.UID]kube.Object{}
	for _, slice := range w.api.List(endpointSlices) {
		if t, ok := targetsOf(slice)[p.name]; ok && t.State == placementv1alpha1.TargetObserved {
			above[t.UID] = slice
			if _, below := p.api.ByUID(t.UID); below == nil {
				w.fail(LeadsWhereItRuns, "%s mirrors %s on %s, which is gone", w.api.KeyOf(endpointSlices, slice), t.UID, p.name)
			}
		}
	}
	for _, obj := range p.api.List(endpointSlices) {
		slice := cast(obj)
		owner := slice.GetOwnerReferences()
		if syncer.IsImported(controlPlane, slice) || !labelled(slice) || len(owner) == 0 || isClone(slice) || !w.runsOurs(p, slice) {
			continue
		}
		mirror := above[slice.GetUID()]
		_, service := p.api.ByUID(owner[0].UID)
		m, _ := syncer.MarkOf(services, service)
		_, logical := w.api.ByUID(m.UID)
		if mirror == nil {
			w.fail(LeadsWhereItRuns, "%s on %s is not mirrored", p.api.KeyOf(endpointSlices, slice), p.name)
			continue
		}
		if want, got := len(readyIn(slice)), len(readyIn(mirror)); targetsOf(logical)[p.name].Receives() && want != got {
			w.fail(LeadsWhereItRuns, "%s leads to %d pods, and %s on %s to %d", w.api.KeyOf(endpointSlices, mirror), got, slice.GetName(), p.name, want)
		}
	}
}
