package placement

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// A namespace counts for what it came with, where an admin bounds that, and for less once it requests less:
// its physical cluster reports nothing of it all the while.
func testLetIn(t *testing.T) {
	ctx := newCluster(t, "let-in")
	policy(t, "let-in", func(s *placementv1alpha1.PolicySpec) {
		s.Terms = only("fits", "let-in")
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
	})
	register(t, "hides", map[string]string{"fits": "let-in"}, ownTaint)
	beat(t, "hides")
	bounded(t, shared, "hides", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")})
	wants := func(name, cpu string) *appsv1.Deployment {
		d := deployment(name)
		d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		return d
	}
	counts := func(want string) {
		t.Helper()
		server.Eventually(t, waitTimeout, "the namespace counts for "+want, func() error {
			p := placementOf(t, ctx, "first")
			said := func(list corev1.ResourceList) string {
				if q, ok := list[corev1.ResourceCPU]; ok {
					return q.String()
				}
				return "-"
			}
			return expect("let in with, requests", want, said(p.Spec.Decision.PhysicalClusters[0].Requests)+" "+said(p.Status.Requests))
		})
	}
	namespace(t, ctx, "first")
	if d := create(t, ctx, "first", wants("a", "2")); targetsOf(d) != "hides" {
		t.Fatalf("it is on %q", targetsOf(d))
	}
	counts("2 2")
	namespace(t, ctx, "second")
	create(t, ctx, "second", wants("b", "2"))
	server.Eventually(t, waitTimeout, "the second one waits", func() error {
		if reasons := fmt.Sprint(placementOf(t, ctx, "second").Status.Rejected); !strings.Contains(reasons, "1 of the bound 3 is left") {
			return fmt.Errorf("rejected %s", reasons)
		}
		return nil
	})
	create(t, ctx, "first", wants("later", "500m"))
	counts("2 2500m")
	scale := func(replicas int) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		if _, err := shared.Kube.AppsV1().Deployments("first").Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}, "scale"); err != nil {
			t.Fatal(err)
		}
	}
	scale(7)
	counts("2 14500m")
	scale(0)
	counts("2 500m")
	bounded(t, shared, "hides", nil)
	counts("2 -")
}
