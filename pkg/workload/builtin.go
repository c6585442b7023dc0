package workload

import "k8s.io/apimachinery/pkg/runtime/schema"

// Builtin returns the catalog of the kinds of Kubernetes itself. Only who composes a
// program calls it, and passes it on.
func Builtin() Catalog {
	c, err := New(builtin()...)
	if err != nil {
		panic(err) // a test has shown that it is none
	}
	return c
}

// builtin is in order: what others need to start comes first.
func builtin() []Kind {
	return append(append(surroundings(), controllers()...), others()...)
}

var template = []string{"spec", "template"}

// surroundings are what pods need around them.
func surroundings() []Kind {
	return []Kind{
		{
			GroupVersionKind: gvk("", "v1", "Namespace"), Resource: "namespaces", Role: Container,
			RuntimeFields: [][]string{{"spec"}}, // finalizers
			Status:        Status{None: true},
		},
		{GroupVersionKind: gvk("", "v1", "LimitRange"), Resource: "limitranges", Role: Ruling, Status: Status{None: true}},
		{
			GroupVersionKind: gvk("", "v1", "ResourceQuota"), Resource: "resourcequotas", Role: Ruling, InSum: true,
			Status: Status{None: true}, Semantics: QuotaSemantics,
		},
		{
			GroupVersionKind: gvk("", "v1", "Secret"), Resource: "secrets", Role: Referenced, Staged: true, Confidential: true,
			Status: Status{None: true}, Semantics: SecretSemantics,
		},
		{GroupVersionKind: gvk("", "v1", "ConfigMap"), Resource: "configmaps", Role: Referenced, Staged: true, Status: Status{None: true}},
		{
			GroupVersionKind: gvk("", "v1", "PersistentVolumeClaim"), Resource: "persistentvolumeclaims", Role: Placed, Observed: true,
			VolumeClaims: []string{},
			Status:       Status{Phases: []string{"Lost", "Pending", "Bound"}},
		},
		{GroupVersionKind: gvk("", "v1", "Service"), Resource: "services", Role: Placed, Semantics: ServiceSemantics,
			Selects: []string{"spec", "selector"}, LabelsSelector: true},
	}
}

// controllers make pods.
func controllers() []Kind {
	pods, sets := schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	replicas := []string{"spec", "replicas"}
	return []Kind{
		{
			GroupVersionKind: gvk("apps", "v1", "Deployment"), Resource: "deployments", Role: Placed,
			Staged: true, PodTemplate: template, Replicas: replicas, Alike: true, Adopts: []schema.GroupKind{sets},
			Status: Status{
				Generation: true, Rising: []string{"collisionCount"},
				Counters: []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas"},
			},
		},
		{
			GroupVersionKind: gvk("apps", "v1", "StatefulSet"), Resource: "statefulsets", Role: Placed,
			Staged: true, PodTemplate: template, Replicas: replicas, Adopts: []schema.GroupKind{pods}, VolumeClaims: []string{"spec", "volumeClaimTemplates"},
			Status: Status{
				Generation: true, Rising: []string{"collisionCount"}, Required: []string{"replicas", "availableReplicas"},
				Counters: []string{"replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"},
			},
			Semantics: StatefulSetSemantics,
		},
		{
			GroupVersionKind: gvk("apps", "v1", "DaemonSet"), Resource: "daemonsets", Role: Placed,
			Staged: true, PodTemplate: template, Adopts: []schema.GroupKind{pods},
			Status: Status{
				Generation: true, Rising: []string{"collisionCount"},
				Required: []string{"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"},
				Counters: []string{"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
					"updatedNumberScheduled", "numberAvailable", "numberUnavailable"},
			},
		},
		{
			GroupVersionKind: gvk("apps", "v1", "ReplicaSet"), Resource: "replicasets", Role: Placed, Observed: true,
			PodTemplate: template, Replicas: replicas, Alike: true, Adopts: []schema.GroupKind{pods}, Numbers: schema.GroupKind{Group: "apps", Kind: "Deployment"},
			Status: Status{
				Generation: true, Required: []string{"replicas"},
				Counters: []string{"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas"},
			},
		},
		{
			GroupVersionKind: gvk("", "v1", "ReplicationController"), Resource: "replicationcontrollers", Role: Placed,
			PodTemplate: template, Replicas: replicas, Alike: true, Adopts: []schema.GroupKind{pods}, LabelsSelector: true,
			Status: Status{
				Generation: true, Required: []string{"replicas"},
				Counters: []string{"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"},
			},
		},
		{
			GroupVersionKind: gvk("batch", "v1", "Job"), Resource: "jobs", Role: Placed, Observed: true,
			PodTemplate: template, Parallelism: []string{"spec", "parallelism"}, Adopts: []schema.GroupKind{pods},
			Recreate: true, Finished: Finished{Conditions: []string{"Complete", "Failed"}}, TTL: []string{"spec", "ttlSecondsAfterFinished"},
			Status:    Status{Counters: []string{"active", "ready", "succeeded", "failed", "terminating"}},
			Semantics: JobSemantics,
		},
		{
			GroupVersionKind: gvk("batch", "v1", "CronJob"), Resource: "cronjobs", Role: Placed,
			PodTemplate:    []string{"spec", "jobTemplate", "spec", "template"},
			ObjectTemplate: []string{"spec", "jobTemplate"},
			Parallelism:    []string{"spec", "jobTemplate", "spec", "parallelism"},
			Status:         Status{Latest: []string{"lastScheduleTime", "lastSuccessfulTime"}},
			Semantics:      CronJobSemantics,
		},
		{
			GroupVersionKind: gvk("", "v1", "Pod"), Resource: "pods", Role: Placed, Observed: true,
			PodTemplate: []string{}, Recreate: true, Finished: Finished{Phases: []string{"Succeeded", "Failed"}},
			RuntimeFields: [][]string{{"spec", "nodeName"}, {"spec", "priority"}, {"spec", "ephemeralContainers"}},
			Status:        Status{Phases: []string{"Failed", "Unknown", "Pending", "Running", "Succeeded"}, Kept: []string{"qosClass"}},
			Semantics:     PodSemantics,
		},
	}
}

// others are about pods of others, and what is mirrored only.
func others() []Kind {
	return []Kind{
		{
			GroupVersionKind: gvk("networking.k8s.io", "v1", "Ingress"), Resource: "ingresses", Role: Placed,
			References: ingressReferences, Leads: ingressBackends, Semantics: IngressSemantics,
		},
		{GroupVersionKind: gvk("networking.k8s.io", "v1", "NetworkPolicy"), Resource: "networkpolicies", Role: Placed,
			Selects: []string{"spec", "podSelector"}, Status: Status{None: true}},
		{
			GroupVersionKind: gvk("policy", "v1", "PodDisruptionBudget"), Resource: "poddisruptionbudgets", Role: Placed,
			Selects: []string{"spec", "selector"},
			Status: Status{
				Generation: true,
				Counters:   []string{"disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"},
				Required:   []string{"disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"},
			},
			Semantics: DisruptionBudgetSemantics,
		},
		{
			GroupVersionKind: gvk("autoscaling", "v2", "HorizontalPodAutoscaler"), Resource: "horizontalpodautoscalers", Role: Placed,
			Scales: []string{"spec", "scaleTargetRef"},
			Status: Status{
				Counters: []string{"currentReplicas", "desiredReplicas"}, Required: []string{"desiredReplicas", "currentReplicas"},
				Latest: []string{"lastScaleTime"},
			},
			Semantics: AutoscalerSemantics,
		},
		{
			GroupVersionKind: gvk("fleet.atoll.dev", "v1alpha1", "Manifest"), Resource: "manifests", Role: Placed,
			Carries: true, Staged: true, Confidential: true,
		},
		{
			// The history of StatefulSets and DaemonSets, each with a pod template.
			GroupVersionKind: gvk("apps", "v1", "ControllerRevision"), Resource: "controllerrevisions", Role: Mirrored, Observed: true,
			PodTemplate: []string{"data", "spec", "template"}, Status: Status{None: true},
		},
		{
			GroupVersionKind: gvk("discovery.k8s.io", "v1", "EndpointSlice"), Resource: "endpointslices", Role: Mirrored, Observed: true,
			Status: Status{None: true}, Semantics: EndpointSliceSemantics,
		},
	}
}

// ingressReferences are the certificates of an Ingress, and what the widely used
// ingress controller takes from Secrets and ConfigMaps by annotation.
var ingressReferences = []ReferencePath{
	{Resource: Secrets, Path: []string{"spec", "tls", "*", "secretName"}},
	{Resource: Secrets, Annotation: "nginx.ingress.kubernetes.io/auth-secret"},
	{Resource: Secrets, Annotation: "nginx.ingress.kubernetes.io/auth-tls-secret"},
	{Resource: Secrets, Annotation: "nginx.ingress.kubernetes.io/proxy-ssl-secret"},
	{Resource: ConfigMaps, Annotation: "nginx.ingress.kubernetes.io/auth-proxy-set-headers"},
	{Resource: ConfigMaps, Annotation: "nginx.ingress.kubernetes.io/custom-headers"},
}

var servicesResource = schema.GroupResource{Resource: "services"}

// ingressBackends are the Services of an Ingress.
var ingressBackends = []ReferencePath{
	{Resource: servicesResource, Path: []string{"spec", "defaultBackend", "service", "name"}},
	{Resource: servicesResource, Path: []string{"spec", "rules", "*", "http", "paths", "*", "backend", "service", "name"}},
}

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}
