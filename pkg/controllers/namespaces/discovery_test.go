package namespaces

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/workload"
)

func discovered() []*metav1.APIResourceList {
	all := metav1.Verbs{"list", "delete", "deletecollection"}
	return []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", Verbs: metav1.Verbs{"delete"}},
			{Name: "pods", Namespaced: true, Verbs: all},
			{Name: "pods/log", Namespaced: true, Verbs: metav1.Verbs{"get", "delete"}},
			{Name: "bindings", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "controllerrevisions", Namespaced: true, Verbs: all},
			{Name: "statefulsets", Namespaced: true, Verbs: all},
			{Name: "deployments", Namespaced: true, Verbs: all},
		}},
		{GroupVersion: "placement.atoll.dev/v1alpha1", APIResources: []metav1.APIResource{
			{Name: "copies", Namespaced: true, Verbs: all},
			{Name: "placements", Namespaced: true, Verbs: all},
			{Name: "placementpolicies", Namespaced: true, Verbs: all},
		}},
		{GroupVersion: "example.org/v1", APIResources: []metav1.APIResource{{Name: "copies", Namespaced: true, Verbs: all}}},
		{GroupVersion: "rbac.authorization.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "clusterroles", Verbs: all}}},
	}
}

func TestTheDeleterSeesContentButNoRecordsOfPlacement(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for _, list := range content(discovered()) {
		for _, r := range list.APIResources {
			got[list.GroupVersion] = append(got[list.GroupVersion], r.Name)
		}
	}
	want := map[string][]string{
		"v1":                           {"pods"},
		"apps/v1":                      {"controllerrevisions", "statefulsets", "deployments"},
		"placement.atoll.dev/v1alpha1": {"placementpolicies"},
		"example.org/v1":               {"copies"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWorkloadsAreWhatMakesPods(t *testing.T) {
	t.Parallel()
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	want := []schema.GroupVersionResource{apps.WithResource("deployments"), apps.WithResource("statefulsets")}
	if diff := cmp.Diff(want, workloads(workload.Builtin(), discovered())); diff != "" {
		t.Error(diff)
	}
}
