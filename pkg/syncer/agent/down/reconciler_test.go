package down

import (
	"errors"
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

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

func TestAnObjectBecomesACopyInItsNamespaceAndIsRecorded(t *testing.T) {
	namespace, config := viewtest.Namespace(), viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	f := newFixture(t, []runtime.Object{namespace, config}, nil)
	applied := f.ServeApplies(t)
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	for f.Record(t, key) == nil || f.Record(t, key).Status.State != placementv1alpha1.CopySynced {
		if after := f.reconcile(t, key); after > 10*time.Second {
			t.Fatalf("it is looked at again only after %s", after)
		}
		time.Sleep(time.Millisecond) // the pace of reports
	}
	if diff := cmp.Diff([]string{"namespaces " + viewtest.PhysicalSpace, "configmaps conf"}, applied()); diff != "" {
		t.Errorf("applied (-want +got)\n%s", diff)
	}
	got := f.Record(t, key)
	if got.Status.PhysicalUID != "below-conf" || got.Status.PhysicalNamespace != viewtest.PhysicalSpace || got.Spec.Object.UID != "c" {
		t.Errorf("recorded: %+v %+v", got.Spec, got.Status)
	}
	if n := viewtest.Count(f.Below, "get"); n != 0 {
		t.Errorf("the physical cluster was asked %d times for what nobody has made yet", n)
	}
}

func TestACopyThatTheWatchDoesNotKnowIsLookedAtAgain(t *testing.T) {
	namespace, config := viewtest.Namespace(), viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	physicalConfig := viewtest.CopyOf(config, "below-c")
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{viewtest.CopyOf(namespace, "below-n"), physicalConfig})
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	f.memory.change(key, func(r *remembered) { r.settled = syncer.Fingerprint(physicalConfig) })
	f.Below.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		short := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
		short.SetResourceVersion("1000")
		return true, short, nil
	})
	f.Below.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "conf", errors.New("it is there")) // see neverVersion
	})
	f.Watch(t)
	if after := f.reconcile(t, key); after > 10*time.Second {
		t.Errorf("while the Copy has not come back, it is looked at again after %s", after)
	}
	if state := f.Record(t, key).Status.State; state != placementv1alpha1.CopySynced {
		t.Fatalf("the Copy is %s", state)
	}
	f.World.WrittenCopies.Forget(key, f.Record(t, key).UID) // it came back
	viewtest.Eventually(t, "the watch has the Copy", func() bool {
		c, ok := f.World.Copy(key)
		return ok && c.Status.State == placementv1alpha1.CopySynced
	})
	if after := f.reconcile(t, key); after != syncer.UnwatchedInterval {
		t.Errorf("looked at again after %s, not %s", after, syncer.UnwatchedInterval)
	}
}

// elsewhere is a ConfigMap whose Copy records another physical namespace than the one that
// its Namespace names: the watch of one of them is behind a backup that was restored.
func elsewhere(uid types.UID) (config *unstructured.Unstructured, record *placementv1alpha1.Copy, below *unstructured.Unstructured) {
	config = viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	record = viewtest.Copy(config, placementv1alpha1.CopyStatus{
		State: placementv1alpha1.CopySynced, PhysicalNamespace: "shop-web-before", PhysicalUID: uid,
	})
	below = viewtest.CopyOf(config, uid)
	below.SetNamespace("shop-web-before")
	return config, record, below
}

func TestARemovalIsAcknowledgedWhenItIsGoneFromWhereItWasMade(t *testing.T) {
	for name, unwatched := range map[string]bool{"the watch has it": false, "the watch lacks it": true} {
		t.Run(name, func(t *testing.T) {
			config, record, below := elsewhere("below-c")
			viewtest.Deleting(config, placementv1alpha1.CopiesFinalizer)
			f := newFixture(t, []runtime.Object{viewtest.Namespace(), config}, []runtime.Object{below}, record)
			if unwatched {
				f.Below.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					short := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
					short.SetResourceVersion("1000")
					return true, short, nil
				})
			}
			f.Watch(t)
			key := viewtest.KeyOf("ConfigMap", "web", "conf")
			f.reconcile(t, key)
			if n := viewtest.Count(f.Below, "delete"); n != 1 {
				t.Errorf("it was deleted %d times", n)
			}
			if got := f.Record(t, key).Status; got.State != placementv1alpha1.CopyRemoved || got.PhysicalNamespace != "shop-web-before" {
				t.Errorf("recorded: %+v", got)
			}
		})
	}
}

func TestNothingIsMadeInANamespaceThatTheCopyDoesNotRecord(t *testing.T) {
	config, record, _ := elsewhere("")
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), config}, nil, record)
	applied := f.ServeApplies(t)
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	f.reconcile(t, key)
	if diff := cmp.Diff([]string(nil), applied()); diff != "" {
		t.Errorf("applied (-want +got)\n%s", diff)
	}
	if got := f.Record(t, key).Status; got.Reason != syncer.ReasonOtherNamespace || got.PhysicalNamespace != "shop-web-before" {
		t.Errorf("recorded: %+v", got)
	}
}

func TestANamespaceThatVanishesMeanwhileIsNoError(t *testing.T) {
	namespace, config := viewtest.Namespace(), viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	f := newFixture(t, []runtime.Object{namespace, config}, nil)
	f.Records.PrependReactor("create", "copies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "web")
	})
	f.Watch(t)
	for _, key := range []view.ObjectKey{viewtest.KeyOf("Namespace", "", "web"), viewtest.KeyOf("ConfigMap", "web", "conf")} {
		if result, err := f.Reconcile(f.Ctx, key); err != nil || result.RequeueAfter == 0 {
			t.Errorf("%s: %v %v", key, result, err)
		}
	}
}

// A physical cluster that was restored from a backup lacks namespaces that its watch
// never reported as gone.
func TestAPhysicalNamespaceThatIsNotFoundIsMadeAgainThoughTheWatchHasIt(t *testing.T) {
	namespace, config := viewtest.Namespace(), viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	space := viewtest.CopyOf(namespace, "below-n")
	space.SetAnnotations(map[string]string{placementv1alpha1.UIDAnnotation: string(namespace.GetUID())})
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{space})
	absent := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, viewtest.PhysicalSpace)
	}
	f.Below.PrependReactor("patch", "configmaps", absent)
	f.Below.PrependReactor("get", "namespaces", absent)
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	if after := f.reconcile(t, key); after == 0 {
		t.Error("it is not tried again")
	}
	if _, ok := f.World.Physical(view.Namespaces, controller.Request{Name: viewtest.PhysicalSpace}); ok {
		t.Error("the watch is believed over the answer")
	}
	f.reconcile(t, key)
	for _, a := range f.Below.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok && a.GetResource() == view.Namespaces && p.GetName() == viewtest.PhysicalSpace {
			return
		}
	}
	t.Error("the namespace was not made again")
}

func TestARemovalIsNotAcknowledgedOnTheWordOfAnotherCluster(t *testing.T) {
	config := viewtest.Deleting(viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`))
	recorded := viewtest.Copy(config, placementv1alpha1.CopyStatus{
		State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-c",
	})
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), config}, nil, recorded)
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	f.confirmed = errors.New("another cluster answers")
	f.reconcile(t, key)
	if got := f.Record(t, key).Status.State; got != placementv1alpha1.CopySynced {
		t.Errorf("the Copy is %s", got)
	}
	f.confirmed = nil
	f.reconcile(t, key)
	if got := f.Record(t, key).Status.State; got != placementv1alpha1.CopyRemoved {
		t.Errorf("the Copy is %s", got)
	}
}

// A quota without a status lets everything in: what a controller below would make at
// once waits until the physical cluster has counted.
func TestWhatAQuotaRulesWaitsUntilItIsCounted(t *testing.T) {
	quota := viewtest.Logical("ResourceQuota", "web", "small", "up-quota", `{"east":{}}`)
	app := viewtest.Logical("Deployment", "web", "app", "up-app", `{"east":{}}`)
	space := viewtest.Object("Namespace", "", viewtest.PhysicalSpace, "down-space")
	space.SetAnnotations(map[string]string{placementv1alpha1.UIDAnnotation: string(viewtest.Namespace().GetUID())})
	below := viewtest.CopyOf(quota, "down-quota")
	hard := map[string]any{"hard": map[string]any{"pods": "2"}}
	below.Object["spec"] = hard
	record := viewtest.Copy(quota, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced})
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), quota, app}, []runtime.Object{space, below}, record)
	f.Watch(t)
	p := &pass{Reconciler: f.Reconciler, key: viewtest.KeyOf("Deployment", "web", "app"), kind: viewtest.Kind("Deployment")}
	p.read()
	ruled := func() bool {
		is, err := p.ruled(f.Ctx)
		if err != nil {
			t.Error(err)
		}
		return is
	}
	if ruled() {
		t.Fatal("nothing has been counted, but the Deployment does not wait")
	}
	counted := below.DeepCopy()
	counted.Object["status"] = hard
	gvr := viewtest.Kind("ResourceQuota").GroupVersionResource()
	if _, err := f.Below.Resource(gvr).Namespace(viewtest.PhysicalSpace).Update(f.Ctx, counted, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "the quota is counted, and the Deployment goes on", ruled)
}

// A quota that was to leave stays now, which its watch does not say yet; the Copy says that
// it has gone.
func TestWhatAQuotaRulesWaitsWhenItComesBack(t *testing.T) {
	for name, asked := range map[string]bool{"first look": false, "the server was asked before": true} {
		t.Run(name, func(t *testing.T) {
			quota := viewtest.Logical("ResourceQuota", "web", "small", "up-quota", `{"east":{"state":"Removing"}}`)
			app := viewtest.Logical("Deployment", "web", "app", "up-app", `{"east":{}}`)
			space := viewtest.Object("Namespace", "", viewtest.PhysicalSpace, "down-space")
			space.SetAnnotations(map[string]string{placementv1alpha1.UIDAnnotation: string(viewtest.Namespace().GetUID())})
			record := viewtest.Copy(quota, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyRemoved})
			f := newFixture(t, []runtime.Object{viewtest.Namespace(), quota, app}, []runtime.Object{space}, record)
			f.Watch(t)
			stays := viewtest.Logical("ResourceQuota", "web", "small", "up-quota", `{"east":{}}`)
			f.Above.PrependReactor("list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*stays}}, nil
			})
			if asked {
				f.memory.change(viewtest.KeyOf("Namespace", "", "web"), func(r *remembered) { r.asked = viewtest.Namespace().GetUID() })
				(&pass{Reconciler: f.Reconciler, key: viewtest.KeyOf("ResourceQuota", "web", "small"), kind: viewtest.Kind("ResourceQuota")}).read()
			}
			p := &pass{Reconciler: f.Reconciler, key: viewtest.KeyOf("Deployment", "web", "app"), kind: viewtest.Kind("Deployment")}
			p.read()
			if ruled, err := p.ruled(f.Ctx); err != nil || ruled {
				t.Errorf("ruled: %v (error %v), and the Deployment does not wait", ruled, err)
			}
		})
	}
}

func TestWhatNothingAboveKnowsIsReportedAndLeftAlone(t *testing.T) {
	stray := viewtest.CopyOf(viewtest.Logical("ConfigMap", "web", "conf", "gone", `{"east":{}}`), "below-c")
	f := newFixture(t, nil, []runtime.Object{stray})
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	if after := f.reconcile(t, key); after != time.Hour {
		t.Errorf("looked at again after %s, not when the list of orphans says", after)
	}
	if diff := cmp.Diff([]view.ObjectKey{key}, f.found); diff != "" {
		t.Errorf("reported (-want +got)\n%s", diff)
	}
	if n := viewtest.Count(f.Below, "delete") + viewtest.Count(f.Below, "patch"); n != 0 {
		t.Errorf("%d writes to the physical cluster", n)
	}
}

func TestAnOrphanInTheWayOfANewObjectIsNotReplaced(t *testing.T) {
	namespace, config := viewtest.Namespace(), viewtest.Logical("ConfigMap", "web", "conf", "new", `{"east":{}}`)
	stray := viewtest.CopyOf(viewtest.Logical("ConfigMap", "web", "conf", "gone", `{"east":{}}`), "below-c")
	o, _ := syncer.NewOrphan(viewtest.Target, viewtest.ControlPlane, viewtest.Kind("ConfigMap"), stray)
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{viewtest.CopyOf(namespace, "below-n"), stray}, o)
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	f.reconcile(t, key)
	if got := f.Record(t, key).Status.Reason; got != syncer.ReasonOrphanInTheWay {
		t.Errorf("the Copy says %s", got)
	}
	if n := viewtest.Count(f.Below, "delete"); n != 0 {
		t.Errorf("%d deletions on the physical cluster", n)
	}
}

func TestAControlPlaneThatForbidsARecordIsReportedOn(t *testing.T) {
	namespace, config := viewtest.Namespace(), viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	f := newFixture(t, []runtime.Object{namespace, config}, nil)
	f.Records.PrependReactor("create", "copies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "copies"}, "conf", errors.New("given up"))
	})
	f.Watch(t)
	if _, err := f.Reconcile(f.Ctx, viewtest.KeyOf("ConfigMap", "web", "conf")); err == nil {
		t.Error("no error")
	}
	if f.forbidden != 1 || viewtest.Count(f.Below, "patch") != 0 {
		t.Errorf("reported %d times, and %d applies without a record", f.forbidden, viewtest.Count(f.Below, "patch"))
	}
}

func TestAReportOfACopyWaitsForThePodsThatItCounts(t *testing.T) {
	namespace, app := viewtest.Namespace(), viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
	below := viewtest.CopyOf(app, "below-d")
	set := viewtest.Made("ReplicaSet", "app-1", "below-r", "below-d")
	set.SetCreationTimestamp(metav1.Now())
	if err := unstructured.SetNestedField(below.Object, map[string]any{"replicas": int64(1)}, "status"); err != nil {
		t.Fatal(err)
	}
	record := viewtest.Copy(app, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-d"})
	f := newFixture(t, []runtime.Object{namespace, app}, []runtime.Object{viewtest.CopyOf(namespace, "below-n"), below, set}, record)
	f.ServeApplies(t)
	f.Watch(t)
	key := viewtest.KeyOf("Deployment", "web", "app")
	f.memory.change(key, func(r *remembered) { r.settled = syncer.Fingerprint(below) })
	if after := f.reconcile(t, key); after == 0 || f.Record(t, key).Status.Observed != nil || f.memory.get(key).counting.IsZero() {
		t.Fatalf("looked at again after %s, reported %v, remembered %v", after, f.Record(t, key).Status.Observed, f.memory.get(key))
	}
	f.memory.change(key, func(r *remembered) { r.counting = r.counting.Add(-time.Minute) })
	f.reconcile(t, key)
	if f.Record(t, key).Status.Observed == nil || !f.memory.get(key).counting.IsZero() {
		t.Errorf("what waited for long is not reported, or waits on: %v", f.memory.get(key))
	}
}
