package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestALoadBalancerThatLosesItsRouteLeavesNothingBehind has a load balancer before the server answer a syncer with a page
// in every other moment, as one does that begins, or is configured anew, while pods come and go. What is watched goes on.
func TestALoadBalancerThatLosesItsRouteLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	theLab.registerPull(t, "inlet") // whose identity is in the credentials of its syncer
	lb := startProxy(t, theLab.kubeconfig(t, "--syncer", "inlet"))
	inlet, _ := theLab.startPull(t, "inlet", "--kubeconfig", lb.kubeconfig)
	theLab.setApart(t, "inlet")
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=inlet"))
	must(t)(k.Apply(ctx, deployment("app", 6)))
	h := theLab.homeOf(t, k, "default", inlet)
	converges(t, k, h, map[string]int32{"app": 6})

	const moment = 300 * time.Millisecond
	var pages atomic.Int32
	page := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" || strings.HasSuffix(r.URL.Path, "/leases/inlet") {
			return false
		}
		pages.Add(1)
		http.NotFound(w, r)
		return true
	}
	lb.put(func(w http.ResponseWriter, r *http.Request) bool {
		return time.Now().UnixNano()/int64(moment)%2 != 0 && page(w, r)
	})
	for _, replicas := range []int{1, 6, 1, 6} {
		must(t)(k.Run(ctx, "scale", "deployment/app", fmt.Sprintf("--replicas=%d", replicas)))
		time.Sleep(3 * time.Second)
	}
	lb.put(nil)
	converges(t, k, h, map[string]int32{"app": 6})

	// All deletions of pods that end, and after them nothing happens any more.
	pages.Store(0)
	lb.put(func(w http.ResponseWriter, r *http.Request) bool { return r.Method == http.MethodDelete && page(w, r) })
	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=1"))
	eventually(t, func() error {
		var below corev1.PodList
		_, err := h.below().Get(ctx, &below, "pods")
		return errors.Join(err, want("pods below", len(below.Items), 1), want("at least five deletions met a page", pages.Load() >= 5, true))
	})
	time.Sleep(3 * time.Second)
	lb.put(nil)

	converges(t, k, h, map[string]int32{"app": 1})
	names := func(pods corev1.PodList) (names []string) {
		for _, pod := range pods.Items {
			names = append(names, pod.Name)
		}
		return names
	}
	eventually(t, func() error {
		var above, below corev1.PodList
		if _, err := k.Get(ctx, &above, "pods"); err != nil {
			return err
		}
		if _, err := h.below().Get(ctx, &below, "pods"); err != nil {
			return err
		}
		return want("the pods above", names(above), names(below))
	})
	if err := conditionIs(t, "inlet", "Syncing", metav1.ConditionTrue, "Watching", ""); err != nil {
		t.Error(err)
	}
}
