package declared

import (
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// known are the rules of well-known kinds, by what a declaration is called and its version.
// They say what a declaration leaves out.
var known = map[string]map[string]fleetv1alpha1.PlacedKindSpec{
	"rollouts.argoproj.io": {"v1alpha1": {
		PodTemplates: []string{"spec.template"}, Replicas: "spec.replicas",
		// Its status.observedGeneration is text, of no use to compare with.
		Status: counting("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
	}},
	"scaledobjects.keda.sh": {"v1alpha1": {Scales: "spec.scaleTargetRef"}},
	"services.serving.knative.dev": {"v1": {
		PodTemplates: []string{"spec.template"}, Status: fleetv1alpha1.PlacedKindStatusRules{ObservedGeneration: true},
	}},
	"flinkdeployments.flink.apache.org": {"v1beta1": {
		PodTemplates: []string{"spec.podTemplate", "spec.jobManager.podTemplate", "spec.taskManager.podTemplate"},
	}},
	"rayclusters.ray.io": {"v1": {
		PodTemplates: []string{"spec.headGroupSpec.template", "spec.workerGroupSpecs.*.template"},
		Status: fleetv1alpha1.PlacedKindStatusRules{ObservedGeneration: true,
			Counters: []string{"desiredWorkerReplicas", "minWorkerReplicas", "maxWorkerReplicas", "availableWorkerReplicas", "readyWorkerReplicas"}},
	}},
	"certificates.cert-manager.io": {"v1": {}},
}

func counting(names ...string) fleetv1alpha1.PlacedKindStatusRules {
	return fleetv1alpha1.PlacedKindStatusRules{Counters: names}
}

// Complete gives a declaration of a well-known kind what it leaves out.
func Complete(p *fleetv1alpha1.PlacedKind) {
	rules, ok := known[p.Name][p.Spec.Version]
	if !ok {
		return
	}
	s := &p.Spec
	if len(s.PodTemplates) == 0 {
		s.PodTemplates = append([]string(nil), rules.PodTemplates...)
	}
	if s.Replicas == "" {
		s.Replicas = rules.Replicas
	}
	if s.Scales == "" {
		s.Scales = rules.Scales
	}
	if s.Status.Source == fleetv1alpha1.StatusOfLogicalCluster {
		return
	}
	s.Status.ObservedGeneration = s.Status.ObservedGeneration || rules.Status.ObservedGeneration
	if len(s.Status.Counters) == 0 {
		s.Status.Counters = append([]string(nil), rules.Status.Counters...)
	}
}
