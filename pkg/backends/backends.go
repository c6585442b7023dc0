package backends

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Candidate is a pod that runs, read once for all Services of its namespace.
type Candidate struct {
	Pod *corev1.Pod
	// Target is the physical cluster on which it runs; empty if it is not known.
	Target string

	targets placementv1alpha1.Targets
	ready   bool
}

// Candidates are the pods that have not ended, and are not about to.
func Candidates(pods []corev1.Pod) []Candidate {
	out := make([]Candidate, 0, len(pods))
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || HasEnded(p) {
			continue
		}
		targets := stamp.TargetsOf(p.Annotations)
		c := Candidate{Pod: p, targets: targets, ready: isReady(p)}
		if on := runsOn(targets); len(on) > 0 {
			c.Target = on[len(on)-1]
		}
		out = append(out, c)
	}
	return out
}

// HasEnded says that a pod runs no more, and has no address.
func HasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// RunsOn are the physical clusters on which a pod runs, sorted: one that a user wrote may be on several,
// of which its status has the address of one.
func RunsOn(p *corev1.Pod) []string { return runsOn(stamp.TargetsOf(p.Annotations)) }

func runsOn(targets placementv1alpha1.Targets) (names []string) {
	for _, n := range slices.Sorted(maps.Keys(targets)) {
		if target := targets[n]; target.State == placementv1alpha1.TargetObserved || target.Keeps() {
			names = append(names, n)
		}
	}
	return names
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Backend is a pod behind a Service.
type Backend struct {
	Candidate
	// Receives says that the pod is on a target whose copy of the Service receives traffic.
	Receives bool
}

// Of are the pods that a Service with a selector leads to. matched is how many it selects.
//
//	the pod                                  it is
//	of another namespace, not matched        left out, and does not count as matched
//	not ready (and s wants ready ones)       left out
//	else                                     a backend
func Of(s *corev1.Service, pods []Candidate) (of []Backend, matched int) {
	if len(s.Spec.Selector) == 0 {
		return nil, 0
	}
	selector, targets := labels.SelectorFromSet(s.Spec.Selector), stamp.TargetsOf(s.Annotations)
	for _, c := range pods {
		if c.Pod.Namespace != s.Namespace || !selector.Matches(labels.Set(c.Pod.Labels)) {
			continue
		}
		matched++
		if s.Spec.PublishNotReadyAddresses || c.ready {
			of = append(of, Backend{Candidate: c, Receives: c.receives(targets)})
		}
	}
	return of, matched
}

func (c Candidate) receives(of placementv1alpha1.Targets) bool {
	for name := range c.targets {
		if target, ok := of[name]; ok && target.Receives() {
			return true
		}
	}
	return false
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

// PodOf is the name of the pod behind an endpoint, if one is. A pod with addresses of two families is in an
// EndpointSlice of each, and one that goes from one slice to another is in both for a moment.
func PodOf(e discoveryv1.Endpoint) (name string, ok bool) {
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
		return "", false
	}
	return e.TargetRef.Name, true
}
