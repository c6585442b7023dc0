package namespaces

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// hidden are the records of placement.
var hidden = []string{"copies", "placements"}

func isRecord(gr schema.GroupResource) bool {
	return gr.Group == placementv1alpha1.GroupName && slices.Contains(hidden, gr.Resource)
}

// content leaves of lists what the deleter of namespaces may see: namespaced
// resources that can be deleted, no subresources, no records of placement.
func content(lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	var out []*metav1.APIResourceList
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		kept := &metav1.APIResourceList{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion}
		for _, r := range list.APIResources {
			switch {
			case !r.Namespaced, strings.Contains(r.Name, "/"), !slices.Contains(r.Verbs, "delete"):
			case isRecord(gv.WithResource(r.Name).GroupResource()):
			default:
				kept.APIResources = append(kept.APIResources, r)
			}
		}
		if len(kept.APIResources) > 0 {
			out = append(out, kept)
		}
	}
	return out
}

// workloads are the resources of lists whose objects make pods, in the order of
// the catalog.
func workloads(kinds workload.Catalog, lists []*metav1.APIResourceList) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, kind := range kinds.Kinds() {
		if len(kind.PodTemplate) == 0 { // makes no pods, or is one
			continue
		}
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil || gv.Group != kind.Group {
				continue
			}
			if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
				return r.Name == kind.Resource && slices.Contains(r.Verbs, "deletecollection")
			}) {
				out = append(out, gv.WithResource(kind.Resource))
				break
			}
		}
	}
	return out
}

// gvrs are the resources of lists.
func gvrs(lists []*metav1.APIResourceList) map[schema.GroupVersionResource]bool {
	out := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			out[gv.WithResource(r.Name)] = true
		}
	}
	return out
}
