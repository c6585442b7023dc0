package orphans

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kcp-dev/logicalcluster/v3"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

var (
	widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widgets    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

const ofGear = "/apis/example.com/v1/namespaces/monitoring/widgets/gear"

// gear is what a Manifest carried that a restored backup does not know.
func gear() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "monitoring", "name": "gear"}}}
	obj.SetGroupVersionKind(widgetKind)
	return viewtest.Applied(viewtest.ManifestOf(obj))
}

func newCarriedFixture(t *testing.T, records ...runtime.Object) (*fixture, *viewtest.Physical) {
	t.Helper()
	p := viewtest.NewPhysical(t)
	p.Serve(widgets, widgetKind.Kind, true)
	p.Put(widgets, gear())
	f := &fixture{World: viewtest.NewOver(t, p, nil, records...)}
	f.Reconciler = New(Config{
		View: f.World.View, Up: f.World.Up(), Down: f.World.Down(),
		Counted: func(n fleetv1alpha1.OrphanCounts) { f.counts = n },
	})
	f.Watch(t)
	return f, p
}

var gearKey = view.KeyOf(viewtest.Kind("Manifest"), viewtest.ManifestOf(gear()))

func TestWhatAManifestCarriedThatIsGoneIsListedAndWhatOthersMadeOfItIsNot(t *testing.T) {
	f, p := newCarriedFixture(t)
	child := gear()
	child.SetName("gear-1")
	child.SetUID("child")
	p.Put(widgets, child)
	if _, err := f.View.Carry(f.Ctx, widgetKind); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.Found(f.Ctx, viewtest.Kind("Manifest"), gearKey); err != nil {
			t.Fatal(err)
		}
	}
	listed := f.Listed(t)
	if len(listed) != 1 || listed[0].Spec.Object.Name != "gear" || listed[0].Spec.Object.Resource != "widgets" || listed[0].Spec.Claim.LogicalCluster != "root" {
		t.Fatalf("listed are %+v", listed)
	}
	if writes := p.Writes(); len(writes) != 0 {
		t.Errorf("below is written: %v", writes)
	}
}

// listedGear is its Orphan, with an order about which the server was asked.
func listedGear(order fleetv1alpha1.OrphanOrder, exists metav1.ConditionStatus) *fleetv1alpha1.Orphan {
	o, _ := syncer.NewCarriedOrphan(viewtest.Target, viewtest.ControlPlane, viewtest.Kind("Manifest"), "widgets", gear())
	o.UID, o.Generation, o.Spec.Order = "o", 2, order
	o.Annotations = map[string]string{logicalcluster.AnnotationKey: "root"}
	if exists != "" {
		o.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionObjectExists, Status: exists, ObservedGeneration: 2, Reason: "Asked"}}
	}
	return o
}

func TestWhatAManifestCarriedIsRemovedByOrderOnceItsManifestIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		order   fleetv1alpha1.OrphanOrder
		exists  metav1.ConditionStatus
		removed bool
	}{
		"without an order":        {"", metav1.ConditionFalse, false},
		"left":                    {fleetv1alpha1.OrphanLeave, metav1.ConditionFalse, false},
		"nobody was asked":        {fleetv1alpha1.OrphanRemove, "", false},
		"the Manifest exists":     {fleetv1alpha1.OrphanRemove, metav1.ConditionTrue, false},
		"the Manifest is gone":    {fleetv1alpha1.OrphanRemove, metav1.ConditionFalse, true},
		"adopted by no Manifest":  {fleetv1alpha1.OrphanAdopt, metav1.ConditionFalse, false},
		"it is not known whether": {fleetv1alpha1.OrphanRemove, metav1.ConditionUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := listedGear(c.order, c.exists)
			f, p := newCarriedFixture(t, o)
			for range 2 {
				if _, err := f.Reconcile(f.Ctx, o.Name); err != nil {
					t.Fatal(err)
				}
			}
			if there := p.Has(widgets, "monitoring", "gear"); there == c.removed {
				t.Errorf("it is there: %t", there)
			}
			if listed := len(f.Listed(t)); (listed == 1) == c.removed {
				t.Errorf("%d are listed", listed)
			}
		})
	}
}

// That it is gone is not to be concluded of a kind that is not served, nor of a refusal.
func TestAnOrphanOfAKindThatIsNotServedStaysListed(t *testing.T) {
	for name, err := range map[string]error{
		"a page":   viewtest.ErrPage,
		"silence":  apierrors.NewServiceUnavailable("starting"),
		"refused":  apierrors.NewForbidden(widgets.GroupResource(), "gear", errors.New("no")),
		"another":  apierrors.NewNotFound(widgets.GroupResource(), "other"),
		"its kind": apierrors.NewNotFound(widgets.GroupResource(), ""),
	} {
		t.Run(name, func(t *testing.T) {
			o := listedGear(fleetv1alpha1.OrphanRemove, metav1.ConditionFalse)
			f, p := newCarriedFixture(t, o)
			definition := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": widgets.GroupResource().String()}}}
			p.Put(viewtest.Definitions, definition)
			p.Fail("get", ofGear, err)
			_, _ = f.Reconcile(f.Ctx, o.Name)
			if len(f.Listed(t)) != 1 || !p.Has(widgets, "monitoring", "gear") {
				t.Error("it is not listed any more, or gone")
			}
			p.Remove(widgets, "monitoring", "gear")
			p.Unserve(widgets)
			p.Remove(viewtest.Definitions, "", definition.GetName())
			_, _ = f.Reconcile(f.Ctx, o.Name)
			proven := errors.Is(err, viewtest.ErrPage) || apierrors.IsNotFound(err)
			if left := len(f.Listed(t)); (left == 0) != proven {
				t.Errorf("the kind is gone, and %d are listed", left)
			}
		})
	}
}

func TestADeletionOfWhatAManifestCarriedThatIsRefusedIsSaidOnTheOrphanWithTheWayOut(t *testing.T) {
	o := listedGear(fleetv1alpha1.OrphanRemove, metav1.ConditionFalse)
	f, p := newCarriedFixture(t, o)
	p.Fail("delete", ofGear, apierrors.NewForbidden(widgets.GroupResource(), "gear", errors.New("no")))
	if _, err := f.Reconcile(f.Ctx, o.Name); err != nil {
		t.Fatal(err)
	}
	if got := f.Listed(t)[0].Status; got.State != fleetv1alpha1.OrphanRemoving || got.Reason != "Forbidden" {
		t.Errorf("it says %+v", got)
	}
}

func TestAnOrphanGoesOnceAManifestHasTakenItUp(t *testing.T) {
	o := listedGear("", metav1.ConditionFalse)
	record := viewtest.RecordOf(viewtest.ManifestOf(gear()), "widgets")
	record.Spec.Object.UID, record.Status.State = "another", placementv1alpha1.CopySynced
	f, p := newCarriedFixture(t, o, record)
	if _, err := f.Reconcile(f.Ctx, o.Name); err != nil {
		t.Fatal(err)
	}
	if len(f.Listed(t)) != 0 || !p.Has(widgets, "monitoring", "gear") {
		t.Error("it is still listed, or gone")
	}
}
