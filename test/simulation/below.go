package simulation

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// physical is a physical cluster: an API server, the controllers and the kubelet
// of it, and the syncer that serves it.
type physical struct {
	world *World
	name  string
	api   *kube.Server
	work  *queue
	// front is its API server, behind what the syncers' credentials lead to.
	front, behind *front

	syncers []*syncerProcess
	// started counts the syncers.
	started int
	// upCut and downCut are the links of the syncer to the control plane and to
	// the physical cluster; dead says that the latter burnt down.
	upCut, downCut, dead bool
	// routeless says that whoever is before the control plane has no route for the syncers.
	routeless bool
	// blank is how it was before there was anything of ours, backup a later state.
	blank, backup *kube.Backup
	// emptied says that all that is ours was lost while it was known to be there.
	emptied bool
	// rewound says that a backup of it was ever restored.
	rewound    bool
	registered bool
	// class is its RuntimeClass; empty for one that never had any.
	class string
	// unused are the volumes that a node still has, and since when no pod uses them.
	unused map[string]time.Time
	// undefined says that it does not serve gadgets, though it may have some.
	undefined bool
	// refusals is what it refuses its syncer, by resource.
	refusals map[schema.GroupResource]refusal
	// addresses counts those that pods were given, in a world with a network.
	addresses int
}

// nameLabel has the name of a physical cluster.
const nameLabel = "example.com/name"

// Who writes below, besides the syncer.
const (
	controllers = "controllers"
	people      = "people"
)

func newPhysical(w *World, name string) *physical {
	p := &physical{world: w, name: name, unused: map[string]time.Time{}, refusals: map[schema.GroupResource]refusal{}, api: kube.New(name, func() time.Time { return w.now() })}
	p.work = newQueue(w, name+" controllers", p.reconcile)
	p.front = newFront(w, name, p.api)
	p.front.physical = p
	p.behind = p.front
	p.must(p.api.Create(controllers, nodes, readyNode(name, p.range24())))
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} { // the UID of the first is who it is
		p.must(p.api.Create(controllers, namespaces, newObject(namespaces, "", name)))
	}
	p.makeStorageClasses()
	if w.gadgets {
		p.define()
	}
	p.blank = p.api.Backup()
	p.api.Audit = func(e kube.Event) {
		w.ledger.below(p, e)
		w.ledger.storage(p, e)
		p.changed(e)
		p.storageChanged(e)
		p.dataChanged(e)
		p.frontsChanged(e)
		p.budgetsOf(e)
	}
	return p
}

// changed has the controllers look at what a change concerns.
func (p *physical) changed(e kube.Event) {
	p.work.add(e.Key)
	obj := e.New
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		if e.Old != nil { // a backup may bring back what was on its way out
			obj = e.Old
		}
		for _, k := range p.api.Dependents(obj.GetUID()) {
			p.work.add(k)
		}
	}
	for _, r := range obj.GetOwnerReferences() {
		if k, owner := p.api.ByUID(r.UID); owner != nil {
			p.work.add(k)
		}
	}
	if e.Key.Namespace != "" {
		p.work.add(kube.Key{Resource: namespaces, Name: e.Key.Namespace})
	}
	for controlled, controlling := range map[schema.GroupResource]schema.GroupResource{replicaSets: deployments, pods: replicaSets} {
		if e.Key.Resource == controlled && (e.New == nil || len(e.New.GetOwnerReferences()) == 0) { // its name is free, or it is
			for _, c := range p.api.ListNamespace(controlling, "", e.Key.Namespace) {
				p.work.add(p.api.KeyOf(controlling, c))
			}
		}
	}
}

// register makes the PhysicalCluster in the control plane.
func (p *physical) register() {
	if p.registered {
		return
	}
	p.registered = true
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{
		Name: p.name, Labels: map[string]string{nameLabel: p.name}, Annotations: map[string]string{"kcp.io/cluster": "root"},
	}}
	if p.world.flat && p.name != "north" {
		pc.Spec.Pods.Network = network1
	}
	if p.world.volumes {
		pc.Spec.Volumes = p.world.declaredClasses()
	}
	if p.world.imports {
		pc.Spec.Tenancy.EndpointCIDRs = []string{permittedEndpoints}
	}
	if _, err := p.world.api.Create(admin, physicalClusters, pc); err != nil {
		panic(err)
	}
}

func (p *physical) must(_ object, err error) {
	if err != nil {
		panic(err)
	}
}

func readyNode(name, podCIDR string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name + "-node"},
		"spec": map[string]any{"podCIDRs": []any{podCIDR}},
		"status": map[string]any{
			"allocatable": map[string]any{"cpu": "64", "memory": "256Gi", "pods": "1000"},
			"capacity":    map[string]any{"cpu": "64", "memory": "256Gi", "pods": "1000"},
			"conditions":  []any{map[string]any{"type": "Ready", "status": "True"}},
		},
	}}
}

// syncing says that a syncer holds all its watches.
func (p *physical) syncing() bool {
	pc, ok := p.world.api.Find(p.key()).(*fleetv1alpha1.PhysicalCluster)
	return ok && meta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionSyncing)
}

func (p *physical) key() kube.Key {
	return kube.Key{Resource: physicalClusters, Cluster: "root", Name: p.name}
}

// edit changes the PhysicalCluster, as an admin or the server does.
func (p *physical) edit(by string, change func(*fleetv1alpha1.PhysicalCluster)) {
	obj := p.world.api.Find(p.key())
	if obj == nil {
		return
	}
	pc := obj.(*fleetv1alpha1.PhysicalCluster).DeepCopy()
	change(pc)
	if _, err := p.world.api.Update(by, physicalClusters, pc); err != nil {
		panic(err)
	}
}

func (p *physical) forgotten() bool {
	pc, ok := p.world.api.Find(p.key()).(*fleetv1alpha1.PhysicalCluster)
	return ok && pc.Spec.Forget
}

// reconcile is all controllers of the physical cluster at once.
func (p *physical) reconcile(key kube.Key) (time.Duration, error) {
	if p.dead || p.api.Collect(key) {
		return 0, nil
	}
	obj := cast(p.api.Find(key))
	if obj == nil {
		return 0, nil
	}
	switch key.Resource {
	case namespaces:
		return p.terminate(obj)
	case services:
		if err := p.slicesOf(key, obj); err != nil {
			return 0, err
		}
		return 0, p.status(key, obj, balanced(p.name, obj.GetName()))
	case ingresses:
		return 0, p.status(key, obj, balanced(p.name, obj.GetName()))
	case deployments:
		return 0, p.deployment(key, obj)
	case autoscalers:
		return p.autoscale(key, obj)
	case replicaSets:
		return 0, p.replicaSet(key, obj)
	case pods:
		return p.pod(key, obj)
	case quotas:
		return 0, p.count(key, obj)
	case claims:
		return 0, p.claim(key, obj)
	case persistentVolumes:
		return 0, p.volume(key, obj)
	case attachments:
		return p.detach(key, obj)
	case statefulSets:
		return 0, p.statefulSet(key, obj)
	case snapshots:
		return 0, p.snapshot(key, obj)
	case snapshotContents:
		return 0, p.snapshotContent(key, obj)
	case jobs:
		return p.job(key, obj)
	case cronJobs:
		return p.cron(key, obj)
	case budgets:
		return 0, p.disruptions(key, obj)
	}
	return 0, nil
}

// terminate empties a namespace that is being deleted.
func (p *physical) terminate(namespace *unstructured.Unstructured) (time.Duration, error) {
	if namespace.GetDeletionTimestamp() == nil {
		return 0, nil
	}
	remaining := false
	for _, gr := range append(slices.Clip(content), snapshots) {
		for _, obj := range p.api.ListNamespace(gr, "", namespace.GetName()) {
			remaining = true
			if obj.GetDeletionTimestamp() == nil {
				return time.Millisecond, p.api.Delete(controllers, p.api.KeyOf(gr, obj), kube.DeleteOptions{Propagation: metav1.DeletePropagationBackground})
			}
		}
	}
	if remaining {
		return 0, nil // the last one to go brings us back
	}
	done := changed(namespace)
	unstructured.RemoveNestedField(done.Object, "spec", "finalizers")
	_, err := p.api.Update(controllers, namespaces, done)
	return 0, err
}

func (p *physical) status(key kube.Key, obj *unstructured.Unstructured, status map[string]any) error {
	u := obj.DeepCopy()
	u.Object["status"] = status
	u.SetResourceVersion("")
	_, err := p.api.UpdateStatus(controllers, key.Resource, u)
	return err
}

// owned are the objects that one controls.
func (p *physical) owned(owner kube.Object) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, k := range p.api.Dependents(owner.GetUID()) {
		out = append(out, cast(p.api.Find(k)))
	}
	return out
}

// freeForeign takes off what people's finalizers hold.
func (p *physical) freeForeign() {
	for _, gr := range copied {
		for _, obj := range p.api.List(gr) {
			for _, f := range obj.GetFinalizers() {
				if strings.HasPrefix(f, "example.com/") {
					p.api.RemoveFinalizer(people, p.api.KeyOf(gr, obj), f)
				}
			}
		}
	}
}

// classOf is the RuntimeClass with a handler; empty if it has none.
func (p *physical) classOf(handler string) string {
	if handler == "" {
		return ""
	}
	for _, obj := range p.api.List(runtimeClasses) {
		if text(obj, "handler") == handler {
			return obj.GetName()
		}
	}
	return ""
}
