package syncer

import (
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/override"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Placing says where and how an object shall be below.
type Placing struct {
	Ref Ref
	// ControlPlane marks the copy.
	ControlPlane string
	// Namespace is the physical namespace; for a Namespace, its physical name.
	Namespace string
	// Target is the entry of the targets annotation.
	Target placementv1alpha1.Target
	// RuntimeClass is the one below that has the handler of the one that the object
	// names; empty leaves the name.
	RuntimeClass string
	// Account is the one that the pods run as, nil if it is not known, and Server how
	// they reach the control plane.
	Account *Account
	Server  Server
	// Nameserver answers the pods with names of the logical cluster; without an address that
	// is left to the physical cluster.
	Nameserver Nameserver
	// PlainFields leaves what pods ask about themselves to the physical cluster, for a copy
	// that was made so and cannot be changed.
	PlainFields bool
	// Permits is what the physical cluster permits everybody beyond the default; what policies
	// permit besides is in Target.
	Permits boundary.Permits
	// Offered are the classes that the physical cluster has.
	Offered boundary.Classes
	// Bounds are those of the autoscaler of the copy, if they are divided; else nil.
	Bounds *Bounds
	// Start is what the copy has in place of the replicas that the object wants, because an
	// autoscaler had as many elsewhere; nil: nothing.
	Start *int32
	// OmitReplicas leaves spec.replicas to whoever scales the copy below.
	OmitReplicas bool
	// Stopped: none are wanted, and who scales the copy below does not change that.
	Stopped bool
}

// passage is that of the object to its physical cluster.
func (p Placing) passage() boundary.Passage {
	return boundary.Passage{
		Permits: override.Permits(p.Permits, p.Target.Overrides), Tenant: boundary.Tenant(p.ControlPlane, p.Ref.Cluster.String()), Offered: p.Offered,
	}
}

// Transform returns what is applied below for a logical object: a new object
// with our mark and the digest of itself, and without what belongs to the
// logical cluster, is made at run time, or must not leave it. The findings say what
// of it does not go down as it is; with a refusal among them nothing may be applied.
//
// What policies override for the target comes before all else: what follows, the table of
// what goes down above all, sees what the user might have written.
func Transform(logical *unstructured.Unstructured, p Placing) (*unstructured.Unstructured, []boundary.Finding) {
	written := logical
	logical, err := overridden(written, p)
	if err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}}, []boundary.Finding{refusedOverride(err)}
	}
	if p.Ref.Kind.Carries {
		return carriedBelow(logical, p), nil
	}
	content := deepCopy(stamp.Written(p.Ref.Kind, logical)).(map[string]any)
	obj := map[string]any{
		"apiVersion": p.Ref.Kind.GroupVersion().String(),
		"kind":       p.Ref.Kind.Kind,
	}
	for k, v := range content {
		switch k {
		case "apiVersion", "kind", "metadata", "status":
		default:
			obj[k] = v
		}
	}
	obj["metadata"] = metadataBelow(logical, p)
	setParts(obj, p)
	stripRuntimeFields(p.Ref.Kind, obj)
	notes := boundary.NotesOf(written.GetAnnotations())
	if len(p.Target.Overrides) > 0 {
		notes = notes.Overridden(written.Object, logical.Object)
	}
	findings := filterDown(obj, p, notes)
	if len(p.Target.Overrides) > 0 {
		noteOverridden(p.Ref.Kind, written.Object, logical.Object, obj)
	}
	permitNames(p.Ref.Kind, logical.Object, obj, p.Nameserver)
	for _, t := range workload.PodTemplates(p.Ref.Kind, obj) {
		templateDown(t, p)
	}
	labelDerived(p.Ref.Kind, obj, p.ControlPlane)
	noteStorageClasses(p.Ref.Kind, logical.Object, obj)
	mark(logical, obj, p)

	out := &unstructured.Unstructured{Object: obj}
	setNested(obj, digest(out), "metadata", "annotations", AppliedAnnotation)
	return out, findings
}

// filterDown takes off what must not leave the logical cluster, and notes in
// templates what that was.
func filterDown(obj map[string]any, p Placing, notes boundary.Notes) []boundary.Finding {
	var before []templateContent
	for _, t := range workload.PodTemplates(p.Ref.Kind, obj) {
		before = append(before, contentOf(t))
	}
	passage := p.passage()
	passage.Notes = notes
	findings := boundary.Filter(p.Ref.Kind, obj, passage)
	for i, t := range workload.PodTemplates(p.Ref.Kind, obj) {
		if !p.Ref.Kind.IsPod() {
			before[i].note(t)
		}
	}
	return findings
}

// metadataBelow builds the metadata from nothing: name, namespace, the user's
// labels and annotations. Owners, finalizers and what a server writes are of the
// logical cluster.
func metadataBelow(logical *unstructured.Unstructured, p Placing) map[string]any {
	labels, annotations := map[string]any{}, map[string]any{}
	for k, v := range logical.GetLabels() {
		if !placementv1alpha1.IsSystemKey(k) && k != "kubernetes.io/metadata.name" {
			labels[k] = v
		}
	}
	for k, v := range logical.GetAnnotations() {
		if !placementv1alpha1.IsSystemKey(k) && !placementv1alpha1.IsOrder(k) && !isControllerAnnotation(p.Ref.Kind, k) {
			annotations[k] = v
		}
	}
	for _, name := range generatedLabels(p.Ref.Kind, logical.Object) {
		delete(labels, name)
	}
	metadata := map[string]any{"name": p.Ref.Name, "labels": labels, "annotations": annotations}
	if p.Ref.IsNamespace() {
		metadata["name"] = p.Namespace
	} else {
		metadata["namespace"] = p.Namespace
	}
	return metadata
}

// mark puts on what is ours by which it, and a Namespace, is found below.
func mark(logical *unstructured.Unstructured, obj map[string]any, p Placing) {
	metadata := field(obj, "metadata")
	labels := field(metadata, "labels")
	markFor(p.ControlPlane, p.Ref, logical.GetUID()).put(p.Ref.Kind.GroupResource(), labels, field(metadata, "annotations"))
	if p.Target.Ordinals != nil {
		field(metadata, "annotations")[OrdinalsAnnotation] = strconv.FormatInt(p.Target.Ordinals.Revision, 10)
	}
	if p.Ref.IsNamespace() {
		for key, value := range p.passage().NamespaceLabels(p.Ref.Name, userKeys(logical.GetLabels())) {
			labels[key] = value
		}
		if logical.GetAnnotations()[placementv1alpha1.AdmitsPodsAnnotation] == "true" {
			labels[placementv1alpha1.AdmitsPodsLabel] = "true"
		}
	}
}

// isControllerAnnotation says that an annotation is the note of a controller or
// of a client on the object that it is on, wrong on any other.
//
// On a ReplicaSet that a user made, the revision is for the Deployment that will
// adopt it: it counts on from there.
func isControllerAnnotation(kind workload.Kind, key string) bool {
	switch key {
	case "kubectl.kubernetes.io/last-applied-configuration", // as large as the object, with the data of a Secret in the clear
		"deprecated.daemonset.template.generation",
		"control-plane.alpha.kubernetes.io/leader",
		"volume.kubernetes.io/selected-node",
		"volume.kubernetes.io/storage-provisioner",
		"volume.beta.kubernetes.io/storage-provisioner",
		"batch.kubernetes.io/job-tracking":
		return true
	}
	return strings.HasPrefix(key, "deployment.kubernetes.io/") && kind.Numbers.Empty() || strings.HasPrefix(key, "pv.kubernetes.io/")
}

// labelDerived puts the label that finds our objects on everything that the
// controllers below derive from kind, besides pods.
func labelDerived(kind workload.Kind, obj map[string]any, controlPlane string) {
	if derived := descend(obj, kind.ObjectTemplate); len(kind.ObjectTemplate) > 0 && derived != nil {
		setNested(derived, controlPlane, "metadata", "labels", placementv1alpha1.ManagedByLabel)
	}
	if len(kind.VolumeClaims) == 0 {
		return
	}
	// The claims of a StatefulSet cannot be changed: this is right from the first
	// apply or never.
	for _, claim := range workload.VolumeClaims(kind, obj) {
		setNested(claim, controlPlane, "metadata", "labels", placementv1alpha1.ManagedByLabel)
	}
}

// field is the map in a field, nil if there is none.
func field(m map[string]any, name string) map[string]any {
	f, _ := m[name].(map[string]any)
	return f
}

// list are the maps in the list of a field.
func list(m map[string]any, name string) []map[string]any {
	items, _ := m[name].([]any)
	maps := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if e, ok := item.(map[string]any); ok {
			maps = append(maps, e)
		}
	}
	return maps
}

// setNested sets a field, with maps on the way made where there is none.
func setNested(m map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		next, ok := m[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[name] = next
		}
		m = next
	}
	m[path[len(path)-1]] = value
}

// deepCopy copies JSON values; unlike runtime.DeepCopyJSON it does not panic for
// the plain ints of hand-made objects.
func deepCopy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = deepCopy(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = deepCopy(e)
		}
		return out
	case map[string]string:
		out := make(map[string]any, len(v))
		for k, e := range maps.All(v) {
			out[k] = e
		}
		return out
	case int:
		return int64(v)
	case int32:
		return int64(v)
	}
	return value
}
