package metrics

import (
	"cmp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	metricsapi "k8s.io/metrics/pkg/apis/metrics"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
)

// place is a namespace of the logical cluster on a physical cluster.
type place struct {
	Target, Physical, Logical string
}

// question is what is asked at a place: about these pods, by name.
type question struct {
	place
	pods map[string]*api.Pod
}

// plan groups pods by where they run, sorted by place.
//
//	pod                         then
//	has ended                   left out: it uses nothing, and nobody measures it
//	runs nowhere yet, or not    left out, as in a cluster a pod that nobody has measured yet
//	any more (a conflict)
//	cannot be located           the error
//	runs somewhere              is asked for there
func plan(all []api.Pod, locate func(*api.Pod) (pods.Place, error)) ([]question, error) {
	found := map[place]map[string]*api.Pod{}
	for i := range all {
		pod := &all[i]
		if pod.Status.Phase == api.PodSucceeded || pod.Status.Phase == api.PodFailed {
			continue
		}
		at, err := locate(pod)
		switch {
		case apierrors.IsConflict(err):
			continue
		case err != nil:
			return nil, err
		}
		key := place{Target: at.Target, Physical: at.Namespace, Logical: pod.Namespace}
		if found[key] == nil {
			found[key] = map[string]*api.Pod{}
		}
		found[key][pod.Name] = pod
	}
	out := make([]question, 0, len(found))
	for at, pods := range found {
		out = append(out, question{at, pods})
	}
	slices.SortFunc(out, func(a, b question) int {
		return cmp.Or(cmp.Compare(a.Logical, b.Logical), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Physical, b.Physical))
	})
	return out, nil
}

// take is what an item says of a pod that was asked for, once.
//
//	item                                   then
//	of another namespace                   dropped
//	of a pod that is not asked for, or     dropped
//	for the second time
//	of a container that the pod has not,   that container is dropped
//	or without processors or memory
//	without any container then             dropped: a pod that is not measured is no zero
func (q question) take(i item) (metricsapi.PodMetrics, bool) {
	pod := q.pods[i.Metadata.Name]
	if pod == nil || i.Metadata.Namespace != q.Physical {
		return metricsapi.PodMetrics{}, false
	}
	delete(q.pods, pod.Name)
	out := metricsapi.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, CreationTimestamp: i.Timestamp},
		Timestamp:  i.Timestamp, Window: i.Window,
	}
	names := containers(pod)
	for _, c := range i.Containers {
		if used := usage(c.Usage); used != nil && names[c.Name] {
			delete(names, c.Name)
			out.Containers = append(out.Containers, metricsapi.ContainerMetrics{Name: c.Name, Usage: used})
		}
	}
	return out, len(out.Containers) > 0
}

func containers(pod *api.Pod) map[string]bool {
	names := map[string]bool{}
	for i := range pod.Spec.Containers {
		names[pod.Spec.Containers[i].Name] = true
	}
	for i := range pod.Spec.InitContainers {
		names[pod.Spec.InitContainers[i].Name] = true
	}
	for i := range pod.Spec.EphemeralContainers {
		names[pod.Spec.EphemeralContainers[i].Name] = true
	}
	return names
}

// total is what a node says if these are all that is measured of it: the sum, over the oldest
// time and the longest window.
type total struct {
	usage     corev1.ResourceList
	timestamp metav1.Time
	window    metav1.Duration
}

func (t *total) add(used corev1.ResourceList, at metav1.Time, window metav1.Duration) {
	if t.usage == nil {
		t.usage = none()
	}
	add(t.usage, used)
	if t.timestamp.IsZero() || at.Before(&t.timestamp) {
		t.timestamp = at
	}
	t.window.Duration = max(t.window.Duration, window.Duration)
}
