package controller

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
)

// TestReplicasAreGivenUpWhenServicesLeadToOthers: pods are available before the slices of a
// Service have them; what is given up in between would leave the Service with fewer endpoints.
func TestReplicasAreGivenUpWhenServicesLeadToOthers(t *testing.T) {
	const held = `{"east":{"replicas":6,"share":3},"west":{"replicas":3}}`
	labels := map[string]any{"app": "web"}
	d := whole("Deployment", "d-1", held, map[string]any{"replicas": int64(6), "template": map[string]any{"metadata": map[string]any{"labels": labels}}})
	for name, c := range map[string]struct {
		service bool
		ready   int // endpoints on west
		patch   string
		kept    string
	}{
		"no Service":         {patch: `{"east":{"replicas":3},"west":{"replicas":3}}`},
		"it leads to none":   {service: true, kept: "Deployment web keeps 3 on east until Service web leads to others"},
		"it leads to one":    {service: true, ready: 1, patch: `{"east":{"replicas":5,"share":3},"west":{"replicas":3}}`, kept: "Deployment web keeps 3 on east until Service web leads to others"},
		"it leads to others": {service: true, ready: 3, patch: `{"east":{"replicas":3},"west":{"replicas":3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, complete(), placementOf("east", "west"), deployment("web", held, 1), available("d-1", "east", 6), available("d-1", "west", 3))
			stored := []runtime.Object{d.DeepCopy()}
			lists := map[schema.GroupVersionResource]string{}
			for _, kind := range f.Kinds.Current().Kinds() {
				lists[kind.GroupVersionResource()] = kind.Kind + "List"
			}
			if c.service {
				stored = append(stored, whole("Service", "s-1", `{"east":{},"west":{}}`, map[string]any{"selector": labels}))
			}
			f.Dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, stored...)
			for target, n := range map[string]int{"east": 6, "west": c.ready} {
				slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
					Namespace: "web", Name: "web-" + target, Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
					Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"` + target + `":{"state":"Observed"}}`},
				}}
				for i := range n {
					slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("192.0.2.%d", i)}})
				}
				if _, err := f.kube.DiscoveryV1().EndpointSlices("web").Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			u, ok, err := f.read(t.Context(), web)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			kind, _ := f.Kinds.Current().ByResource(deployments.GroupResource())
			if err := f.release(t.Context(), u, transition.Object{Kind: kind, Logical: d}, nil); err != nil {
				t.Fatal(err)
			}
			patched := ""
			for _, w := range f.writes() {
				if _, patch, ok := strings.Cut(w, "patch deployments web "); ok {
					patched = patch
				}
			}
			if want := strings.ReplaceAll(c.patch, `"`, `\"`); (c.patch == "") != (patched == "") || !strings.Contains(patched, want) {
				t.Errorf("the patch is %s, want %s", patched, c.patch)
			}
			if got := strings.Join(u.kept, "; "); got != c.kept {
				t.Errorf("kept: %q, want %q", got, c.kept)
			}
		})
	}
}

// available is a Copy that says how many replicas are.
func available(uid, target string, n int) *placementv1alpha1.Copy {
	c := &placementv1alpha1.Copy{ObjectMeta: owned(uid+"-"+target, "c-"+uid+target)}
	c.Namespace = "web"
	c.Spec.Object.UID, c.Spec.PhysicalCluster = types.UID(uid), target
	c.Status.State, c.Status.Observed = placementv1alpha1.CopySynced, &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"availableReplicas":%d}`, n)}
	return c
}

// whole is an object that is called web.
func whole(kind, uid, targets string, spec map[string]any) *unstructured.Unstructured {
	version := "v1"
	if kind == "Deployment" {
		version = "apps/v1"
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "spec": spec}}
	meta := owned("web", uid)
	o.SetName(meta.Name)
	o.SetNamespace("web")
	o.SetUID(meta.UID)
	o.SetFinalizers([]string{placementv1alpha1.CopiesFinalizer})
	meta.Annotations[placementv1alpha1.TargetsAnnotation] = targets
	o.SetAnnotations(meta.Annotations)
	return o
}
