package namespaces

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sight is what is known of what other servers keep in a namespace.
type sight struct {
	// others says that there are such servers, and that they count: nothing holds a
	// logical cluster that goes.
	others bool
	// pods is how many pods are in the namespace.
	pods int
	// unknown is about servers of which it is not known what they keep.
	unknown error
	// swept says that the others were just asked to delete what they keep; left and
	// failed are what came of it.
	swept  bool
	left   map[schema.GroupVersionResource][]metav1.PartialObjectMetadata
	failed map[schema.GroupVersionResource]error
}

// plan is what the next pass over a namespace does.
type plan struct {
	// wait says that there is none.
	wait bool
	// pods says that it is about pods only.
	pods bool
	// finalize says that it may let the namespace go, if it finds nothing.
	finalize bool
	// held is why other servers hold the namespace; empty if they do not.
	held string
}

// plan decides, as upstream would if it did not have to wait for anybody:
//
//	others  pods  swept                unknown  pass        may finalize
//	no      any   any                  any      everything  yes
//	yes     some  any                  any      pods        no
//	yes     none  no                   any      none        no
//	yes     none  with what is left    any      everything  no
//	yes     none  nothing is left      some     everything  no
//	yes     none  nothing is left      none     everything  yes
func (s sight) plan() plan {
	switch {
	case !s.others:
		return plan{finalize: true}
	case s.pods > 0:
		return plan{pods: true}
	case !s.swept:
		return plan{wait: true}
	}
	held := s.holds()
	return plan{finalize: held == "", held: held}
}

func (s sight) holds() string {
	var out []string
	if s.unknown != nil {
		out = append(out, s.unknown.Error())
	}
	for _, gvr := range slices.SortedFunc(maps.Keys(s.failed), byName) {
		out = append(out, s.failed[gvr].Error())
	}
	for _, gvr := range slices.SortedFunc(maps.Keys(s.left), byName) {
		finalizers := map[string]int{}
		for _, item := range s.left[gvr] {
			for _, f := range item.Finalizers {
				finalizers[f]++
			}
		}
		out = append(out, fmt.Sprintf("%d %s %v", len(s.left[gvr]), gvr.GroupResource(), finalizers))
	}
	return strings.Join(out, "; ")
}

// lists are the resources that there is something to tell of.
func (s sight) lists() []*metav1.APIResourceList {
	var out []*metav1.APIResourceList
	add := func(gvr schema.GroupVersionResource) {
		out = append(out, &metav1.APIResourceList{GroupVersion: gvr.GroupVersion().String(), APIResources: []metav1.APIResource{
			{Name: gvr.Resource, Namespaced: true, Verbs: metav1.Verbs{"list", "delete", "deletecollection"}},
		}})
	}
	for gvr := range s.failed {
		add(gvr)
	}
	for gvr := range s.left {
		if s.failed[gvr] == nil {
			add(gvr)
		}
	}
	return out
}

// only leaves one resource of lists.
func only(gvr schema.GroupVersionResource, lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	for _, list := range lists {
		for _, r := range list.APIResources {
			if list.GroupVersion == gvr.GroupVersion().String() && r.Name == gvr.Resource {
				return []*metav1.APIResourceList{{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion, APIResources: []metav1.APIResource{r}}}
			}
		}
	}
	return nil
}

// byName orders resources.
func byName(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) }
