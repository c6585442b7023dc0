package boundary

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// runtimeClass: a class of the logical cluster means its handler, for which the syncer takes a
// class that PermitsRuntimeClass. Any other name is one of the physical cluster: without
// permits that name classes, what comes with it is judged by who can see it, the syncer.
func runtimeClass(f *filter, m member, value any, _ map[string]any, at *field.Path) (any, bool) {
	handler := f.Notes.Handler
	switch {
	case handler == "" && len(f.Permits.RuntimeClasses) > 0 && !f.Permits.NamesRuntimeClass(str(value)):
		f.find(at, Refused, "names a RuntimeClass that the physical cluster does not permit")
		return nil, false
	case handler != "" && f.Handlers != nil && !slices.Contains(f.Handlers.Names, handler):
		f.find(at, m.verdict, "the physical cluster has no RuntimeClass with the handler "+handler+" that pods may run with; nothing goes down until it has")
	}
	return value, true
}

// PermitsRuntimeClass says that pods may run with a RuntimeClass of the physical cluster. Its
// admission merges the tolerations and the node selector of the class into each of them.
//
//	permits             the class                                            pods may run with it
//	name classes, or *  is one of them                                       yes
//	name classes        is none of them                                      no
//	name none           gives pods what Filter leaves to them, or nothing    yes
//	name none           gives them more                                      no
func PermitsRuntimeClass(class *nodev1.RuntimeClass, permits Permits) bool {
	switch {
	case len(permits.RuntimeClasses) > 0:
		return permits.NamesRuntimeClass(class.Name)
	case class.Scheduling == nil:
		return true
	}
	gives, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Tolerations: class.Scheduling.Tolerations, NodeSelector: class.Scheduling.NodeSelector,
	}})
	if err != nil {
		return false
	}
	f := &filter{Passage: Passage{Permits: permits}}
	f.structure(podTemplate, gives, nil)
	return len(f.findings) == 0
}
