package backends

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Backend is a pod behind a Service.
type Backend struct {
	Pod *corev1.Pod
	// Receives says that the pod is on a target whose copy of the Service receives traffic.
	Receives bool
}

// Of are the pods that a Service with a selector leads to. matched is how many it selects.
//
//	the pod                                  it is
//	of another namespace, not matched,       left out, and does not count as matched
//	being deleted, ended
//	not ready (and s wants ready ones)       left out
//	else                                     a backend
func Of(s *corev1.Service, pods []corev1.Pod) (of []Backend, matched int) {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for i := range pods {
		p := &pods[i]
		if len(s.Spec.Selector) == 0 || p.Namespace != s.Namespace || !runs(p) || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		matched++
		if s.Spec.PublishNotReadyAddresses || isReady(p) {
			of = append(of, Backend{Pod: p, Receives: receives(s, p)})
		}
	}
	return of, matched
}

// Receiving are those of some backends to which traffic goes: from which it is withdrawn,
// only if there are no others.
func Receiving(of []Backend) []Backend {
	found := slices.DeleteFunc(slices.Clone(of), func(b Backend) bool { return !b.Receives })
	if len(found) == 0 {
		return of
	}
	return found
}

// runs says that a pod has not ended, and is not about to.
func runs(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func receives(s *corev1.Service, p *corev1.Pod) bool {
	of := stamp.TargetsOf(s.Annotations)
	for name := range stamp.TargetsOf(p.Annotations) {
		if target, ok := of[name]; ok && target.Receives() {
			return true
		}
	}
	return false
}
