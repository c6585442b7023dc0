package workload

import "k8s.io/apimachinery/pkg/runtime/schema"

// Role says what a kind is to a placement.
type Role string

// The roles, in the order in which their objects are made below; they are removed
// the other way round.
const (
	// Container: the Namespace; it goes where anything in it goes.
	Container Role = "Container"
	// Ruling: an object goes where its namespace goes, and before what it rules:
	// controllers of a physical cluster make pods there, which its own admission has
	// to refuse or complete (ResourceQuota, LimitRange). See Rules.
	Ruling Role = "Ruling"
	// Referenced: an object goes only where something that is placed refers to
	// it (ConfigMap, Secret).
	Referenced Role = "Referenced"
	// Placed: an object of the kind makes its namespace placed and goes to the
	// targets of the placement.
	Placed Role = "Placed"
	// Mirrored: objects are made by the controllers of a physical cluster only, and
	// are mirrored; nothing goes down.
	Mirrored Role = "Mirrored"
)

// roles are in order.
var roles = []Role{Container, Ruling, Referenced, Placed, Mirrored}

// Kind is one kind that may have copies, or of which objects are mirrored, and what
// is particular about it. All that can be said with fields is said with fields, so
// that a kind may come from elsewhere than this package; the rest has a name, see
// Semantics.
//
// Paths name the fields on the way, from the object on. Where it says so, "*" is
// each item of a list.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural name.
	Resource string
	Role     Role
	// Observed is true if objects of the kind are mirrored from below, made by the
	// controllers of a physical cluster (ReplicaSet, Pod, Job).
	Observed bool
	// Declared says that the kind is not one of Kubernetes: logical clusters define it, and
	// an admin has declared that objects of it are placed in some of them.
	Declared bool
	// Carries says that each object has another one in spec.object, of any kind, which is what its
	// copies are: a Manifest. Only those in root have copies.
	Carries bool

	// PodTemplate is the path of the pod template (the map with metadata and
	// spec); nil if there is none, and empty for a Pod, the object itself.
	PodTemplate []string
	// PodTemplates are the paths of further pod templates, in which "*" is each item of a
	// list.
	PodTemplates [][]string
	// ObjectTemplate is the path of the template of other objects that the
	// controller makes: the Jobs of a CronJob.
	ObjectTemplate []string
	// Replicas is the path of the number of pods, which a placement may divide and
	// an autoscaler may set; nil if there is none.
	Replicas []string
	// Alike says that any replica is as good as another, and needs no other: they may be
	// divided over physical clusters that do not know of each other.
	Alike bool
	// Parallelism is the path of the number of pods at a time of a kind without
	// Replicas; nil: one.
	Parallelism []string
	// VolumeClaims is the path of the list of templates of volume claims; empty for
	// a claim, the object itself.
	VolumeClaims []string
	// References are the objects that one refers to beside those of its pod
	// template.
	References []ReferencePath
	// Scales is the path of the reference to what an autoscaler scales.
	Scales []string

	// RuntimeFields are the paths of what the API server and the controllers of the
	// logical cluster wrote: below, others decide it.
	RuntimeFields [][]string
	// Recreate says that a copy whose fields cannot be changed is made again; of
	// other kinds it waits for a person.
	Recreate bool
	// Finished says when an object has run to its end: one that is tidied away
	// below is not started again.
	Finished Finished
	// TTL is the path of the seconds after which a finished object wants to be
	// removed.
	TTL []string
	// Confidential says that the values of objects are not repeated in messages.
	Confidential bool
	// InSum says of a ruling kind that it limits the sum of what there is. Each
	// physical cluster knows its own part, and has to count before it limits.
	InSum bool

	// Adopts are the kinds of which the controller below takes over objects that
	// nobody controls and that its selector, in spec.selector, matches.
	Adopts []schema.GroupKind
	// LabelsSelector says that spec.selector is a map of labels, no LabelSelector.
	LabelsSelector bool
	// Selects is the path of the selector of the pods that an object is about, which no
	// controller makes for it; nil if there is none.
	Selects []string
	// Leads are the objects that lead to pods, and to which one leads: the Services of an
	// Ingress.
	Leads []ReferencePath
	// Numbers is the kind whose objects show the highest revision of those of this
	// kind that they own: the Deployment, of ReplicaSets.
	Numbers schema.GroupKind

	// Staged: changes of its content can reach some physical clusters before others.
	Staged bool

	// Status says how the status of an object follows from those of its copies.
	Status Status
	// Semantics names what fields cannot say.
	Semantics Semantics
}

// ReferencePath finds names of objects of a resource.
type ReferencePath struct {
	Resource schema.GroupResource
	// Path of the name, with "*" for items of lists.
	Path []string
	// Annotation has the name, or namespace/name, instead.
	Annotation string
}

// Finished says which objects have run to their end.
type Finished struct {
	// Conditions: one of these types is True.
	Conditions []string
	// Phases: status.phase is one of these.
	Phases []string
}

// Status says how the status of an object follows from those of its copies. What
// nothing is said of is merged as of any kind: the worst of each condition.
type Status struct {
	// None: copies have no say; there is no status, or the server writes it.
	None bool
	// Generation: controllers write status.observedGeneration; until they do they
	// have not looked.
	Generation bool
	// Counters are summed.
	Counters []string
	// Required are the counters that a status always shows.
	Required []string
	// Rising are counters of which the server refuses that they fall.
	Rising []string
	// Latest are times, of which the latest counts.
	Latest []string
	// Rule is a CEL expression for what is not simply merged, see statusrule.
	Rule string
	// Kept are the fields that the server of the logical cluster sets itself.
	Kept []string
	// Phases are the values of status.phase, the least advanced first: the status is
	// that of the least advanced target as a whole.
	Phases []string
}

// Semantics names what cannot be said of a kind with the fields of Kind. pkg/syncer
// has the functions for each name.
type Semantics string

// The semantics that there are. Several kinds may have the same.
const (
	PodSemantics              Semantics = "Pod"
	JobSemantics              Semantics = "Job"
	CronJobSemantics          Semantics = "CronJob"
	StatefulSetSemantics      Semantics = "StatefulSet"
	ServiceSemantics          Semantics = "Service"
	IngressSemantics          Semantics = "Ingress"
	SecretSemantics           Semantics = "Secret"
	QuotaSemantics            Semantics = "ResourceQuota"
	DisruptionBudgetSemantics Semantics = "PodDisruptionBudget"
	AutoscalerSemantics       Semantics = "HorizontalPodAutoscaler"
	EndpointSliceSemantics    Semantics = "EndpointSlice"
)

// AllSemantics are the names that a Kind may have.
func AllSemantics() []Semantics {
	return []Semantics{
		PodSemantics, JobSemantics, CronJobSemantics, StatefulSetSemantics, ServiceSemantics, IngressSemantics,
		SecretSemantics, QuotaSemantics, DisruptionBudgetSemantics, AutoscalerSemantics, EndpointSliceSemantics,
	}
}

// GroupVersionResource of the kind.
func (k Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// GroupResource of the kind.
func (k Kind) GroupResource() schema.GroupResource { return k.GroupVersionResource().GroupResource() }

// API is how the list of served APIs of a physical cluster names the kind:
// <group>/<version>/<resource>.
func (k Kind) API() string { return k.Group + "/" + k.Version + "/" + k.Resource }

// APIs are those that a physical cluster has to serve for objects of the kind. What is carried may be
// of a kind that another object brings along.
func (k Kind) APIs() []string {
	if k.Carries {
		return nil
	}
	return []string{k.API()}
}

// Copied says that objects of the kind may have copies.
func (k Kind) Copied() bool { return k.Role != "" && k.Role != Mirrored }

// IsPod says that objects are pods. There is no other kind like it: a pod is its own
// template, is bound to a node and evicted from it, takes its time to end, and cannot
// be changed by an update.
func (k Kind) IsPod() bool { return k.PodTemplate != nil && len(k.PodTemplate) == 0 }

// DeletedBelow says that the deletion of an object that was mirrored is carried out
// below before it goes above, for which it needs our finalizer. A pod needs none:
// with a node, it waits to be stopped. What controllers below make again at once
// needs none either.
func (k Kind) DeletedBelow() bool { return k.Observed && k.Copied() && !k.IsPod() }

// Refers says that objects of the kind may refer to others.
func (k Kind) Refers() bool { return k.PodTemplate != nil || len(k.References) > 0 }
