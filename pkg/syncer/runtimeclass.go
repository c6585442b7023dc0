package syncer

import (
	"slices"
	"strings"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// RuntimeHandler is the handler that the pods of an object need; empty if they do
// not say, or name a RuntimeClass that the logical cluster does not have.
func RuntimeHandler(logical metav1.Object) string {
	return logical.GetAnnotations()[placementv1alpha1.RuntimeHandlerAnnotation]
}

// NeedsRuntimeClass says that the pods of an object need a RuntimeClass.
func NeedsRuntimeClass(kind workload.Kind, logical *unstructured.Unstructured) bool {
	return RuntimeHandler(logical) != "" || len(runtimeClassNames(kind, logical)) > 0
}

// runtimeClassNames are those that the pods of an object name.
func runtimeClassNames(kind workload.Kind, logical *unstructured.Unstructured) []string {
	var names []string
	for _, t := range workload.PodTemplates(kind, logical.Object) {
		if name, _ := field(t, "spec")["runtimeClassName"].(string); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// RuntimeClass is one of a physical cluster.
type RuntimeClass struct{ Name, Handler string }

// RuntimeClasses are those of a physical cluster that pods may run with there, by name.
func RuntimeClasses(all []nodev1.RuntimeClass, permits boundary.Permits) []RuntimeClass {
	var permitted []RuntimeClass
	for i := range all {
		if c := &all[i]; c.Handler != "" && boundary.PermitsRuntimeClass(c, permits) {
			permitted = append(permitted, RuntimeClass{Name: c.Name, Handler: c.Handler})
		}
	}
	slices.SortFunc(permitted, func(a, b RuntimeClass) int { return strings.Compare(a.Name, b.Name) })
	return permitted
}

// runtimeClass is the class with which the pods of the object run below, if that is another name
// than theirs; lacking says what of the physical cluster they would need.
//
//	the pods name                permits         the physical cluster has, and permits   then
//	no class                     any             any                                     nothing
//	one with a handler           any             classes with it                         the first of these
//	one with a handler           any             none with it                            lacking
//	one that the logical         name classes    any                                     the name: the table has the last word
//	cluster does not have        name none       one of the name                         the name
//	                             name none       none of the name                        lacking
func (p planner) runtimeClass() (class, lacking string) {
	if handler := RuntimeHandler(p.Logical); handler != "" {
		at := slices.IndexFunc(p.RuntimeClasses, func(c RuntimeClass) bool { return c.Handler == handler })
		if at < 0 {
			return "", "RuntimeClass with the handler " + handler
		}
		return p.RuntimeClasses[at].Name, ""
	}
	if len(p.Permits.RuntimeClasses) > 0 {
		return "", ""
	}
	for _, name := range runtimeClassNames(p.Ref.Kind, p.Logical) {
		if !slices.ContainsFunc(p.RuntimeClasses, func(c RuntimeClass) bool { return c.Name == name }) {
			return "", "RuntimeClass " + name
		}
	}
	return "", ""
}
