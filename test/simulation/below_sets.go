package simulation

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// statefulSet keeps a pod for each ordinal, with its claims, one after the other: the next one is made once the one
// before it runs, and the last one goes first.
func (p *physical) statefulSet(key kube.Key, set *unstructured.Unstructured) error {
	if set.GetDeletionTimestamp() == nil {
		if done, err := p.ordinals(set); err != nil || !done {
			return err
		}
	}
	var replicas, ready int64
	for _, pod := range p.owned(set) {
		if !active(pod) {
			continue
		}
		replicas++
		if text(pod, "status", "phase") == "Running" {
			ready++
		}
	}
	revision := revisionOf(part(set, "spec", "template"))
	return p.status(key, set, map[string]any{
		"observedGeneration": set.GetGeneration(), "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
		"currentReplicas": replicas, "updatedReplicas": replicas, "currentRevision": revision, "updateRevision": revision,
	})
}

// ordinals does one step towards the pods that a StatefulSet is to have; what it waits for brings it back, and
// then it is done as far as it can be.
func (p *physical) ordinals(set *unstructured.Unstructured) (done bool, err error) {
	first := int(workload.FirstOrdinal(set.Object))
	end := first + int(number(set, "spec", "replicas"))
	made := map[int]*unstructured.Unstructured{}
	for _, pod := range p.owned(set) {
		if n, ok := workload.OrdinalOf(set.GetName(), pod.GetName()); ok {
			made[int(n)] = pod
		}
	}
	for n := first; n < end; n++ {
		pod := made[n]
		if pod == nil {
			return true, p.makeOrdinal(set, n)
		}
		if !active(pod) && pod.GetDeletionTimestamp() == nil {
			return true, p.api.Delete(controllers, p.api.KeyOf(pods, pod), kube.DeleteOptions{UID: pod.GetUID()})
		}
		if pod.GetDeletionTimestamp() != nil || text(pod, "status", "phase") != "Running" {
			return true, nil
		}
	}
	last := -1
	for n := range maps.Keys(made) {
		if n < first || n >= end || made[n].GetLabels()[revisionLabel] != revisionOf(part(set, "spec", "template")) {
			last = max(last, n)
		}
	}
	if last >= 0 && made[last].GetDeletionTimestamp() == nil {
		return true, p.api.Delete(controllers, p.api.KeyOf(pods, made[last]), kube.DeleteOptions{UID: made[last].GetUID()})
	}
	return true, nil
}

// revisionLabel is what pods of a StatefulSet were made from.
const revisionLabel = "controller-revision-hash"

// makeOrdinal makes a pod of a StatefulSet, after its claims.
func (p *physical) makeOrdinal(set *unstructured.Unstructured, n int) error {
	name := fmt.Sprintf("%s-%d", set.GetName(), n)
	template := part(set, "spec", "template")
	labels := maps.Clone(labelsOf(template))
	selector, _, _ := unstructured.NestedStringMap(set.Object, "spec", "selector", "matchLabels")
	spec := (&unstructured.Unstructured{Object: template}).DeepCopy().Object["spec"].(map[string]any)
	volumes, _ := spec["volumes"].([]any)
	wanted, _, _ := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	for _, w := range wanted {
		t := &unstructured.Unstructured{Object: w.(map[string]any)}
		claim := newObject(claims, set.GetNamespace(), t.GetName()+"-"+name)
		claim.Object["spec"] = t.DeepCopy().Object["spec"]
		claimLabels := maps.Clone(t.GetLabels())
		if claimLabels == nil {
			claimLabels = map[string]string{}
		}
		maps.Copy(claimLabels, selector)
		claim.SetLabels(claimLabels)
		claim.SetAnnotations(t.GetAnnotations())
		if there := p.api.Find(p.api.KeyOf(claims, claim)); there != nil && there.GetDeletionTimestamp() != nil {
			return nil // its end brings us back
		} else if there == nil {
			if _, err := p.api.Create(controllers, claims, claim); err != nil {
				return err
			}
		}
		volumes = append(volumes, map[string]any{"name": t.GetName(), "persistentVolumeClaim": map[string]any{"claimName": claim.GetName()}})
	}
	pod := newObject(pods, set.GetNamespace(), name)
	pod.SetOwnerReferences([]metav1.OwnerReference{kube.OwnerOf(set)})
	labels[revisionLabel], labels["statefulset.kubernetes.io/pod-name"] = revisionOf(template), name
	pod.SetLabels(labels)
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	pod.SetAnnotations(annotations)
	if spec["volumes"] = volumes; len(volumes) == 0 {
		delete(spec, "volumes")
	}
	pod.Object["spec"] = spec
	return tolerate(p.api.Create(controllers, pods, pod))
}
