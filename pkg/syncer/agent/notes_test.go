package agent

import (
	"context"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestAKeyIsLockedAloneAndWaitedForWhileTheWorldStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keyedMutex
		one := objectKey{Request: controller.Request{Name: "one"}}
		other := objectKey{Request: controller.Request{Name: "other"}}
		unlock := k.lock(one)
		k.lock(other)()
		entered := false
		go func() {
			defer k.lock(one)()
			entered = true
		}()
		synctest.Wait() // hangs if the wait is for a sync.Mutex
		if entered {
			t.Error("two hold the same key")
		}
		unlock()
		synctest.Wait()
		if !entered {
			t.Error("whoever waits for a key does not get it")
		}
		if len(k.keys) > 0 {
			t.Errorf("%d keys are remembered that nobody works on", len(k.keys))
		}
	})
}

func TestASessionThatEndsBeforeItSyncsLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if goroutines are left
		a := &Agent{target: "east", down: physical{kube: fake.NewClientset()}}
		a.complete()
		a.report = newReporter(a.target, reportInterval, a.up, a.down, meant(a.down.kube, "down"))
		never := controller.NewInformer("copies", &placementv1alpha1.Copy{}, controller.ListWatch{
			List: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return nil, ctx.Err() },
		}, controller.InformerOptions[*placementv1alpha1.Copy]{})
		listed := controller.NewInformer("orphans", &fleetv1alpha1.Orphan{}, controller.ListWatch{
			List: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return nil, ctx.Err() },
		}, controller.InformerOptions[*fleetv1alpha1.Orphan]{})
		s := &session{report: a.report, copies: never, listed: listed}
		s.objectQueue = controller.New("objects", 1, s.reconcile)
		s.observationQueue = controller.New("observations", 1, s.observe)
		s.eventQueue = controller.New("events", 1, s.bringEvent)
		s.orphanQueue = controller.New("orphans", 1, s.orphan)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.run(ctx); err == nil {
			t.Error("a session that did not sync says that it did")
		}
	})
}
