package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// strayConfig is what is below of a ConfigMap that nothing above knows.
func strayConfig(name string, uid types.UID) *unstructured.Unstructured {
	return copyBelow(logicalObject("ConfigMap", "web", name, "gone-"+uid, `{"east":{}}`), uid)
}

// listedOrphan is the Orphan of an object below, with an order about which the
// server was asked.
func listedOrphan(obj *unstructured.Unstructured, order fleetv1alpha1.OrphanOrder, exists metav1.ConditionStatus) *fleetv1alpha1.Orphan {
	o, _ := syncer.NewOrphan("east", controlPlane, kindNamed(obj.GetKind()), obj)
	o.UID, o.Generation, o.Spec.Order = "o", 2, order
	o.Annotations = map[string]string{logicalcluster.AnnotationKey: "root"}
	if exists != "" {
		o.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionObjectExists, Status: exists, ObservedGeneration: 2, Reason: "Asked"}}
	}
	return o
}

func (f *fixture) orphansListed(t *testing.T) []fleetv1alpha1.Orphan {
	t.Helper()
	list, err := f.up.atoll.FleetV1alpha1().Orphans().List(f.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func configKey(name string) objectKey {
	return objectKey{
		Resource: kindNamed("ConfigMap").GroupVersionResource(), Request: controller.Request{Cluster: "shop", Namespace: "web", Name: name},
	}
}

func TestWhatNothingAboveKnowsIsListedOnceAndLeftAlone(t *testing.T) {
	stray := strayConfig("conf", "below-c")
	f := newFixture(t, nil, []runtime.Object{stray})
	f.watch(t)
	for range 2 {
		if _, err := f.reconcile(scope.WithCluster(f.ctx, "shop"), configKey("conf")); err != nil {
			t.Fatal(err)
		}
	}
	listed := f.orphansListed(t)
	if len(listed) != 1 {
		t.Fatalf("%d Orphans", len(listed))
	}
	want := fleetv1alpha1.OrphanSpec{
		PhysicalCluster: "east",
		Object: fleetv1alpha1.PhysicalObject{
			Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: physicalSpace, Name: "conf", UID: "below-c",
		},
		Claim: fleetv1alpha1.ClaimedObject{LogicalCluster: "shop", Namespace: "web", Name: "conf", UID: "gone-below-c"},
	}
	if diff := cmp.Diff(want, listed[0].Spec); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := deletions(f.below); n != 0 {
		t.Errorf("%d deletions on the physical cluster", n)
	}
	if err := wait.PollUntilContextTimeout(f.ctx, time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		f.countOrphans()
		return f.report.orphanCounts() == fleetv1alpha1.OrphanCounts{Found: 1, Undecided: 1}, nil
	}); err != nil {
		t.Errorf("it counts %+v", f.report.orphanCounts())
	}
}

func TestOrdersForOrphans(t *testing.T) {
	const remove = fleetv1alpha1.OrphanRemove
	for name, c := range map[string]struct {
		order  fleetv1alpha1.OrphanOrder
		exists metav1.ConditionStatus
		// logical is what the server has of the claimed object, placed here.
		logical types.UID
		deleted int
		want    string
	}{
		"none":                                {"", "", "", 0, "Found"},
		"leave":                               {fleetv1alpha1.OrphanLeave, metav1.ConditionFalse, "", 0, "Left"},
		"remove, before the server was asked": {remove, "", "", 0, "Removing"},
		"remove what exists":                  {remove, metav1.ConditionTrue, "", 0, "Refused"},
		"remove what is gone":                 {remove, metav1.ConditionFalse, "", 1, "Removing"},
		"remove what is back meanwhile":       {remove, metav1.ConditionFalse, "gone-below-c", 0, "Refused"},
		"remove what another one has made":    {remove, metav1.ConditionFalse, "new", 1, "Removing"},
		"adopt without an object":             {fleetv1alpha1.OrphanAdopt, metav1.ConditionFalse, "", 0, "Refused"},
	} {
		t.Run(name, func(t *testing.T) {
			stray := strayConfig("conf", "below-c")
			o := listedOrphan(stray, c.order, c.exists)
			f := newFixture(t, nil, []runtime.Object{stray}, o)
			f.watch(t)
			if c.logical != "" { // not in the informer: the server is asked
				f.above.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, logicalObject("ConfigMap", "web", "conf", c.logical, `{"east":{}}`), nil
				})
			}
			var as []string
			f.below.PrependReactor("delete", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
				d := a.(clienttesting.DeleteActionImpl)
				as = append(as, fmt.Sprint(*d.DeleteOptions.Preconditions.UID))
				return true, nil, nil
			})
			if _, err := f.orphan(f.ctx, o.Name); err != nil {
				t.Fatal(err)
			}
			if len(as) != c.deleted || c.deleted > 0 && as[0] != "below-c" {
				t.Errorf("deleted by UID: %v", as)
			}
			if got := f.orphansListed(t)[0].Status.State; string(got) != c.want {
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
			f.below.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				short := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMapList"}}
				short.SetResourceVersion("1000")
				return true, short, nil
			})
			f.watch(t)
			if _, err := f.orphan(f.ctx, o.Name); err != nil {
				t.Fatal(err)
			}
			if n := len(f.orphansListed(t)); n != c.want {
				t.Errorf("%d Orphans are left, not %d", n, c.want)
			}
		})
	}
}

func TestAnOrphanInTheWayOfANewObjectIsNotReplaced(t *testing.T) {
	namespace, config := logicalNamespace(), logicalObject("ConfigMap", "web", "conf", "new", `{"east":{}}`)
	stray := strayConfig("conf", "below-c")
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{copyBelow(namespace, "below-n"), stray}, listedOrphan(stray, "", ""))
	f.watch(t)
	if _, err := f.reconcile(scope.WithCluster(f.ctx, "shop"), configKey("conf")); err != nil {
		t.Fatal(err)
	}
	if got := f.copyOf(t, configKey("conf")).Status.Reason; got != syncer.ReasonOrphanInTheWay {
		t.Errorf("the Copy says %s", got)
	}
	if n := deletions(f.below); n != 0 {
		t.Errorf("%d deletions on the physical cluster", n)
	}
}
