// Package viewtest has two servers in memory, a view of them, and objects to fill them
// with, for tests of what works on a view.
package viewtest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// Target is the physical cluster, ControlPlane the id of the control plane.
	Target, ControlPlane = "east", "cp-1"
	// Cluster is the logical cluster, and PhysicalSpace the physical namespace of its
	// namespace web.
	Cluster       = logicalcluster.Name("shop")
	PhysicalSpace = "shop-web-1234"
)

// World is two servers that are stores of objects, and a view of them.
type World struct {
	*view.View
	// Above and Below have the objects of the two sides, Records the Copies and Orphans.
	Above, Below *dynamicfake.FakeDynamicClient
	Records      *atollfake.Clientset
	Kube         *kubefake.Clientset
	// NoImports says that the control plane has none, as one from before them.
	NoImports bool
	// physical, if not nil, are the clients of the physical cluster in place of Below.
	physical *connection.Physical
	// Ctx is in the scope of the logical cluster, as the target sees it.
	Ctx context.Context
}

// New makes a World. What is on the servers is in the view after Watch.
func New(t *testing.T, above, below []runtime.Object, records ...runtime.Object) *World {
	t.Helper()
	w := servers(t, Cluster, above, below, records...)
	w.View = view.New(view.Config{
		Target: Target, ControlPlane: ControlPlane, Up: w.Up(), Down: w.Down(),
	}, workload.Builtin(), func(workload.Kind) bool { return true })
	return w
}

// NewOver makes a World of root over a physical cluster that serves none of the kinds of the catalog.
func NewOver(t *testing.T, p *Physical, above []runtime.Object, records ...runtime.Object) *World {
	t.Helper()
	return over(t, p, workload.Builtin(), servers(t, scope.Root, above, nil, records...))
}

// NewUnserved is a World over a physical cluster that is not known to serve any kind of its catalog, which has
// Widgets, too.
func NewUnserved(t *testing.T, p *Physical, above []runtime.Object, records ...runtime.Object) *World {
	t.Helper()
	all := workload.Builtin().All()
	mirrored := slices.IndexFunc(all, func(k workload.Kind) bool { return k.Role == workload.Mirrored })
	kinds, err := workload.New(slices.Insert(slices.Clone(all), mirrored, Widgets)...)
	if err != nil {
		t.Fatal(err)
	}
	return over(t, p, kinds, servers(t, Cluster, above, nil, records...))
}

func over(t *testing.T, p *Physical, kinds workload.Catalog, w *World) *World {
	t.Helper()
	down := p.Clients(t)
	w.physical = &down
	w.View = view.New(view.Config{
		Target: Target, ControlPlane: ControlPlane, Up: w.Up(), Down: w.Down(),
	}, kinds, func(workload.Kind) bool { return false })
	return w
}

func servers(t *testing.T, of logicalcluster.Name, above, below []runtime.Object, records ...runtime.Object) *World {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "events"}: "EventList", {Version: "v1", Resource: "serviceaccounts"}: "ServiceAccountList", {Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}: "RuntimeClassList",
	}
	for _, k := range append([]workload.Kind{Widgets}, workload.Builtin().All()...) {
		lists[k.GroupVersionResource()] = k.Kind + "List"
	}
	w := &World{
		Above:   dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, above...),
		Below:   dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, below...),
		Records: atollfake.NewSimpleClientset(append(records, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: Target}})...),
		Kube:    kubefake.NewClientset(),
		Ctx:     scope.With(t.Context(), scope.Scope{Target: Target, Cluster: of}),
	}
	copyEvents(&w.Above.Fake, w.Above.Tracker())
	copyEvents(&w.Below.Fake, w.Below.Tracker())
	copyEvents(&w.Records.Fake, w.Records.Tracker())
	copyEvents(&w.Kube.Fake, w.Kube.Tracker())
	for resource, cluster := range map[string]logicalcluster.Name{"copies": of, "serviceimports": of, "podimports": of, "orphans": scope.Root} {
		w.Records.PrependReactor("create", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			created := a.(clienttesting.CreateAction).GetObject().(metav1.Object)
			created.SetAnnotations(map[string]string{logicalcluster.AnnotationKey: cluster.String()}) // as the server does
			return false, nil, nil
		})
	}
	// As of a server, versions grow: who compares them sees what is newer.
	var version atomic.Int64
	version.Store(1000)
	w.Records.PrependReactor("*", "copies", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a, ok := a.(interface{ GetObject() runtime.Object }); ok {
			a.GetObject().(metav1.Object).SetResourceVersion(strconv.FormatInt(version.Add(1), 10))
		}
		return false, nil, nil
	})
	return w
}

// copyEvents has who watches get objects of its own, to be changed: of what was made between a list and
// the watch that follows, the fake hands out what it stores.
func copyEvents(fake *clienttesting.Fake, tracker clienttesting.ObjectTracker) {
	fake.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if from, ok := a.(clienttesting.WatchActionImpl); ok {
			options = from.ListOptions
		}
		events, err := tracker.Watch(a.GetResource(), a.GetNamespace(), options)
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(events, func(e watch.Event) (watch.Event, bool) {
			e.Object = e.Object.DeepCopyObject()
			return e, true
		}), nil
	})
}

// Lacks has the control plane be from before it had a resource, until it gets that; Watch does not
// wait for imports then.
func (w *World) Lacks(resource string) (gets func()) {
	w.NoImports = true
	var has atomic.Bool
	w.Records.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return !has.Load(), nil, apierrors.NewNotFound(placementv1alpha1.Resource(resource), "")
	})
	return func() { has.Store(true) }
}

// Up are the clients of the control plane.
func (w *World) Up() connection.ControlPlane {
	return connection.ControlPlane{Dynamic: w.Above, Atoll: w.Records, Kube: w.Kube}
}

// Down are the clients of the physical cluster.
func (w *World) Down() connection.Physical {
	if w.physical != nil {
		return *w.physical
	}
	return connection.Physical{Dynamic: w.Below, Kube: w.Kube}
}

// Watch fills the view, and keeps it current until the test ends.
func (w *World) Watch(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	limited, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	synced := make(chan error, 1)
	go func() { synced <- w.Start(ctx, &running) }()
	select {
	case err := <-synced:
		if err != nil {
			t.Fatal(err)
		}
	case <-limited.Done():
		cancel()
		t.Fatalf("the view is not filled: %v", <-synced)
	}
	w.StartEvents(ctx, &running)
	// Start does not wait for these, and tests change what the servers answer from here on.
	if !w.NoImports {
		Eventually(t, "imports are known", func() bool { return w.ImportsKnown() && w.PodsKnown() })
	}
	Eventually(t, "Manifests are listed", func() bool { return listed(w.Above.Actions(), "manifests") })
	if w.physical == nil {
		Eventually(t, "events are listed", func() bool { return listed(w.Below.Actions(), "events") })
	}
}

func listed(actions []clienttesting.Action, resource string) bool {
	return slices.ContainsFunc(actions, func(a clienttesting.Action) bool { return a.Matches("list", resource) })
}

// Record is the Copy of an object; nil if there is none.
func (w *World) Record(t *testing.T, key view.ObjectKey) *placementv1alpha1.Copy {
	t.Helper()
	r := w.CopyRequest(key)
	list, err := w.Records.PlacementV1alpha1().Copies(r.Namespace).List(w.Ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Name == r.Name {
			return &list.Items[i]
		}
	}
	return nil
}

// Listed are the Orphans.
func (w *World) Listed(t *testing.T) []fleetv1alpha1.Orphan {
	t.Helper()
	list, err := w.Records.FleetV1alpha1().Orphans().List(w.Ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// Eventually waits until the view says something.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Errorf("it does not come to pass: %s", what)
	}
}

// Fail has a server answer lists of a resource with an error until heal is called.
func Fail(c *dynamicfake.FakeDynamicClient, resource string) (heal func()) {
	var healed atomic.Bool
	c.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return !healed.Load(), nil, apierrors.NewServiceUnavailable("not now")
	})
	return func() { healed.Store(true) }
}

// Count is how many requests of a verb a server got.
func Count(c *dynamicfake.FakeDynamicClient, verb string) int {
	n := 0
	for _, a := range c.Actions() {
		if a.GetVerb() == verb {
			n++
		}
	}
	return n
}

// KeyOf names an object of the logical cluster.
func KeyOf(kind, namespace, name string) view.ObjectKey {
	return view.ObjectKey{
		Resource: Kind(kind).GroupVersionResource(), Request: controller.Request{Cluster: Cluster, Namespace: namespace, Name: name},
	}
}
