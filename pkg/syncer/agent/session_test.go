package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	controlPlane  = "cp-1"
	physicalSpace = "shop-web-1234"
)

// fixture is a session between two servers that are stores of objects. Its queues
// do not run: tests call what they would call.
type fixture struct {
	*session
	above, below *dynamicfake.FakeDynamicClient
	ctx          context.Context
	observations *recorder[observationKey]
}

func newFixture(t *testing.T, above, below []runtime.Object, copies ...runtime.Object) *fixture {
	t.Helper()
	lists, w := map[schema.GroupVersionResource]string{}, world{controlPlane: controlPlane}
	for _, k := range workload.Builtin().All() {
		lists[k.GroupVersionResource()] = k.Kind + "List"
		w.apis = append(w.apis, k.API())
	}
	slices.Sort(w.apis)
	f := &fixture{
		above:        dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, above...),
		below:        dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, below...),
		observations: &recorder[observationKey]{},
	}
	records := atollfake.NewSimpleClientset(copies...)
	records.PrependReactor("create", "copies", func(a clienttesting.Action) (bool, runtime.Object, error) {
		created := a.(clienttesting.CreateAction).GetObject().(*placementv1alpha1.Copy)
		created.Annotations = map[string]string{logicalcluster.AnnotationKey: "shop"} // as the server does
		return false, nil, nil
	})
	records.PrependReactor("create", "orphans", func(a clienttesting.Action) (bool, runtime.Object, error) {
		created := a.(clienttesting.CreateAction).GetObject().(*fleetv1alpha1.Orphan)
		created.Annotations = map[string]string{logicalcluster.AnnotationKey: "root"}
		return false, nil, nil
	})
	a := &Agent{
		Config: Config{Kinds: workload.Builtin()},
		target: "east",
		up:     upstream{dynamic: f.above, atoll: records, kube: kubefake.NewClientset()},
		down:   physical{dynamic: f.below, kube: kubefake.NewClientset(kubeSystem("down"))},
	}
	a.complete()
	a.report = newReporter(a.target, reportInterval, a.up, a.down, meant(a.down.kube, "down"))
	f.session = newSession(a, w)
	f.observationQueue = controller.New("observations", 1, f.observations.note)
	f.ctx = scope.WithTarget(t.Context(), a.target)
	return f
}

// kubeSystem is the namespace whose UID says which cluster it is in.
func kubeSystem(uid types.UID) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
}

// meant is the gate to a cluster that is the one that is meant.
func meant(probe kubernetes.Interface, uid types.UID) *gate {
	g := &gate{probe: probe, fresh: func() {}, alarm: func() {}}
	g.admit(uid, controlPlane, false)
	return g
}

// watch fills the informers.
func (f *fixture) watch(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	t.Cleanup(cancel)
	go f.session.copies.Run(ctx) // all end with ctx
	go f.session.listed.Run(ctx)
	waits := []func(context.Context) error{f.session.copies.WaitForSync, f.session.listed.WaitForSync}
	for _, i := range f.informers() {
		go i.Run(ctx)
		waits = append(waits, i.WaitForSync)
	}
	for _, wait := range waits {
		if err := wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// recorder takes note of the keys of a queue.
type recorder[K comparable] struct {
	mu   sync.Mutex
	keys []K
}

func (r *recorder[K]) note(_ context.Context, key K) (controller.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, key)
	return controller.Result{}, nil
}

// enqueued are the keys in the queue of observations, in no order.
func (f *fixture) enqueued(t *testing.T) []observationKey {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for f.observationQueue.Len() > 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	f.observationQueue.Run(ctx)
	cancel()
	f.observations.mu.Lock()
	defer f.observations.mu.Unlock()
	return f.observations.keys
}

func kindNamed(kind string) workload.Kind {
	for _, k := range workload.Builtin().All() {
		if k.Kind == kind {
			return k
		}
	}
	panic("no kind " + kind)
}

func newObject(kind, namespace, name string, uid types.UID) *unstructured.Unstructured {
	obj := example(kindNamed(kind).GroupVersionKind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetUID(uid)
	return obj
}

// logicalObject is an object of logical cluster shop with its targets.
func logicalObject(kind, namespace, name string, uid types.UID, targets string) *unstructured.Unstructured {
	obj := newObject(kind, namespace, name, uid)
	obj.SetAnnotations(map[string]string{
		logicalcluster.AnnotationKey: "shop", placementv1alpha1.TargetsAnnotation: targets,
	})
	return obj
}

// logicalNamespace is the Namespace web, which has its name below.
func logicalNamespace() *unstructured.Unstructured {
	obj := logicalObject("Namespace", "", "web", "n", `{"east":{}}`)
	annotations := obj.GetAnnotations()
	annotations[placementv1alpha1.PhysicalNamespaceAnnotation] = physicalSpace
	obj.SetAnnotations(annotations)
	return obj
}

// copyBelow is what is applied for a logical object, with a UID.
func copyBelow(logical *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	obj := syncer.Transform(logical, syncer.Placing{
		Ref: syncer.Ref{
			Kind: kindNamed(logical.GetKind()), Cluster: "shop", Namespace: logical.GetNamespace(), Name: logical.GetName(),
		},
		ControlPlane: controlPlane, Namespace: physicalSpace,
	})
	obj.SetUID(uid)
	return obj
}

// ownedBelow is what a controller below made.
func ownedBelow(kind, name string, uid, owner types.UID) *unstructured.Unstructured {
	obj := newObject(kind, physicalSpace, name, uid)
	obj.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: controlPlane})
	isController := true
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Owner", Name: "owner", UID: owner, Controller: &isController}})
	return obj
}

func TestWhatWaitsForItsOwnerIsLookedAtWhenTheOwnerAppears(t *testing.T) {
	deployment := logicalObject("Deployment", "web", "app", "d", `{"east":{}}`)
	f := newFixture(t, nil, []runtime.Object{
		copyBelow(deployment, "below-d"), ownedBelow("ReplicaSet", "app-1", "below-r", "below-d"), ownedBelow("ReplicaSet", "other", "below-o", "below-x"),
	})
	f.watch(t)
	f.logicalChanged(kindNamed("Deployment"), nil, deployment)
	want := []observationKey{{Resource: kindNamed("ReplicaSet").GroupVersionResource(), UID: "below-r"}}
	if diff := cmp.Diff(want, f.enqueued(t)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestACopyThatTheWatchDoesNotKnowIsLookedAtAgain(t *testing.T) {
	namespace, config := logicalNamespace(), logicalObject("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	physicalConfig := copyBelow(config, "below-c")
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{copyBelow(namespace, "below-n"), physicalConfig})
	key := objectKey{
		Resource: kindNamed("ConfigMap").GroupVersionResource(), Request: controller.Request{Cluster: "shop", Namespace: "web", Name: "conf"},
	}
	f.settled.put(key, syncer.Fingerprint(physicalConfig))
	f.below.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		short := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
		short.SetResourceVersion("1000")
		return true, short, nil
	})
	f.below.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "conf", errors.New("it is there")) // see neverVersion
	})
	f.watch(t)
	look := func() time.Duration {
		t.Helper()
		result, err := f.reconcile(scope.WithCluster(f.ctx, "shop"), key)
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if after := look(); after > 2*recentTTL {
		t.Errorf("while the Copy has not come back, it is looked at again after %s", after)
	}
	if state := f.copyOf(t, key).Status.State; state != placementv1alpha1.CopySynced {
		t.Fatalf("the Copy is %s", state)
	}
	f.writtenCopies = newRecent[objectKey, *placementv1alpha1.Copy]() // it came back
	if err := wait.PollUntilContextTimeout(f.ctx, time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		c, ok := f.session.copies.Get(copyRequest(key, f.target))
		return ok && c.Status.State == placementv1alpha1.CopySynced, nil
	}); err != nil {
		t.Fatal(err)
	}
	if after := look(); after != unwatched {
		t.Errorf("looked at again after %s, not %s", after, unwatched)
	}
}

// copyOf is the Copy of an object.
func (f *fixture) copyOf(t *testing.T, key objectKey) *placementv1alpha1.Copy {
	t.Helper()
	r := copyRequest(key, f.target)
	c, err := f.up.atoll.PlacementV1alpha1().Copies(r.Namespace).Get(f.ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mirrorOf is a Pod in the logical cluster for one below.
func mirrorOf(name string, uid, below types.UID, deleting bool) *unstructured.Unstructured {
	pod := logicalObject("Pod", "web", name, uid, `{"east":{"state":"Observed","uid":"`+string(below)+`"}}`)
	if deleting {
		now := metav1.Unix(1, 0)
		pod.SetDeletionTimestamp(&now)
	}
	return pod
}

func TestAStandInThatIsBeingDeletedGoesThoughItsNamespaceIsNotSeen(t *testing.T) {
	f := newFixture(t, []runtime.Object{mirrorOf("app-1", "p", "below-p", true)},
		[]runtime.Object{ownedBelow("Pod", "app-1", "below-p", "below-r")})
	f.watch(t)
	key := observationKey{Resource: kindNamed("Pod").GroupVersionResource(), UID: "below-p"}
	if _, err := f.observe(f.ctx, key); err != nil {
		t.Fatal(err)
	}
	if n := deletions(f.above); n != 1 {
		t.Errorf("%d deletions in the control plane", n)
	}
	if n := deletions(f.below); n != 0 {
		t.Errorf("%d deletions on the physical cluster", n)
	}
}

func TestWithoutTheNameOfItsNamespaceAPodIsLookedForEverywhere(t *testing.T) {
	for name, c := range map[string]struct {
		below []runtime.Object
		want  int
	}{
		"it is gone":               {nil, 1},
		"it runs, without a mark":  {[]runtime.Object{newObject("Pod", "somewhere", "app-1", "below-p")}, 0},
		"another one has the name": {[]runtime.Object{newObject("Pod", "somewhere", "app-1", "below-q")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, []runtime.Object{mirrorOf("app-1", "p", "below-p", false)}, c.below)
			f.watch(t)
			if _, err := f.observe(f.ctx, observationKey{Resource: kindNamed("Pod").GroupVersionResource(), UID: "below-p"}); err != nil {
				t.Fatal(err)
			}
			if n := deletions(f.above); n != c.want {
				t.Errorf("%d deletions in the control plane, not %d", n, c.want)
			}
		})
	}
}

func deletions(c *dynamicfake.FakeDynamicClient) int {
	n := 0
	for _, a := range c.Actions() {
		if a.GetVerb() == "delete" {
			n++
		}
	}
	return n
}

func TestTheDeletionOfAClaimIsCarriedOutBelowAndThenLetGo(t *testing.T) {
	claim := logicalObject("PersistentVolumeClaim", "web", "data-db-0", "c", `{"east":{"state":"Observed","uid":"below-c"}}`)
	claim.SetFinalizers([]string{"example.com/mine", placementv1alpha1.CopiesFinalizer})
	now := metav1.Unix(1, 0)
	claim.SetDeletionTimestamp(&now)
	physicalClaim := newObject("PersistentVolumeClaim", physicalSpace, "data-db-0", "below-c")
	physicalClaim.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: controlPlane})
	key := observationKey{Resource: kindNamed("PersistentVolumeClaim").GroupVersionResource(), UID: "below-c"}

	f := newFixture(t, []runtime.Object{logicalNamespace(), claim}, []runtime.Object{physicalClaim})
	f.watch(t)
	if _, err := f.observe(f.ctx, key); err != nil {
		t.Fatal(err)
	}
	if above, below := deletions(f.above), deletions(f.below); above != 0 || below != 1 {
		t.Errorf("%d deletions in the control plane, %d on the physical cluster", above, below)
	}

	f = newFixture(t, []runtime.Object{logicalNamespace(), claim}, nil) // it is gone below
	f.watch(t)
	if _, err := f.observe(f.ctx, key); err != nil {
		t.Fatal(err)
	}
	left, err := f.above.Resource(key.Resource).Namespace("web").Get(f.ctx, "data-db-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/mine"}, left.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got)\n%s", diff)
	}
}

func TestANamespaceThatVanishesMeanwhileIsNoError(t *testing.T) {
	namespace, config := logicalNamespace(), logicalObject("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	f := newFixture(t, []runtime.Object{namespace, config}, nil)
	gone := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "web")
	}
	f.up.atoll.(*atollfake.Clientset).PrependReactor("create", "copies", gone)
	f.watch(t)
	ctx := scope.WithCluster(f.ctx, "shop")
	for _, key := range []objectKey{keyOf(kindNamed("Namespace"), namespace), keyOf(kindNamed("ConfigMap"), config)} {
		if result, err := f.reconcile(ctx, key); err != nil || result.RequeueAfter == 0 {
			t.Errorf("%s: %v %v", key, result, err)
		}
	}
}

// A quota without a status lets everything in: what a controller below would make at
// once waits until the physical cluster has counted.
func TestWhatAQuotaRulesWaitsUntilItIsCounted(t *testing.T) {
	quota := logicalObject("ResourceQuota", "web", "small", "up-quota", `{"east":{}}`)
	app := logicalObject("Deployment", "web", "app", "up-app", `{"east":{}}`)
	space := newObject("Namespace", "", physicalSpace, "down-space")
	space.SetAnnotations(map[string]string{placementv1alpha1.UIDAnnotation: string(logicalNamespace().GetUID())})
	below := copyBelow(quota, "down-quota")
	hard := map[string]any{"hard": map[string]any{"pods": "2"}}
	below.Object["spec"] = hard
	record := &placementv1alpha1.Copy{}
	key := keyOf(kindNamed("ResourceQuota"), quota)
	record.Namespace, record.Name = "web", key.ref(kindNamed("ResourceQuota")).CopyName("east")
	record.Annotations = map[string]string{logicalcluster.AnnotationKey: "shop"}
	record.Spec.PhysicalCluster = "east"
	record.Spec.Object = placementv1alpha1.ObjectReference{Version: "v1", Resource: "resourcequotas", Kind: "ResourceQuota", Name: "small", UID: "up-quota"}
	record.Status.State = placementv1alpha1.CopySynced

	f := newFixture(t, []runtime.Object{logicalNamespace(), quota, app}, []runtime.Object{space, below}, record)
	f.watch(t)
	deployments := kindNamed("Deployment")
	p := &pass{session: f.session, key: keyOf(deployments, app), kind: deployments}
	p.read()
	ruled := func() bool {
		t.Helper()
		is, err := p.ruled(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if ruled() {
		t.Fatal("nothing has been counted, but the Deployment does not wait")
	}
	counted := below.DeepCopy()
	counted.Object["status"] = hard
	if _, err := f.below.Resource(key.Resource).Namespace(physicalSpace).Update(f.ctx, counted, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(f.ctx, 10*time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) { return ruled(), nil }); err != nil {
		t.Error("the quota has been counted, but the Deployment still waits")
	}
}

func TestWarningsOfServersStayOutOfTheLog(t *testing.T) {
	if c := tuned(&rest.Config{}); c.WarningHandler != (rest.NoWarnings{}) {
		t.Errorf("they go to %T", c.WarningHandler)
	}
}
