package logicalclusters

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// maxReported bounds the kinds and finalizers that a condition names.
const maxReported = 10

// resource is a resource whose objects must go.
type resource struct {
	schema.GroupVersionResource
	// collection says that all objects can be deleted with one request.
	collection bool
	// record says that another controller deletes the objects: they tell what
	// is left on physical clusters.
	record bool
}

// deletable are the resources of lists whose objects can be listed and deleted,
// without namespaces, which are a step of their own.
func deletable(lists []*metav1.APIResourceList) []resource {
	var out []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			gvr := gv.WithResource(r.Name)
			if gvr.GroupResource() == namespaces.GroupResource() {
				continue
			}
			out = append(out, resource{
				GroupVersionResource: gvr,
				collection:           !r.Namespaced && slices.Contains(r.Verbs, "deletecollection"),
				record:               gv.Group == placementv1alpha1.GroupName && (r.Name == "copies" || r.Name == "placements"),
			})
		}
	}
	return out
}

// remains counts what is left in a logical cluster.
type remains struct {
	objects    map[string]int
	finalizers map[string]int
}

func newRemains() remains {
	return remains{objects: map[string]int{}, finalizers: map[string]int{}}
}

// add counts one object.
func (r remains) add(gr schema.GroupResource, obj metav1.Object) {
	r.objects[gr.String()]++
	for _, f := range obj.GetFinalizers() {
		r.finalizers[f]++
	}
}

func (r remains) empty() bool { return len(r.objects) == 0 }

// String is a sentence for people, the most frequent first; empty for nothing.
func (r remains) String() string {
	if r.empty() {
		return ""
	}
	s := "Left: " + enumerate(r.objects)
	if len(r.finalizers) > 0 {
		s += ". Held by finalizers: " + enumerate(r.finalizers)
	}
	return s + "."
}

func enumerate(counts map[string]int) string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	more := ""
	if n := len(names) - maxReported; n > 0 {
		names, more = names[:maxReported], fmt.Sprintf(" and %d more", n)
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, counts[name])
	}
	return strings.Join(names, ", ") + more
}
