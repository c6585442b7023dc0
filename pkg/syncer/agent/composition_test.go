package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection/connectiontest"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/report"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// sessionOver is a session over two servers in memory that serve all kinds.
func sessionOver(w *viewtest.World) *session { return boundedSessionOver(w, nil) }

func boundedSessionOver(w *viewtest.World, bounds corev1.ResourceList) *session {
	a := &Agent{Config: Config{PhysicalCluster: viewtest.Target, Kinds: workload.Builtin()}, kinds: controller.NewVariable(workload.Builtin()), up: w.Up(), down: w.Down()}
	a.complete()
	a.up.Server, a.down.Server = controller.NewServer("control plane", controller.ServerOptions{}), controller.NewServer("physical cluster", controller.ServerOptions{})
	a.gate = connection.NewGate(kubefake.NewClientset(connectiontest.KubeSystem("down")), func() {})
	a.gate.Admit("down", viewtest.ControlPlane, false)
	a.report = report.New(report.Config{PhysicalCluster: viewtest.Target, Interval: time.Hour, Up: a.up, Down: a.down, Gate: a.gate})
	world := report.World{ControlPlane: viewtest.ControlPlane, Identity: "down", Bounds: bounds}
	for _, kind := range workload.Builtin().All() {
		world.APIs = append(world.APIs, kind.API())
	}
	slices.Sort(world.APIs)
	return newSession(a, world)
}

func TestTheRoomsTogetherPutObjectsDownAndMirrorWhatIsMadeOfThem(t *testing.T) {
	namespace, app := viewtest.Namespace(), viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
	w := viewtest.New(t, []runtime.Object{namespace, app}, nil)
	w.ServeApplies(t)
	s := sessionOver(w)
	ctx, cancel := context.WithCancel(klog.NewContext(w.Ctx, logr.Discard()))
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := s.view.Start(ctx, &running); err != nil {
		t.Fatal(err)
	}
	s.dispatch.Start()
	for _, q := range []queue{s.objects, s.mirrors, s.events, s.orphans} {
		running.Go(func() { q.Run(ctx) })
	}
	key := viewtest.KeyOf("Deployment", "web", "app")
	viewtest.Eventually(t, "the Deployment is there, and recorded", func() bool {
		c := w.Record(t, key)
		return c != nil && c.Status.State == placementv1alpha1.CopySynced && c.Status.PhysicalUID == "below-app"
	})
	sets := viewtest.Kind("ReplicaSet").GroupVersionResource()
	if err := w.Below.Tracker().Create(sets, viewtest.Made("ReplicaSet", "app-1", "below-r", "below-app"), viewtest.PhysicalSpace); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "its ReplicaSet is mirrored", func() bool {
		mirror, err := w.Above.Resource(sets).Namespace("web").Get(w.Ctx, "app-1", metav1.GetOptions{})
		return err == nil && len(mirror.GetOwnerReferences()) == 1 && mirror.GetOwnerReferences()[0].UID == "d"
	})
}

func TestASessionThatEndsBeforeItSyncsSaysSo(t *testing.T) {
	w := viewtest.New(t, nil, nil)
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	if err := sessionOver(w).run(ctx); err == nil {
		t.Error("a session that did not sync says that it did")
	}
	if n := viewtest.Count(w.Below, "patch") + viewtest.Count(w.Below, "delete"); n != 0 {
		t.Errorf("%d writes to the physical cluster", n)
	}
}

func TestASessionEndsWhenThePhysicalClusterShowsTooMuch(t *testing.T) {
	const bound = 5
	var below []runtime.Object
	for i := range 3 * bound {
		below = append(below, viewtest.Made("Pod", fmt.Sprint("invented-", i), types.UID(fmt.Sprint("u", i)), "nobody"))
	}
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace()}, below)
	s := boundedSessionOver(w, corev1.ResourceList{fleetv1alpha1.BoundObjects: *resource.NewQuantity(bound, resource.DecimalSI)})
	err := s.run(klog.NewContext(w.Ctx, logr.Discard()))
	if err == nil || !strings.Contains(err.Error(), "15 objects of about 0 MiB in memory, of 5 and 128 MiB that are allowed") {
		t.Errorf("the session ended with %v", err)
	}
	if !s.report.Excessive() {
		t.Error("nobody hears of it")
	}
	if n := viewtest.Count(w.Above, "create") + viewtest.Count(w.Below, "patch"); n != 0 {
		t.Errorf("%d writes were made by what is not complete", n)
	}
}

func TestWhatIsKeptOfAPhysicalCluster(t *testing.T) {
	bound := corev1.ResourceList{fleetv1alpha1.BoundObjectsMemory: resource.MustParse("1Mi")}
	for _, c := range []struct {
		bounds corev1.ResourceList
		copies int
		want   controller.Held
	}{
		{nil, 0, controller.Held{Objects: 10_000, Bytes: 128 << 20}},
		{nil, 1000, controller.Held{Objects: 110_000, Bytes: 378 << 20}},
		{bound, 1000, controller.Held{Objects: 110_000, Bytes: 1 << 20}},
	} {
		if got := mostHeld(c.bounds, c.copies); got != c.want {
			t.Errorf("%v, %d copies: %+v", c.bounds, c.copies, got)
		}
	}
}
