package references

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// handleRules looks at what rules a namespace when it changes, or its Namespace.
// Admission gives what is new its targets; this is for what came before, and for
// namespaces whose targets change.
func (c *Controller) handleRules() {
	var rules []workload.Kind
	for _, kind := range workload.Kinds() {
		i := c.Objects.For(kind.GroupVersionResource())
		if kind.Role != workload.Ruling || i == nil {
			continue
		}
		rules = append(rules, kind)
		i.Handle(func(_, new *metav1.PartialObjectMetadata) {
			if new != nil {
				c.queue.Enqueue(key{controller.RequestFor(new), kind.GroupResource()})
			}
		})
	}
	i := c.Objects.For(namespaces)
	if i == nil {
		return
	}
	i.Handle(func(old, new *metav1.PartialObjectMetadata) {
		if new == nil || old != nil && old.Annotations[placementv1alpha1.TargetsAnnotation] == new.Annotations[placementv1alpha1.TargetsAnnotation] {
			return
		}
		in := controller.RequestFor(new)
		for _, kind := range rules {
			for _, obj := range c.Objects.For(kind.GroupVersionResource()).ListNamespace(in.Cluster, in.Name) {
				c.queue.Enqueue(key{controller.RequestFor(obj), kind.GroupResource()})
			}
		}
	})
}

// namespaceTargets are those of the Namespace that an object is in.
func (c *Controller) namespaceTargets(k key) placementv1alpha1.Targets {
	i := c.Objects.For(namespaces)
	if i == nil {
		return nil
	}
	namespace, ok := i.Get(controller.Request{Cluster: k.Cluster, Name: k.Namespace})
	if !ok {
		return nil
	}
	return stamp.TargetsOf(namespace.Annotations)
}

// ruling are the needs of what rules a namespace with these targets.
//
//	the Namespace says  then
//	sync                copy, if such a rule holds on so many
//	Removing            nothing: it goes with the Namespace
//	nothing             keep: rules are stamped ahead of their Namespace, and what is
//	                    known of that may be older
func ruling(kind workload.Kind, current, namespace placementv1alpha1.Targets) map[string]need {
	needed := map[string]need{}
	for name := range current {
		if _, said := namespace[name]; !said {
			needed[name] = needKeep
		}
	}
	var synced []string
	for name, target := range namespace {
		if target.State == placementv1alpha1.TargetSync {
			synced = append(synced, name)
		}
	}
	if workload.Rules(kind, len(synced)) {
		for _, name := range synced {
			needed[name] = needCopy
		}
	}
	return needed
}
