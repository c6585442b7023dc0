package workload

import "k8s.io/apimachinery/pkg/runtime/schema"

// Role says what a kind is to a placement.
type Role string

const (
	// Placed: an object of the kind makes its namespace placed and goes to the
	// targets of the placement.
	Placed Role = "Placed"
	// Referenced: an object goes only where something that is placed refers to
	// it (ConfigMap, Secret).
	Referenced Role = "Referenced"
	// Ruling: an object goes where its namespace goes, and before what it rules:
	// controllers of a physical cluster make pods there, which its own admission has
	// to refuse or complete (ResourceQuota, LimitRange). See Rules.
	Ruling Role = "Ruling"
	// Container: the Namespace; it goes where anything in it goes.
	Container Role = "Container"
)

// Kind is one kind that may have copies.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural name.
	Resource string
	Role     Role
	// PodTemplate is the path of the pod template (the map with metadata and
	// spec); empty if there is none, and for a Pod the object itself.
	PodTemplate []string
	// Replicas is true if spec.replicas counts pods.
	Replicas bool
	// Observed is true if objects of the kind also are mirrored from below, made by
	// the controllers of a physical cluster (ReplicaSet, Pod, Job).
	Observed bool
}

// GroupVersionResource of the kind.
func (k Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// GroupResource of the kind.
func (k Kind) GroupResource() schema.GroupResource { return k.GroupVersionResource().GroupResource() }

var template = []string{"spec", "template"}

// kinds is ordered: what others need to start comes first.
var kinds = []Kind{
	{GroupVersionKind: gvk("", "v1", "Namespace"), Resource: "namespaces", Role: Container},
	{GroupVersionKind: gvk("", "v1", "LimitRange"), Resource: "limitranges", Role: Ruling},
	{GroupVersionKind: gvk("", "v1", "ResourceQuota"), Resource: "resourcequotas", Role: Ruling},
	{GroupVersionKind: gvk("", "v1", "Secret"), Resource: "secrets", Role: Referenced},
	{GroupVersionKind: gvk("", "v1", "ConfigMap"), Resource: "configmaps", Role: Referenced},
	{GroupVersionKind: gvk("", "v1", "PersistentVolumeClaim"), Resource: "persistentvolumeclaims", Role: Placed, Observed: true},
	{GroupVersionKind: gvk("", "v1", "Service"), Resource: "services", Role: Placed},
	{GroupVersionKind: gvk("apps", "v1", "Deployment"), Resource: "deployments", Role: Placed, PodTemplate: template, Replicas: true},
	{GroupVersionKind: gvk("apps", "v1", "StatefulSet"), Resource: "statefulsets", Role: Placed, PodTemplate: template, Replicas: true},
	{GroupVersionKind: gvk("apps", "v1", "DaemonSet"), Resource: "daemonsets", Role: Placed, PodTemplate: template},
	{GroupVersionKind: gvk("apps", "v1", "ReplicaSet"), Resource: "replicasets", Role: Placed, PodTemplate: template, Replicas: true, Observed: true},
	{GroupVersionKind: gvk("", "v1", "ReplicationController"), Resource: "replicationcontrollers", Role: Placed, PodTemplate: template, Replicas: true},
	{GroupVersionKind: gvk("batch", "v1", "Job"), Resource: "jobs", Role: Placed, PodTemplate: template, Observed: true},
	{GroupVersionKind: gvk("batch", "v1", "CronJob"), Resource: "cronjobs", Role: Placed, PodTemplate: []string{"spec", "jobTemplate", "spec", "template"}},
	{GroupVersionKind: gvk("", "v1", "Pod"), Resource: "pods", Role: Placed, PodTemplate: []string{}, Observed: true},
	{GroupVersionKind: gvk("networking.k8s.io", "v1", "Ingress"), Resource: "ingresses", Role: Placed},
	{GroupVersionKind: gvk("networking.k8s.io", "v1", "NetworkPolicy"), Resource: "networkpolicies", Role: Placed},
	{GroupVersionKind: gvk("policy", "v1", "PodDisruptionBudget"), Resource: "poddisruptionbudgets", Role: Placed},
	{GroupVersionKind: gvk("autoscaling", "v2", "HorizontalPodAutoscaler"), Resource: "horizontalpodautoscalers", Role: Placed},
}

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// Kinds returns all kinds, dependencies first. The caller must not change them.
func Kinds() []Kind { return kinds }

// ByResource finds the kind of a resource, in any version.
func ByResource(gr schema.GroupResource) (Kind, bool) {
	for _, k := range kinds {
		if k.Group == gr.Group && k.Resource == gr.Resource {
			return k, true
		}
	}
	return Kind{}, false
}

// ByKind finds the kind of a group and kind, in any version.
func ByKind(gk schema.GroupKind) (Kind, bool) {
	for _, k := range kinds {
		if k.GroupKind() == gk {
			return k, true
		}
	}
	return Kind{}, false
}
