package simulation

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
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
	// blank is how it was before there was anything of ours, backup a later state.
	blank, backup *kube.Backup
	// emptied says that all that is ours was lost while it was known to be there.
	emptied    bool
	registered bool
}

// Who writes below, besides the syncer.
const (
	controllers = "controllers"
	people      = "people"
)

func newPhysical(w *World, name string) *physical {
	p := &physical{world: w, name: name, api: kube.New(name, func() time.Time { return w.now() })}
	p.work = newQueue(w, name+" controllers", p.reconcile)
	p.front = newFront(w, name, p.api)
	p.front.physical = p
	p.behind = p.front
	p.must(p.api.Create(controllers, schema.GroupResource{Resource: "nodes"}, readyNode(name)))
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} { // the UID of the first is who it is
		p.must(p.api.Create(controllers, namespaces, newObject(namespaces, "", name)))
	}
	p.blank = p.api.Backup()
	p.api.Audit = func(e kube.Event) {
		w.ledger.below(p, e)
		p.changed(e)
	}
	return p
}

// changed has the controllers look at what a change concerns.
func (p *physical) changed(e kube.Event) {
	p.work.add(e.Key)
	obj := e.New
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		obj = e.Old
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
		Name: p.name, Annotations: map[string]string{"kcp.io/cluster": "root"},
	}}
	if _, err := p.world.api.Create(admin, physicalClusters, pc); err != nil {
		panic(err)
	}
}

func (p *physical) must(_ object, err error) {
	if err != nil {
		panic(err)
	}
}

func readyNode(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name + "-node"},
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
		return 0, p.status(key, obj, map[string]any{"loadBalancer": map[string]any{
			"ingress": []any{map[string]any{"hostname": p.name + "." + obj.GetName()}},
		}})
	case deployments:
		return 0, p.deployment(key, obj)
	case replicaSets:
		return 0, p.replicaSet(key, obj)
	case pods:
		return p.pod(key, obj)
	case quotas:
		return 0, p.count(key, obj)
	case jobs:
		return p.job(key, obj)
	}
	return 0, nil
}

// terminate empties a namespace that is being deleted.
func (p *physical) terminate(namespace *unstructured.Unstructured) (time.Duration, error) {
	if namespace.GetDeletionTimestamp() == nil {
		return 0, nil
	}
	remaining := false
	for _, gr := range content {
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

// deployment keeps one ReplicaSet for the template and scales the others down.
func (p *physical) deployment(key kube.Key, d *unstructured.Unstructured) error {
	if d.GetDeletionTimestamp() == nil {
		if done, err := p.rollout(d); err != nil || !done {
			return err
		}
	}
	var replicas, ready int64
	for _, rs := range p.owned(d) {
		replicas += number(rs, "status", "replicas")
		ready += number(rs, "status", "readyReplicas")
	}
	available := "False"
	if ready >= number(d, "spec", "replicas") {
		available = "True"
	}
	return p.status(key, d, map[string]any{
		"observedGeneration": d.GetGeneration(), "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
		"conditions": []any{map[string]any{"type": "Available", "status": available, "message": "simulated"}},
	})
}

// rollout does one step towards the template.
func (p *physical) rollout(d *unstructured.Unstructured) (done bool, err error) {
	template := part(d, "spec", "template")
	name := d.GetName() + "-" + revisionOf(template)
	found := false
	for _, gr := range p.api.ListNamespace(replicaSets, "", d.GetNamespace()) {
		if rs := cast(gr); p.adoptable(rs, d) {
			return false, p.adopt(replicaSets, rs, d)
		}
	}
	for _, rs := range p.owned(d) {
		want := int64(0)
		if rs.GetName() == name {
			found, want = true, number(d, "spec", "replicas")
		}
		if rs.GetDeletionTimestamp() == nil && number(rs, "spec", "replicas") != want {
			scaled := rs.DeepCopy()
			_ = unstructured.SetNestedField(scaled.Object, want, "spec", "replicas") // a path of maps
			_, err := p.api.Edit(controllers, replicaSets, scaled, "controllers")
			return false, err
		}
	}
	if found {
		return true, nil
	}
	if left := cast(p.api.Find(kube.Key{Resource: replicaSets, Namespace: d.GetNamespace(), Name: name})); left != nil {
		return false, nil // somebody's; its going will bring us back
	}
	rs := newObject(replicaSets, d.GetNamespace(), name)
	rs.SetOwnerReferences([]metav1.OwnerReference{kube.OwnerOf(d)})
	rs.SetAnnotations(d.GetAnnotations()) // as the real one does: our mark, too
	rs.SetLabels(labelsOf(template))
	rs.Object["spec"] = map[string]any{
		"replicas": number(d, "spec", "replicas"), "template": template, "selector": part(d, "spec", "selector"),
	}
	return false, tolerate(p.api.Create(controllers, replicaSets, rs.DeepCopy()))
}

// adoptable says that a controller takes an object over: nobody controls it, and it
// has the labels. Where it has several copies, their controllers and the syncers
// would each want another number of pods for ever; so would one that nothing above
// knows of any more. Here they let it be.
func (p *physical) adoptable(obj, controller *unstructured.Unstructured) bool {
	if metav1.GetControllerOfNoCopy(obj) != nil || obj.GetDeletionTimestamp() != nil || !p.world.livesAbove(p, controller) {
		return false
	}
	if m, ok := syncer.MarkOf(resourceOf(obj), obj); ok {
		if logical := p.world.api.Find(keyOfMark(resourceOf(obj), m)); logical != nil && len(targetsOf(logical)) != 1 {
			return false
		}
	}
	app, _, _ := unstructured.NestedString(controller.Object, "spec", "selector", "matchLabels", "app")
	return app != "" && obj.GetLabels()["app"] == app
}

func (p *physical) adopt(gr schema.GroupResource, obj, controller *unstructured.Unstructured) error {
	u := obj.DeepCopy()
	u.SetOwnerReferences([]metav1.OwnerReference{kube.OwnerOf(controller)})
	_, err := p.api.Update(controllers, gr, u)
	return err
}

// tolerate: what is taken or terminating is looked at again when that changes.
func tolerate(_ kube.Object, _ error) error { return nil }

func labelsOf(template map[string]any) map[string]string {
	labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	return labels
}

// revisionOf is a name for a template: its image and volume.
func revisionOf(template map[string]any) string {
	spec, _ := template["spec"].(map[string]any)
	text := fmt.Sprint(spec["containers"], spec["volumes"])
	sum := uint32(0)
	for i := range len(text) {
		sum = sum*31 + uint32(text[i])
	}
	return fmt.Sprintf("%06x", sum&0xffffff)
}

// replicaSet makes and removes pods.
func (p *physical) replicaSet(key kube.Key, rs *unstructured.Unstructured) error {
	var live []*unstructured.Unstructured
	ready := int64(0)
	for _, pod := range p.owned(rs) {
		if pod.GetDeletionTimestamp() == nil {
			live = append(live, pod)
			if text(pod, "status", "phase") == "Running" {
				ready++
			}
		}
	}
	want := int(number(rs, "spec", "replicas"))
	orphan := p.orphanFor(rs)
	switch {
	case rs.GetDeletionTimestamp() != nil:
	case orphan != nil:
		return p.adopt(pods, orphan, rs)
	case len(live) < want:
		template := part(rs, "spec", "template")
		pod := newObject(pods, rs.GetNamespace(), p.freeName(rs))
		pod.SetOwnerReferences([]metav1.OwnerReference{kube.OwnerOf(rs)})
		pod.SetLabels(labelsOf(template))
		annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
		pod.SetAnnotations(annotations)
		pod.Object["spec"] = template["spec"]
		return tolerate(p.api.Create(controllers, pods, pod.DeepCopy()))
	case len(live) > want:
		return p.api.Delete(controllers, p.api.KeyOf(pods, live[0]), kube.DeleteOptions{UID: live[0].GetUID()})
	}
	return p.status(key, rs, map[string]any{
		"observedGeneration": rs.GetGeneration(), "replicas": int64(len(live)), "readyReplicas": ready,
	})
}

// orphanFor is a pod that a ReplicaSet may adopt; nil if there is none.
func (p *physical) orphanFor(rs *unstructured.Unstructured) *unstructured.Unstructured {
	for _, obj := range p.api.ListNamespace(pods, "", rs.GetNamespace()) {
		if pod := cast(obj); p.adoptable(pod, rs) {
			return pod
		}
	}
	return nil
}

// freeName of a pod: real ones are random, these come back at times.
func (p *physical) freeName(rs *unstructured.Unstructured) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d", rs.GetName(), i)
		if p.api.Find(kube.Key{Resource: pods, Namespace: rs.GetNamespace(), Name: name}) == nil {
			return name
		}
	}
}

// pod is scheduler and kubelet.
func (p *physical) pod(key kube.Key, pod *unstructured.Unstructured) (time.Duration, error) {
	phase := text(pod, "status", "phase")
	switch {
	case pod.GetDeletionTimestamp() != nil:
		if left := time.Duration(*pod.GetDeletionGracePeriodSeconds()) * 100 * time.Millisecond; left > 0 && p.world.rng.IntN(2) == 0 {
			return left, nil
		}
		zero := int64(0)
		return 0, p.api.Delete(controllers, key, kube.DeleteOptions{UID: pod.GetUID(), Grace: &zero})
	case text(pod, "spec", "nodeName") == "":
		bound := pod.DeepCopy()
		_ = unstructured.SetNestedField(bound.Object, p.name+"-node", "spec", "nodeName") // a path of maps
		_, err := p.api.Update(controllers, pods, bound)
		return 0, err
	case phase == "":
		return time.Second, p.status(key, pod, map[string]any{"phase": "Running"})
	case phase == "Running" && text(pod, "spec", "restartPolicy") == "Never" && p.world.now().Sub(pod.GetCreationTimestamp().Time) > 3*time.Second:
		return 0, p.status(key, pod, map[string]any{"phase": "Succeeded"})
	case phase == "Running" && text(pod, "spec", "restartPolicy") == "Never":
		return time.Second, nil
	}
	return 0, nil
}

// job lets Jobs run for a while, without pods.
func (p *physical) job(key kube.Key, job *unstructured.Unstructured) (time.Duration, error) {
	started := text(job, "status", "startTime")
	switch {
	case job.GetDeletionTimestamp() != nil || part(job, "status")["conditions"] != nil:
		return 0, nil
	case started == "":
		return 2 * time.Second, p.status(key, job, map[string]any{"startTime": p.world.now().Format(time.RFC3339), "active": int64(1)})
	case p.world.now().Sub(job.GetCreationTimestamp().Time) < 2*time.Second:
		return time.Second, nil
	}
	return 0, p.status(key, job, map[string]any{
		"startTime": started, "succeeded": int64(1), "completionTime": p.world.now().Format(time.RFC3339),
		"conditions": []any{
			map[string]any{"type": "SuccessCriteriaMet", "status": "True"},
			map[string]any{"type": "Complete", "status": "True"},
		},
	})
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
