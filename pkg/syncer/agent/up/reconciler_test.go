package up

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// fixture is a Reconciler between two servers in memory.
type fixture struct {
	*viewtest.World
	*Reconciler
	// confirmed is what comes of asking who answers below.
	confirmed error
	mirrored  []view.MirrorKey
}

func newFixture(t *testing.T, above, below []runtime.Object) *fixture {
	t.Helper()
	f := &fixture{World: viewtest.New(t, above, below)}
	down := f.World.Down()
	down.Metadata = viewtest.MetadataOf(f.World.Below)
	f.Reconciler = New(Config{
		View: f.World.View, Up: f.World.Up(), Down: down,
		Confirm:  func(context.Context) error { return f.confirmed },
		Mirrored: func(key view.MirrorKey) { f.mirrored = append(f.mirrored, key) },
	})
	return f
}

func podKey(uid string) view.MirrorKey {
	return view.MirrorKey{Resource: pods, UID: types.UID(uid)}
}

// runningPod is a pod with a node that a ReplicaSet below made, of which the logical
// cluster has the object: that is copied.
func runningPod() (above, below []runtime.Object, pod *unstructured.Unstructured) {
	set := viewtest.Logical("ReplicaSet", "web", "app", "r", `{"east":{}}`)
	pod = viewtest.Made("Pod", "app-1", "below-p", "below-r")
	pod.Object["spec"] = map[string]any{"nodeName": "node-1", "containers": []any{}}
	pod.Object["status"] = map[string]any{"phase": "Running"}
	return []runtime.Object{viewtest.Namespace(), set}, []runtime.Object{viewtest.CopyOf(set, "below-r"), pod}, pod
}

func (f *fixture) pod(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	pod, err := f.Above.Resource(pods).Namespace("web").Get(f.Ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestWhatAControllerBelowMadeIsMirroredWithItsOwnerAndStatus(t *testing.T) {
	above, below, _ := runningPod()
	f := newFixture(t, above, below)
	f.Watch(t)
	if _, err := f.Reconcile(f.Ctx, podKey("below-p")); err != nil {
		t.Fatal(err)
	}
	got := f.pod(t, "app-1")
	if owners := got.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "r" || owners[0].Name != "app" {
		t.Errorf("its owners are %+v", owners)
	}
	if phase, _, _ := unstructured.NestedString(got.Object, "status", "phase"); phase != "Running" {
		t.Errorf("its phase is %q", phase)
	}
	if diff := cmp.Diff([]view.MirrorKey{podKey("below-p")}, f.mirrored); diff != "" {
		t.Errorf("who waits for it is not woken (-want +got)\n%s", diff)
	}
}

func TestAPodWithoutANodeIsMirroredOnceItHasOneOrASecondLater(t *testing.T) {
	above, below, pod := runningPod()
	delete(pod.Object, "status")
	pod.Object["spec"] = map[string]any{"containers": []any{}}
	pod.SetCreationTimestamp(metav1.Now())
	f := newFixture(t, above, below)
	f.Watch(t)
	result, err := f.Reconcile(f.Ctx, podKey("below-p"))
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > 2*time.Second {
		t.Errorf("it is looked at again after %s, %v", result.RequeueAfter, err)
	}
	if n := viewtest.Count(f.Above, "create"); n != 0 {
		t.Errorf("it is mirrored %d times", n)
	}
}

func TestAReplicaSetDoesNotCountPodsThatAreNotThereYet(t *testing.T) {
	above, _, pod := runningPod()
	pod.SetCreationTimestamp(metav1.Now())
	owner := viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
	set := viewtest.Made("ReplicaSet", "app-5d", "below-s", "below-d")
	set.Object["status"] = map[string]any{"replicas": int64(1)}
	pod.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-5d", UID: "below-s", Controller: ptr.To(true)}})
	f := newFixture(t, append(above[:1:1], owner), []runtime.Object{viewtest.CopyOf(owner, "below-d"), set, pod})
	f.Watch(t)
	key := view.MirrorKey{Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, UID: "below-s"}
	result, err := f.Reconcile(f.Ctx, key)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("its status is looked at again after %s, %v", result.RequeueAfter, err)
	}
	if n := viewtest.Count(f.Above, "update"); n != 0 {
		t.Errorf("its status was written %d times before its pod was there", n)
	}
	if diff := cmp.Diff([]view.MirrorKey{key}, f.mirrored); diff != "" {
		t.Errorf("its pod, which waits for it, is not woken (-want +got)\n%s", diff)
	}
}

func TestANameThatSomebodyElseHasIsFollowedByThatOfTheTarget(t *testing.T) {
	above, below, _ := runningPod()
	for name, c := range map[string]struct {
		existing *unstructured.Unstructured
		hidden   bool
		want     string
		again    bool
	}{
		"a mirror of a predecessor": {viewtest.Mirror("app-1", "x", "below-x"), false, "", true},
		"somebody else's":           {viewtest.Object("Pod", "web", "app-1", "x"), true, "app-1.east", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, above, below)
			f.Above.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return c.hidden, nil, apierrors.NewNotFound(pods.GroupResource(), "app-1") // not in the view of the target
			})
			f.Watch(t)
			if err := f.Above.Tracker().Create(pods, c.existing, "web"); err != nil {
				t.Fatal(err)
			}
			result, err := f.Reconcile(f.Ctx, podKey("below-p"))
			if err != nil || (result.RequeueAfter > 0 && result.RequeueAfter <= time.Second) != c.again {
				t.Errorf("looked at again after %s, %v", result.RequeueAfter, err)
			}
			list, err := f.Above.Resource(pods).Namespace("web").List(f.Ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range list.Items {
				if p.GetUID() != "x" {
					names = append(names, p.GetName())
				}
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("mirrored as %q, not %q", got, c.want)
			}
		})
	}
}

func TestNothingIsTakenToBeGoneOnTheWordOfAnotherCluster(t *testing.T) {
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), viewtest.Mirror("app-1", "p", "below-p")}, nil)
	f.Watch(t)
	f.confirmed = errors.New("another cluster answers")
	if result, err := f.Reconcile(f.Ctx, podKey("below-p")); err != nil || result.RequeueAfter == 0 {
		t.Errorf("looked at again after %s, %v", result.RequeueAfter, err)
	}
	if n := viewtest.Count(f.Above, "delete"); n != 0 {
		t.Errorf("%d deletions in the control plane", n)
	}
	f.confirmed = nil
	if _, err := f.Reconcile(f.Ctx, podKey("below-p")); err != nil {
		t.Fatal(err)
	}
	if n := viewtest.Count(f.Above, "delete"); n != 1 {
		t.Errorf("%d deletions in the control plane once it is confirmed", n)
	}
}

// What a watch lacks is looked for in all physical namespaces, where nothing says in which it was: an object of the
// same name is not it.
func TestWhatIsUnwatchedIsFoundByItsUIDWhereverItIs(t *testing.T) {
	for name, c := range map[string]struct {
		uid     types.UID
		deleted int
	}{"it": {"below-p", 0}, "its namesake": {"below-q", 1}} {
		t.Run(name, func(t *testing.T) {
			unlabelled := viewtest.Made("Pod", "app-1", c.uid, "below-r")
			unlabelled.SetLabels(nil)
			unlabelled.SetNamespace("shop-web-before")
			f := newFixture(t, []runtime.Object{viewtest.Namespace(), viewtest.Mirror("app-1", "p", "below-p")}, []runtime.Object{unlabelled})
			f.Below.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if a.(clienttesting.ListAction).GetListRestrictions().Labels.Empty() {
					return false, nil, nil
				}
				return true, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList"}}, nil // as a server selects
			})
			f.Watch(t)
			if _, err := f.Reconcile(f.Ctx, podKey("below-p")); err != nil {
				t.Fatal(err)
			}
			if n := viewtest.Count(f.Above, "delete"); n != c.deleted {
				t.Errorf("%d deletions in the control plane, want %d", n, c.deleted)
			}
		})
	}
}

// A list that goes on for ever is no answer: nothing is gone for it, and nothing stands still.
func TestAListWithoutAnEndIsNoAnswer(t *testing.T) {
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), viewtest.Mirror("app-1", "p", "below-p")}, nil)
	f.Watch(t)
	f.Below.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"continue": "more"}}}, nil
	})
	if result, err := f.Reconcile(f.Ctx, podKey("below-p")); err != nil || result.RequeueAfter == 0 {
		t.Errorf("looked at again after %s, %v", result.RequeueAfter, err)
	}
	if n := viewtest.Count(f.Above, "delete"); n != 0 {
		t.Errorf("%d deletions in the control plane", n)
	}
}

func TestAMirrorThatTheControlPlaneRefusesIsTriedAgainAtLeisure(t *testing.T) {
	above, below, _ := runningPod()
	for name, c := range map[string]struct {
		err      error
		min, max time.Duration
	}{
		"refused":           {apierrors.NewForbidden(pods.GroupResource(), "app-1", errors.New("quota")), 30 * time.Second, time.Hour},
		"silence":           {apierrors.NewServiceUnavailable("not now"), time.Second, 10 * time.Second},
		"no Lease":          {errors.New("the Lease of the physical cluster is not held"), time.Millisecond, 200 * time.Millisecond},
		"no such namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "web"), time.Millisecond, 10 * time.Second},
		"mirrored already":  {apierrors.NewConflict(pods.GroupResource(), "app-1", errors.New("app-1.east mirrors it")), time.Millisecond, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, above, below)
			f.Above.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			f.Watch(t)
			result, err := f.Reconcile(f.Ctx, podKey("below-p"))
			if err != nil || result.RequeueAfter < c.min || result.RequeueAfter > c.max {
				t.Errorf("looked at again after %s, %v", result.RequeueAfter, err)
			}
		})
	}
}

func TestAMirrorThatIsBeingDeletedGoesThoughItsNamespaceIsNotSeen(t *testing.T) {
	f := newFixture(t, []runtime.Object{viewtest.Deleting(viewtest.Mirror("app-1", "p", "below-p"))},
		[]runtime.Object{viewtest.Made("Pod", "app-1", "below-p", "below-r")})
	f.Watch(t)
	key := view.MirrorKey{Resource: viewtest.Kind("Pod").GroupVersionResource(), UID: "below-p"}
	if _, err := f.Reconcile(f.Ctx, key); err != nil {
		t.Fatal(err)
	}
	if n := viewtest.Count(f.Above, "delete"); n != 1 {
		t.Errorf("%d deletions in the control plane", n)
	}
	if n := viewtest.Count(f.Below, "delete"); n != 0 {
		t.Errorf("%d deletions on the physical cluster", n)
	}
}

func TestWithoutTheNameOfItsNamespaceAPodIsLookedForEverywhere(t *testing.T) {
	for name, c := range map[string]struct {
		below []runtime.Object
		want  int
	}{
		"it is gone":               {nil, 1},
		"it runs, without a mark":  {[]runtime.Object{viewtest.Object("Pod", "somewhere", "app-1", "below-p")}, 0},
		"another one has the name": {[]runtime.Object{viewtest.Object("Pod", "somewhere", "app-1", "below-q")}, 1},
	} {
		// Such a Namespace may have been made after what a restored backup brought back.
		younger := viewtest.Namespace()
		younger.SetCreationTimestamp(metav1.Unix(2, 0))
		for seen, namespaces := range map[string][]runtime.Object{"no Namespace": nil, "one that is younger": {younger}} {
			t.Run(name+", "+seen, func(t *testing.T) {
				mirror := viewtest.Mirror("app-1", "p", "below-p")
				mirror.SetCreationTimestamp(metav1.Unix(1, 0))
				f := newFixture(t, append(namespaces, mirror), c.below)
				f.Watch(t)
				if _, err := f.Reconcile(f.Ctx, view.MirrorKey{Resource: viewtest.Kind("Pod").GroupVersionResource(), UID: "below-p"}); err != nil {
					t.Fatal(err)
				}
				if n := viewtest.Count(f.Above, "delete"); n != c.want {
					t.Errorf("%d deletions in the control plane, not %d", n, c.want)
				}
			})
		}
	}
}

func TestTheDeletionOfAClaimIsCarriedOutBelowAndThenLetGo(t *testing.T) {
	claim := viewtest.Logical("PersistentVolumeClaim", "web", "data-db-0", "c", `{"east":{"state":"Observed","uid":"below-c"}}`)
	claim.SetFinalizers([]string{"example.com/mine", placementv1alpha1.CopiesFinalizer})
	now := metav1.Unix(1, 0)
	claim.SetDeletionTimestamp(&now)
	physicalClaim := viewtest.Object("PersistentVolumeClaim", viewtest.PhysicalSpace, "data-db-0", "below-c")
	physicalClaim.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: viewtest.ControlPlane})
	key := view.MirrorKey{Resource: viewtest.Kind("PersistentVolumeClaim").GroupVersionResource(), UID: "below-c"}

	f := newFixture(t, []runtime.Object{viewtest.Namespace(), claim}, []runtime.Object{physicalClaim})
	f.Watch(t)
	if _, err := f.Reconcile(f.Ctx, key); err != nil {
		t.Fatal(err)
	}
	if above, below := viewtest.Count(f.Above, "delete"), viewtest.Count(f.Below, "delete"); above != 0 || below != 1 {
		t.Errorf("%d deletions in the control plane, %d on the physical cluster", above, below)
	}

	f = newFixture(t, []runtime.Object{viewtest.Namespace(), claim}, nil) // it is gone below
	f.Watch(t)
	if _, err := f.Reconcile(f.Ctx, key); err != nil {
		t.Fatal(err)
	}
	left, err := f.Above.Resource(key.Resource).Namespace("web").Get(f.Ctx, "data-db-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/mine"}, left.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got)\n%s", diff)
	}
}

// A backup of the control plane that is restored at that moment has the mirror as the watch showed it last.
func TestAMirrorThatWasLetGoOfIsLookedAtOnceMore(t *testing.T) {
	pod := viewtest.Mirror("app-1", "p", "below-p")
	claim := viewtest.Logical("PersistentVolumeClaim", "web", "data-db-0", "c", `{"east":{"state":"Observed","uid":"below-p"}}`)
	viewtest.Deleting(claim, placementv1alpha1.CopiesFinalizer)
	for name, c := range map[string]struct {
		kind  string
		above []runtime.Object
		verb  string
	}{
		"removed":   {"Pod", []runtime.Object{pod}, "delete"},
		"let go of": {"PersistentVolumeClaim", []runtime.Object{claim}, "update"},
		"not there": {"Pod", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(c.above, viewtest.Namespace()), nil)
			f.Watch(t)
			result, err := f.Reconcile(f.Ctx, view.MirrorKey{Resource: viewtest.Kind(c.kind).GroupVersionResource(), UID: "below-p"})
			if err != nil {
				t.Fatal(err)
			}
			if c.verb != "" && viewtest.Count(f.Above, c.verb) != 1 {
				t.Errorf("it has not been %s", name)
			}
			if again := result.RequeueAfter > 0; again != (c.verb != "") {
				t.Errorf("it is looked at again after %s", result.RequeueAfter)
			}
		})
	}
}

// The server ends what is mirrored from a physical cluster that was given up, or that is registered no more. To a syncer
// that has not heard of that yet it looks like what users delete.
func TestNothingIsDeletedBelowOnceThePhysicalClusterIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fixture) error
		want   int
	}{
		"registered": {func(*fixture) error { return nil }, 1},
		"given up": {func(f *fixture) error {
			pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: viewtest.Target}, Spec: fleetv1alpha1.PhysicalClusterSpec{Forget: true}}
			return f.Records.Tracker().Update(fleetv1alpha1.SchemeGroupVersion.WithResource("physicalclusters"), pc, "")
		}, 0},
		"registered no more": {func(f *fixture) error {
			return f.Records.Tracker().Delete(fleetv1alpha1.SchemeGroupVersion.WithResource("physicalclusters"), "", viewtest.Target)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			mirror, physical := viewtest.Mirror("app-1", "p", "below-p"), viewtest.Object("Pod", viewtest.PhysicalSpace, "app-1", "below-p")
			now := metav1.Unix(1, 0)
			mirror.SetDeletionTimestamp(&now)
			mirror.SetFinalizers([]string{"example.com/mine"})
			f := newFixture(t, []runtime.Object{viewtest.Namespace(), mirror}, []runtime.Object{physical})
			if err := c.change(f); err != nil {
				t.Fatal(err)
			}
			f.Watch(t)
			if _, err := f.Reconcile(f.Ctx, view.MirrorKey{Resource: viewtest.Kind("Pod").GroupVersionResource(), UID: "below-p"}); err != nil {
				t.Fatal(err)
			}
			if n := viewtest.Count(f.Below, "delete"); n != c.want {
				t.Errorf("%d deletions below, want %d", n, c.want)
			}
		})
	}
}

func TestWhatIsNotFoundBelowIsNoLongerHeld(t *testing.T) {
	claim := viewtest.Logical("PersistentVolumeClaim", "web", "data", "c", `{"east":{"state":"Observed","uid":"below-c"}}`)
	claim.SetFinalizers([]string{placementv1alpha1.CopiesFinalizer})
	now := metav1.Unix(1, 0)
	claim.SetDeletionTimestamp(&now)
	physicalClaim := viewtest.Object("PersistentVolumeClaim", viewtest.PhysicalSpace, "data", "below-c")
	physicalClaim.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: viewtest.ControlPlane})
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), claim}, []runtime.Object{physicalClaim})
	f.Below.PrependReactor("delete", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data")
	})
	f.Watch(t)
	gvr := viewtest.Kind("PersistentVolumeClaim").GroupVersionResource()
	if _, err := f.Reconcile(f.Ctx, view.MirrorKey{Resource: gvr, UID: "below-c"}); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.World.Physical(gvr, controller.RequestFor(physicalClaim)); ok {
		t.Error("the watch is believed over the answer")
	}
}
