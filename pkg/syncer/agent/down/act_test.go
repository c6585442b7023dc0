package down

import (
	"errors"
	"slices"
	"strings"
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
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// placed is a ConfigMap with its Copy and its copy, and the namespace of both.
func placed(state placementv1alpha1.CopyState) (namespace, config *unstructured.Unstructured, space, copied *unstructured.Unstructured, record *placementv1alpha1.Copy) {
	namespace, config = viewtest.Namespace(), viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	record = viewtest.Copy(config, placementv1alpha1.CopyStatus{State: state, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-c"})
	return namespace, config, viewtest.CopyOf(namespace, "below-n"), viewtest.CopyOf(config, "below-c"), record
}

// deletedBelow notes the UIDs that deletions on the physical cluster name.
func (f *fixture) deletedBelow() *[]types.UID {
	var uids []types.UID
	f.Below.PrependReactor("delete", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.DeleteActionImpl).DeleteOptions
		if o.Preconditions == nil || o.Preconditions.UID == nil {
			return true, nil, errors.New("a deletion without a UID")
		}
		uids = append(uids, *o.Preconditions.UID)
		return false, nil, nil
	})
	return &uids
}

func TestADeletionIsRecordedCarriedOutByUIDAndAcknowledged(t *testing.T) {
	namespace, config, space, copied, record := placed(placementv1alpha1.CopySynced)
	f := newFixture(t, []runtime.Object{namespace, viewtest.Deleting(config, placementv1alpha1.CopiesFinalizer)}, []runtime.Object{space, copied}, record)
	deleted := f.deletedBelow()
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	f.reconcile(t, key)
	if diff := cmp.Diff([]types.UID{"below-c"}, *deleted); diff != "" {
		t.Errorf("deleted (-want +got)\n%s", diff)
	}
	if got := f.Record(t, key).Status.State; got != placementv1alpha1.CopyRemoved {
		t.Errorf("the Copy is %s", got)
	}
	if got := f.memory.get(key); got.settled != "" {
		t.Errorf("of what is gone it remembers %+v", got)
	}
}

func TestWhatIsNotInViewIsDeletedOnTheWordOfTheServerOnly(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func() (runtime.Object, error)
		deleted int
	}{
		"it is gone": {func() (runtime.Object, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "conf")
		}, 1},
		"it is there": {func() (runtime.Object, error) {
			return viewtest.Logical("ConfigMap", "web", "conf", "c", `{"west":{}}`), nil
		}, 0},
		"another one has its name": {func() (runtime.Object, error) {
			return viewtest.Logical("ConfigMap", "web", "conf", "d", `{"west":{}}`), nil
		}, 1},
		"the logical cluster is not there": {func() (runtime.Object, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Group: "tenancy.atoll.dev", Resource: "logicalclusters"}, "shop")
		}, 0},
		"no answer": {func() (runtime.Object, error) { return nil, errors.New("connection refused") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, _, space, copied, record := placed(placementv1alpha1.CopySynced)
			f := newFixture(t, []runtime.Object{namespace}, []runtime.Object{space, copied}, record)
			deleted := f.deletedBelow()
			f.Above.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				obj, err := c.answer()
				return true, obj, err
			})
			f.Watch(t)
			_, err := f.Reconcile(f.Ctx, viewtest.KeyOf("ConfigMap", "web", "conf"))
			if len(*deleted) != c.deleted {
				t.Errorf("%d deletions, not %d: %v", len(*deleted), c.deleted, err)
			}
		})
	}
}

// A physical namespace takes along what is in it: a watch of Copies that is late does not
// prove that there is nothing.
func TestANamespaceThatLeavesGoesOnlyWhenTheServerHasNothingInItEither(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, stray, former bool
		want                    []types.UID
	}{
		"the server has a Copy in it":              {recorded: true},
		"the server has none":                      {want: []types.UID{"below-n"}},
		"what has no Copy is in it, and an Orphan": {stray: true},
		"the Copy of its name meant another one":   {stray: true, former: true},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, space, own := leaving()
			_, config, _, copied, record := placed(placementv1alpha1.CopySynced)
			below := []runtime.Object{space}
			if c.stray {
				below = append(below, copied)
			}
			records := []runtime.Object{own}
			if c.former {
				records = append(records, viewtest.Copy(config, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyRemoved, PhysicalNamespace: viewtest.PhysicalSpace}))
			}
			f := newFixture(t, []runtime.Object{namespace, config}, below, records...)
			deleted := f.deletedBelow()
			f.Watch(t)
			f.Records.PrependReactor("list", "copies", func(clienttesting.Action) (bool, runtime.Object, error) {
				list := &placementv1alpha1.CopyList{Items: []placementv1alpha1.Copy{*own}}
				if c.recorded {
					list.Items = append(list.Items, *record)
				}
				return true, list, nil
			})
			f.reconcile(t, viewtest.KeyOf("Namespace", "", "web"))
			if diff := cmp.Diff(c.want, *deleted); diff != "" {
				t.Errorf("deleted (-want +got)\n%s", diff)
			}
		})
	}
}

// leaving is a Namespace that leaves the target, with its Copy and the physical one.
func leaving() (namespace, space *unstructured.Unstructured, own *placementv1alpha1.Copy) {
	namespace, _, space, _, _ = placed(placementv1alpha1.CopySynced)
	annotations := namespace.GetAnnotations()
	annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{"state":"Removing"}}`
	namespace.SetAnnotations(annotations)
	return namespace, space, viewtest.Copy(namespace, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-n"})
}

// What gets its Copy after the server was asked whether there is any is not put into the namespace that goes then.
func TestNothingIsPutIntoANamespaceThatIsAboutToBeDeleted(t *testing.T) {
	namespace, space, own := leaving()
	f := newFixture(t, []runtime.Object{namespace, viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)}, []runtime.Object{space}, own)
	key, put := viewtest.KeyOf("ConfigMap", "web", "conf"), make(chan time.Duration, 1)
	deleted := false
	f.Below.PrependReactor("delete", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		deleted = true
		go func() { put <- f.reconcile(t, key) }() // a write below waits for the end of this one
		select {
		case after := <-put:
			if after == 0 {
				t.Error("what was not put there is not looked at again")
			}
		case <-time.After(2 * time.Second):
			t.Error("something is put there")
		}
		return false, nil, nil
	})
	f.Watch(t)
	f.reconcile(t, viewtest.KeyOf("Namespace", "", "web"))
	if !deleted || f.Record(t, key).Status.State != placementv1alpha1.CopyPending {
		t.Error("it was not put to the test")
	}
	if f.closing.has(viewtest.PhysicalSpace) {
		t.Error("nothing is put into the namespace ever again")
	}
}

// A physical cluster that was restored from a backup has things in the namespace of which the watch caches know nothing
// yet.
func TestANamespaceThatLeavesStaysIfThePhysicalClusterMayHaveGoneBack(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		want    int
	}{
		"the list of its claims is of before what is known": {"999", 0},
		"it is as new": {"1000", 1},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, space, own := leaving()
			f := newFixture(t, []runtime.Object{namespace}, []runtime.Object{space}, own)
			deleted, version := f.deletedBelow(), "1000"
			f.Below.PrependReactor("list", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
				list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaimList"}}
				list.SetResourceVersion(version)
				return true, list, nil
			})
			f.Watch(t)
			version = c.version
			f.reconcile(t, viewtest.KeyOf("Namespace", "", "web"))
			if len(*deleted) != c.want {
				t.Errorf("%d deletions, not %d", len(*deleted), c.want)
			}
		})
	}
}

func TestARefusalIsOnTheCopyAndInAnEventAndTriedAgainEverLater(t *testing.T) {
	namespace, config, space, _, record := placed(placementv1alpha1.CopyPending)
	record.Status = placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, Reason: "New", PhysicalNamespace: viewtest.PhysicalSpace}
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{space}, record)
	f.Below.PrependReactor("patch", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "conf", errors.New("a policy"))
	})
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	first := f.reconcile(t, key)
	got := f.Record(t, key).Status
	if got.State != placementv1alpha1.CopyFailed || got.Reason != "Forbidden" || !strings.Contains(got.Message, "a policy") {
		t.Errorf("the Copy says %s %s: %s", got.State, got.Reason, got.Message)
	}
	events, err := f.Kube.CoreV1().Events("web").List(f.Ctx, metav1.ListOptions{})
	if err != nil || len(events.Items) != 1 || events.Items[0].Type != corev1.EventTypeWarning || events.Items[0].InvolvedObject.UID != "c" {
		t.Errorf("events: %+v, %v", events.Items, err)
	}
	if second := f.reconcile(t, key); first == 0 || second <= first {
		t.Errorf("tried again after %s, and then after %s", first, second)
	}
}

func TestSilenceOfThePhysicalClusterLeavesTheRecordAsItIs(t *testing.T) {
	namespace, config, space, copied, record := placed(placementv1alpha1.CopySynced)
	config.SetLabels(map[string]string{"changed": "yes"})
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{space, copied}, record)
	f.Below.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	if after := f.reconcile(t, key); after == 0 || after > 15*time.Second {
		t.Errorf("tried again after %s", after)
	}
	if diff := cmp.Diff(record.Status, f.Record(t, key).Status); diff != "" {
		t.Errorf("the Copy says something else (-before +after)\n%s", diff)
	}
}

func TestAKindThatThePhysicalClusterDoesNotServeIsAFailureThatSaysSo(t *testing.T) {
	namespace, config, _, _, _ := placed("")
	f := newFixture(t, []runtime.Object{namespace, config}, nil)
	f.Watch(t)
	p := &pass{Reconciler: f.Reconciler, key: viewtest.KeyOf("ConfigMap", "web", "conf"), kind: viewtest.Kind("ConfigMap")}
	p.key.Resource.Resource = "unserved"
	p.in.Logical = config
	p.readPhysical()
	if p.in.Failure == nil || p.in.Failure.Reason != "NotServed" {
		t.Errorf("%+v", p.in.Failure)
	}
}

func TestANamespaceThatCannotBeMadeIsTheFailureOfWhatIsInIt(t *testing.T) {
	namespace, config, _, _, _ := placed("")
	f := newFixture(t, []runtime.Object{namespace, config}, nil)
	f.Below.PrependReactor("patch", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), viewtest.PhysicalSpace, errors.New("no namespaces"))
	})
	f.Watch(t)
	key := viewtest.KeyOf("ConfigMap", "web", "conf")
	f.reconcile(t, key)
	got := f.Record(t, key).Status
	if got.State != placementv1alpha1.CopyFailed || got.Reason != "NamespaceForbidden" {
		t.Errorf("the Copy says %s %s: %s", got.State, got.Reason, got.Message)
	}
}

func TestAPodWhoseRuntimeIsNotOfferedFails(t *testing.T) {
	namespace, _, space, _, _ := placed("")
	pod := viewtest.Logical("Pod", "web", "app", "p", `{"east":{}}`)
	annotations := pod.GetAnnotations()
	annotations[placementv1alpha1.RuntimeHandlerAnnotation] = "gvisor"
	annotations[logicalcluster.AnnotationKey] = "shop"
	pod.SetAnnotations(annotations)
	f := newFixture(t, []runtime.Object{namespace, pod}, []runtime.Object{space})
	f.Watch(t)
	key := viewtest.KeyOf("Pod", "web", "app")
	f.reconcile(t, key)
	if got := f.Record(t, key).Status.Reason; got != "NoRuntimeClass" {
		t.Errorf("the Copy says %s", got)
	}
}

// The class of an admin brings a toleration that tenants may not have. It is neither reached by its handler nor
// by its name, until it is permitted.
func TestAPodRunsInNoClassThatIsNotPermitted(t *testing.T) {
	for name, handler := range map[string]string{"by its handler": "gvisor", "by its name": ""} {
		t.Run(name, func(t *testing.T) {
			namespace, _, space, _, _ := placed("")
			pod := viewtest.Logical("Pod", "web", "app", "p", `{"east":{}}`)
			annotations := pod.GetAnnotations()
			annotations[logicalcluster.AnnotationKey] = "shop"
			if handler != "" {
				annotations[placementv1alpha1.RuntimeHandlerAnnotation] = handler
			}
			pod.SetAnnotations(annotations)
			pod.Object["spec"] = map[string]any{"runtimeClassName": "pool", "containers": []any{map[string]any{"name": "c", "image": "i"}}}
			class := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": map[string]any{"name": "pool"},
				"handler": "gvisor", "scheduling": map[string]any{"tolerations": []any{map[string]any{"key": "pool", "operator": "Exists"}}}}}
			f := newFixture(t, []runtime.Object{namespace, pod}, []runtime.Object{space, class})
			var permits boundary.Permits
			f.Permits = func() boundary.Permits { return permits }
			applied := f.ServeApplies(t)
			f.Watch(t)
			key := viewtest.KeyOf("Pod", "web", "app")
			f.reconcile(t, key)
			if got := f.Record(t, key).Status; got.Reason != "NoRuntimeClass" || len(applied()) > 0 {
				t.Fatalf("the Copy says %s, and applied is %v", got.Reason, applied())
			}
			permits.RuntimeClasses = []string{"pool"}
			viewtest.Eventually(t, "the pod is made", func() bool {
				f.reconcile(t, key)
				return slices.Contains(applied(), "pods app")
			})
		})
	}
}
