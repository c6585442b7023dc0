package syncer

import (
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// accountAnnotation, on a pod template below that asks for it, has the name of the
// account, which spec.serviceAccountName there is not.
const accountAnnotation = "atoll.dev/account"

// downward are the fields by which a pod learns of itself, and the annotation that says
// below what the field would say in the logical cluster. A reference to an annotation is
// good wherever one to a field is: in the environment and in volumes.
//
// The UID of a pod that a controller below makes is the one that its mirror has, so that
// only the pods of users need another.
var downward = []struct {
	field, annotation string
	onlyPods          bool
}{
	{field: "metadata.namespace", annotation: placementv1alpha1.NamespaceAnnotation},
	{field: "spec.serviceAccountName", annotation: accountAnnotation},
	{field: "metadata.uid", annotation: placementv1alpha1.UIDAnnotation, onlyPods: true},
}

func annotationPath(key string) string { return "metadata.annotations['" + key + "']" }

// downwardDown has the references of a template lead to what is true in the logical
// cluster. What a Pod is asked for is on it already, as its mark.
func downwardDown(template map[string]any, kind workload.Kind, namespace string) {
	spec := field(template, "spec")
	for _, ref := range fieldRefs(spec) {
		for _, d := range downward {
			if ref["fieldPath"] != d.field || d.onlyPods && !kind.IsPod() {
				continue
			}
			ref["fieldPath"] = annotationPath(d.annotation)
			switch d.annotation {
			case placementv1alpha1.NamespaceAnnotation:
				setNested(template, namespace, "metadata", "annotations", d.annotation)
			case accountAnnotation:
				setNested(template, workload.AccountOf(spec), "metadata", "annotations", d.annotation)
			}
		}
	}
}

// asksBelow says that the pods of a copy ask the physical cluster about themselves, as
// those do that were made before downwardDown was.
func asksBelow(kind workload.Kind, physical map[string]any) bool {
	for _, t := range workload.PodTemplates(kind, physical) {
		for _, ref := range fieldRefs(field(t, "spec")) {
			for _, d := range downward {
				if ref["fieldPath"] == d.field && (!d.onlyPods || kind.IsPod()) {
					return true
				}
			}
		}
	}
	return false
}

// downwardUp undoes downwardDown.
func downwardUp(spec map[string]any) {
	for _, ref := range fieldRefs(spec) {
		for _, d := range downward {
			if ref["fieldPath"] == annotationPath(d.annotation) {
				ref["fieldPath"] = d.field
			}
		}
	}
}

// fieldRefs are all references of a pod to its own fields.
func fieldRefs(spec map[string]any) []map[string]any {
	var refs []map[string]any
	add := func(holders []map[string]any, path ...string) {
		for _, holder := range holders {
			if ref := descend(holder, path); ref != nil {
				refs = append(refs, ref)
			}
		}
	}
	for _, container := range containersOf(spec) {
		add(list(container, "env"), "valueFrom", "fieldRef")
	}
	for _, volume := range list(spec, "volumes") {
		add(list(field(volume, "downwardAPI"), "items"), "fieldRef")
		for _, source := range list(field(volume, "projected"), "sources") {
			add(list(field(source, "downwardAPI"), "items"), "fieldRef")
		}
	}
	return refs
}

// containersOf are the containers of a pod, of all sorts.
func containersOf(spec map[string]any) []map[string]any {
	var all []map[string]any
	for _, name := range []string{"initContainers", "containers", "ephemeralContainers"} {
		all = append(all, list(spec, name)...)
	}
	return all
}
