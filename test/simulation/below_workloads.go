package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

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
		if active(pod) {
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
		"observedGeneration": rs.GetGeneration(), "replicas": int64(len(live)), "readyReplicas": ready, "availableReplicas": ready,
	})
}

// orphanFor is a pod that a ReplicaSet may adopt; nil if there is none.
func (p *physical) orphanFor(rs *unstructured.Unstructured) *unstructured.Unstructured {
	for _, obj := range p.api.ListNamespace(pods, "", rs.GetNamespace()) {
		if pod := cast(obj); active(pod) && p.adoptable(pod, rs) {
			return pod
		}
	}
	return nil
}

// active says that a ReplicaSet counts a pod: one that has finished, as an adopted one
// may that a user made to run once, is replaced.
func active(pod *unstructured.Unstructured) bool {
	phase := text(pod, "status", "phase")
	return pod.GetDeletionTimestamp() == nil && phase != string(corev1.PodSucceeded) && phase != string(corev1.PodFailed)
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
		if phase == "Running" && !isHelper(pod) {
			p.writesLast(pod)
		}
		return 0, p.api.Delete(controllers, key, kube.DeleteOptions{UID: pod.GetUID(), Grace: &zero})
	case text(pod, "spec", "nodeName") == "":
		bound := pod.DeepCopy()
		_ = unstructured.SetNestedField(bound.Object, p.name+"-node", "spec", "nodeName") // a path of maps
		_, err := p.api.Update(controllers, pods, bound)
		return 0, err
	case phase == "" && !p.attach(pod):
		return 0, nil // its claims bring us back
	case isHelper(pod):
		return p.helper(key, pod)
	case phase == "":
		p.writesTo(pod)
		return time.Second, p.status(key, pod, p.running())
	case phase == "Running" && text(pod, "spec", "restartPolicy") == "Never" && p.world.now().Sub(pod.GetCreationTimestamp().Time) > 3*time.Second:
		return 0, p.status(key, pod, map[string]any{"phase": "Succeeded"})
	case phase == "Running" && text(pod, "spec", "restartPolicy") == "Never":
		return time.Second, nil
	}
	return 0, nil
}

// job lets Jobs run for a while, without pods.
func (p *physical) job(key kube.Key, job *unstructured.Unstructured) (time.Duration, error) {
	started, length := text(job, "status", "startTime"), 2*time.Second
	if owner := metav1.GetControllerOfNoCopy(job); owner != nil && owner.Kind == kindOf(cronJobs).Kind {
		length = runTime
	}
	switch {
	case job.GetDeletionTimestamp() != nil || part(job, "status")["conditions"] != nil:
		return 0, nil
	case started == "":
		return 2 * time.Second, p.status(key, job, map[string]any{"startTime": p.world.now().Format(time.RFC3339), "active": int64(1)})
	case p.world.now().Sub(job.GetCreationTimestamp().Time) < length:
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
