package orphans

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// fixture is a Reconciler between two servers in memory.
type fixture struct {
	*viewtest.World
	*Reconciler
	counts fleetv1alpha1.OrphanCounts
}

func newFixture(t *testing.T, above, below []runtime.Object, records ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{World: viewtest.New(t, above, below, records...)}
	f.Reconciler = New(Config{
		View: f.World.View, Up: f.World.Up(), Down: f.World.Down(),
		Counted: func(n fleetv1alpha1.OrphanCounts) { f.counts = n },
	})
	return f
}

// strayConfig is what is below of a ConfigMap that nothing above knows.
func strayConfig(name string, uid types.UID) *unstructured.Unstructured {
	return viewtest.CopyOf(viewtest.Logical("ConfigMap", "web", name, "gone-"+uid, `{"east":{}}`), uid)
}

// listedOrphan is the Orphan of an object below, with an order about which the
// server was asked.
func listedOrphan(obj *unstructured.Unstructured, order fleetv1alpha1.OrphanOrder, exists metav1.ConditionStatus) *fleetv1alpha1.Orphan {
	o, _ := syncer.NewOrphan(viewtest.Target, viewtest.ControlPlane, viewtest.Kind(obj.GetKind()), obj)
	o.UID, o.Generation, o.Spec.Order = "o", 2, order
	o.Annotations = map[string]string{logicalcluster.AnnotationKey: "root"}
	if exists != "" {
		o.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionObjectExists, Status: exists, ObservedGeneration: 2, Reason: "Asked"}}
	}
	return o
}

func TestWhatNothingAboveKnowsIsListedOnceAndLeftAlone(t *testing.T) {
	stray := strayConfig("conf", "below-c")
	f := newFixture(t, nil, []runtime.Object{stray})
	f.Watch(t)
	for range 2 {
		after, err := f.Found(f.Ctx, viewtest.Kind("ConfigMap"), viewtest.KeyOf("ConfigMap", "web", "conf"))
		if err != nil || after == 0 {
			t.Fatalf("looked at again after %s, %v", after, err)
		}
	}
	listed := f.Listed(t)
	if len(listed) != 1 {
		t.Fatalf("%d Orphans", len(listed))
	}
	want := fleetv1alpha1.OrphanSpec{
		PhysicalCluster: "east",
		Object: fleetv1alpha1.PhysicalObject{
			Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: viewtest.PhysicalSpace, Name: "conf", UID: "below-c",
		},
		Claim: fleetv1alpha1.ClaimedObject{LogicalCluster: "shop", Namespace: "web", Name: "conf", UID: "gone-below-c"},
	}
	if diff := cmp.Diff(want, listed[0].Spec); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := viewtest.Count(f.Below, "delete"); n != 0 {
		t.Errorf("%d deletions on the physical cluster", n)
	}
	viewtest.Eventually(t, "it is counted", func() bool {
		f.Count()
		return f.counts == fleetv1alpha1.OrphanCounts{Found: 1, Undecided: 1}
	})
}

// A control plane that is restored meanwhile has forgotten it, and no watch tells of that.
func TestWhatWasListedIsLookedAtAgainUntilItsWatchShowsIt(t *testing.T) {
	f := newFixture(t, nil, []runtime.Object{strayConfig("conf", "below-c")})
	f.Watch(t)
	found := func() time.Duration {
		after, err := f.Found(f.Ctx, viewtest.Kind("ConfigMap"), viewtest.KeyOf("ConfigMap", "web", "conf"))
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	if after := found(); after != confirmInterval {
		t.Errorf("just listed, it is looked at again after %s", after)
	}
	viewtest.Eventually(t, "it is seen to be listed", func() bool { return found() == interval })
}

func TestWhatTheListHasNoRoomForIsCountedUntilItIsSettled(t *testing.T) {
	records := make([]runtime.Object, fleetv1alpha1.MaxOrphans)
	for i := range records {
		name := fmt.Sprint("other-", i)
		o := listedOrphan(strayConfig(name, types.UID(name)), fleetv1alpha1.OrphanLeave, "")
		records[i] = o
	}
	f := newFixture(t, nil, []runtime.Object{strayConfig("conf", "below-c")}, records...)
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	if _, err := f.Found(f.Ctx, viewtest.Kind("ConfigMap"), key); err != nil {
		t.Fatal(err)
	}
	if want := (fleetv1alpha1.OrphanCounts{Found: fleetv1alpha1.MaxOrphans + 1, Undecided: 1}); f.counts != want {
		t.Errorf("it counts %+v, not %+v", f.counts, want)
	}
	if n := len(f.Listed(t)); n != fleetv1alpha1.MaxOrphans {
		t.Errorf("%d are listed", n)
	}
	f.Settled(key)
	if want := (fleetv1alpha1.OrphanCounts{Found: fleetv1alpha1.MaxOrphans}); f.counts != want {
		t.Errorf("settled, it counts %+v, not %+v", f.counts, want)
	}
}

func TestADeletionThatThePhysicalClusterRefusesIsSaidOnTheOrphan(t *testing.T) {
	stray := strayConfig("conf", "below-c")
	o := listedOrphan(stray, fleetv1alpha1.OrphanRemove, metav1.ConditionFalse)
	f := newFixture(t, nil, []runtime.Object{stray}, o)
	f.Below.PrependReactor("delete", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "conf", errors.New("no"))
	})
	f.Watch(t)
	if _, err := f.Reconcile(f.Ctx, o.Name); err != nil {
		t.Fatal(err)
	}
	if got := f.Listed(t)[0].Status; got.State != fleetv1alpha1.OrphanRemoving || got.Reason != "Forbidden" {
		t.Errorf("it says %s, %s: %s", got.State, got.Reason, got.Message)
	}
}

func TestOrdersForOrphans(t *testing.T) {
	const remove, discard = fleetv1alpha1.OrphanRemove, fleetv1alpha1.OrphanDiscard
	for name, c := range map[string]struct {
		order  fleetv1alpha1.OrphanOrder
		exists metav1.ConditionStatus
		// logical is what the server has of the claimed object, placed here.
		logical types.UID
		deleted int
		want    string
	}{
		"none":                                  {"", "", "", 0, "Found"},
		"leave":                                 {fleetv1alpha1.OrphanLeave, metav1.ConditionFalse, "", 0, "Left"},
		"remove, before the server was asked":   {remove, "", "", 0, "Removing"},
		"remove what exists":                    {remove, metav1.ConditionTrue, "", 0, "Refused"},
		"remove what is gone":                   {remove, metav1.ConditionFalse, "", 1, "Removing"},
		"remove what is back meanwhile":         {remove, metav1.ConditionFalse, "gone-below-c", 0, "Refused"},
		"remove what another one has made":      {remove, metav1.ConditionFalse, "new", 1, "Removing"},
		"discard what exists elsewhere":         {discard, metav1.ConditionTrue, "", 1, "Removing"},
		"discard what is placed here meanwhile": {discard, metav1.ConditionTrue, "gone-below-c", 0, "Refused"},
		"adopt without an object":               {fleetv1alpha1.OrphanAdopt, metav1.ConditionFalse, "", 0, "Refused"},
	} {
		t.Run(name, func(t *testing.T) {
			stray := strayConfig("conf", "below-c")
			o := listedOrphan(stray, c.order, c.exists)
			f := newFixture(t, nil, []runtime.Object{stray}, o)
			if c.logical != "" { // not in the informer: the server is asked
				f.Above.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, viewtest.Logical("ConfigMap", "web", "conf", c.logical, `{"east":{}}`), nil
				})
			}
			var as []string
			f.Below.PrependReactor("delete", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
				d := a.(clienttesting.DeleteActionImpl)
				as = append(as, fmt.Sprint(*d.DeleteOptions.Preconditions.UID))
				return true, nil, nil
			})
			f.Watch(t)
			if _, err := f.Reconcile(f.Ctx, o.Name); err != nil {
				t.Fatal(err)
			}
			if len(as) != c.deleted || c.deleted > 0 && as[0] != "below-c" {
				t.Errorf("deleted by UID: %v", as)
			}
			if got := f.Listed(t)[0].Status.State; string(got) != c.want {
				t.Errorf("it is %s, not %s", got, c.want)
			}
		})
	}
}

func TestAnOrphanIsOneUntilThePhysicalClusterSaysThatItIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		below []runtime.Object
		want  int
	}{
		"it is there, and the watch lacks it": {[]runtime.Object{strayConfig("conf", "below-c")}, 1},
		"it is gone":                          {nil, 0},
		"another one has its name":            {[]runtime.Object{strayConfig("conf", "below-d")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := listedOrphan(strayConfig("conf", "below-c"), "", "")
			f := newFixture(t, nil, c.below, o)
			f.Below.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				short := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
				short.SetResourceVersion("1000")
				return true, short, nil
			})
			f.Watch(t)
			if _, err := f.Reconcile(f.Ctx, o.Name); err != nil {
				t.Fatal(err)
			}
			if n := len(f.Listed(t)); n != c.want {
				t.Errorf("%d Orphans are left, not %d", n, c.want)
			}
		})
	}
}

// A claim that a restored physical cluster brought back goes without its data: where else they are nobody knows.
func TestTheVolumesOfWhatIsDiscardedAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		kind, volume string
		refused      bool
		want         []string
	}{
		"of a claim":                  {"PersistentVolumeClaim", "Delete", false, []string{"patch persistentvolumes", "delete persistentvolumeclaims"}},
		"one that is kept anyway":     {"PersistentVolumeClaim", "Retain", false, []string{"delete persistentvolumeclaims"}},
		"of a namespace":              {"Namespace", "Delete", false, []string{"patch persistentvolumes", "delete namespaces"}},
		"and nothing goes before":     {"PersistentVolumeClaim", "Delete", true, nil},
		"nor a namespace with claims": {"Namespace", "Delete", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			logical := viewtest.Logical("PersistentVolumeClaim", "web", "data", "elsewhere", `{"east":{}}`)
			if c.kind == "Namespace" {
				logical = viewtest.Namespace()
				logical.SetUID("elsewhere")
			}
			stray := viewtest.CopyOf(logical, "below-s")
			pv := &corev1.PersistentVolume{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
				ObjectMeta: metav1.ObjectMeta{Name: "disk", UID: "p", ResourceVersion: "7"},
				Spec: corev1.PersistentVolumeSpec{
					PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimPolicy(c.volume),
					ClaimRef:                      &corev1.ObjectReference{UID: "below-s"},
				},
			}
			o := listedOrphan(stray, fleetv1alpha1.OrphanDiscard, metav1.ConditionTrue)
			f := newFixture(t, nil, []runtime.Object{stray}, o)
			claim := viewtest.Logical("PersistentVolumeClaim", stray.GetNamespace(), "data", "below-s", "")
			claim.Object["spec"] = map[string]any{"volumeName": "disk"}
			f.Below.PrependReactor("list", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaimList"}, Items: []unstructured.Unstructured{*claim}}
				return true, list, nil
			})
			f.Below.PrependReactor("get", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pv)
				return true, &unstructured.Unstructured{Object: content}, err
			})
			var done []string
			f.Below.PrependReactor("patch", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if c.refused {
					return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "disk", errors.New("no"))
				}
				if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), pv); err != nil {
					return true, nil, err
				}
				done = append(done, "patch persistentvolumes")
				return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
			})
			f.Below.PrependReactor("delete", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				done = append(done, "delete "+a.GetResource().Resource)
				return true, nil, nil
			})
			f.Watch(t)
			if _, err := f.Reconcile(f.Ctx, o.Name); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, done); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !c.refused && pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
				t.Errorf("the volume has %s", pv.Spec.PersistentVolumeReclaimPolicy)
			}
			if got := f.Listed(t)[0].Status; c.refused && got.Reason != "VolumeRefused" {
				t.Errorf("it says %s, %s: %s", got.State, got.Reason, got.Message)
			}
		})
	}
}

func TestNothingIsDiscardedIfThePhysicalClusterMayHaveGoneBack(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		want    int
	}{
		"the list of its claims is of before what is known": {"999", 0},
		"it is as new": {"1000", 1},
	} {
		t.Run(name, func(t *testing.T) {
			space := viewtest.Namespace()
			space.SetUID("elsewhere")
			stray := viewtest.CopyOf(space, "below-s")
			o := listedOrphan(stray, fleetv1alpha1.OrphanDiscard, metav1.ConditionTrue)
			f := newFixture(t, nil, []runtime.Object{stray}, o)
			version, deleted := "1000", 0
			f.Below.PrependReactor("list", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaimList"}}
				list.SetResourceVersion(version)
				return true, list, nil
			})
			f.Below.PrependReactor("delete", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				deleted++
				return true, nil, nil
			})
			f.Watch(t)
			version = c.version
			if after, err := f.Reconcile(f.Ctx, o.Name); err != nil || after.RequeueAfter != removalInterval || deleted != c.want {
				t.Errorf("%d deletions, and it is looked at again after %s (error %v)", deleted, after.RequeueAfter, err)
			}
		})
	}
}
