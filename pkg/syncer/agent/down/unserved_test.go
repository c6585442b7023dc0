package down

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

const ofCopy = ofWidgets + "/namespaces/" + viewtest.PhysicalSpace + "/widgets/gear"

// leaver is an object with a record that is to leave a physical cluster, of a kind that this is not known to
// serve: its role or a part of its API server is missing, for a moment or for good.
type leaver struct {
	*fixture
	p   *viewtest.Physical
	key view.ObjectKey
}

// newLeaver makes one; recorded is the UID of the copy in the record, and there has it be there.
func newLeaver(t *testing.T, widget *unstructured.Unstructured, recorded types.UID, there bool) leaver {
	t.Helper()
	p := viewtest.NewPhysical(t)
	p.Serve(widgets, "Widget", true)
	p.Put(viewtest.Definitions, named("widgets.example.com", nil))
	p.Put(viewtest.APIServices, named("v1.example.com", map[string]string{"kube-aggregator.kubernetes.io/automanaged": "true"}))
	if there {
		p.Put(widgets, viewtest.CopyOf(widget, "below"))
	}
	record := viewtest.Copy(widget, placementv1alpha1.CopyStatus{
		State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: recorded,
	})
	f := fixtureOf(viewtest.NewUnserved(t, p, []runtime.Object{viewtest.Namespace(), widget}, record))
	f.Watch(t)
	key := view.KeyOf(viewtest.Widgets, widget)
	viewtest.Eventually(t, "the object is seen", func() bool { _, seen := f.World.Object(key); return seen })
	return leaver{f, p, key}
}

func deletedWidget() *unstructured.Unstructured {
	return viewtest.Deleting(viewtest.Logical("Widget", "web", "gear", "w", `{"east":{}}`), placementv1alpha1.CopiesFinalizer)
}

func movedWidget() *unstructured.Unstructured {
	return viewtest.Logical("Widget", "web", "gear", "w", `{"east":{"state":"Removing"},"west":{}}`)
}

// look reconciles, whatever comes of it, and returns what the record says.
func (l leaver) look(t *testing.T) placementv1alpha1.CopyStatus {
	t.Helper()
	_, _ = l.Reconcile(l.Ctx, l.key)
	return l.Record(t, l.key).Status
}

func TestAKindThatIsNotServedForAWhileIsNoProofThatACopyIsGone(t *testing.T) {
	forbidden := apierrors.NewForbidden(widgets.GroupResource(), "gear", errors.New("no"))
	starting := apierrors.NewServiceUnavailable("starting")
	fail := func(verb, path string, err error) func(leaver) {
		return func(l leaver) { l.p.Fail(verb, path, err) }
	}
	// page has the object not found, as of a kind that is not served, and one more thing.
	page := func(more func(leaver)) func(leaver) {
		return func(l leaver) { l.p.Fail("get", ofCopy, viewtest.ErrPage); more(l) }
	}
	undefined := func(l leaver) { l.p.Remove(viewtest.Definitions, "", "widgets.example.com") }
	for name, c := range map[string]struct {
		provoke func(leaver)
		reason  string
	}{
		"it may not be seen":                       {fail("get", ofCopy, forbidden), "Forbidden"},
		"of it is silence":                         {fail("get", ofCopy, starting), ""},
		"it may be seen, and not be deleted":       {fail("delete", ofCopy, forbidden), "Forbidden"},
		"its definition is there":                  {page(func(leaver) {}), "NotServed"},
		"its definition may not be seen":           {page(fail("get", ofDefinition, forbidden)), "NotServed"},
		"of its definition is silence":             {page(fail("get", ofDefinition, starting)), ""},
		"nobody defines it, and APIs are a secret": {page(func(l leaver) { undefined(l); l.p.Fail("compare", ofServices, forbidden) }), "NotServed"},
		"an aggregated API is down": {page(func(l leaver) {
			undefined(l)
			l.p.Put(viewtest.APIServices, named("v1.example.com", nil))
		}), "NotServed"},
	} {
		for of, widget := range map[string]func() *unstructured.Unstructured{"deleted": deletedWidget, "moved": movedWidget} {
			t.Run(name+", "+of, func(t *testing.T) {
				l := newLeaver(t, widget(), "below", true)
				c.provoke(l)
				var status placementv1alpha1.CopyStatus
				for range 3 {
					if status = l.look(t); status.State == placementv1alpha1.CopyRemoved {
						t.Fatalf("it is acknowledged: %+v", status)
					}
				}
				if c.reason != "" && (status.State != placementv1alpha1.CopyRemoving || status.Reason != c.reason || status.Message == "") {
					t.Errorf("the record says %s %s: %s", status.State, status.Reason, status.Message)
				}
				if !l.p.Has(widgets, viewtest.PhysicalSpace, "gear") {
					t.Error("it is not there any more")
				}
			})
		}
	}
}

func TestACopyOfAKindThatIsNotServedIsRemovedOnceThatIsProven(t *testing.T) {
	for name, c := range map[string]struct {
		recorded types.UID
		there    bool
		provoke  func(leaver)
	}{
		"it is there all the same, and deleted": {"below", true, func(leaver) {}},
		"it is not there":                       {"below", false, func(leaver) {}},
		"the definition went with it": {"below", false, func(l leaver) {
			l.p.Unserve(widgets)
			l.p.Remove(viewtest.Definitions, "", "widgets.example.com")
		}},
		"it was never made": {"", false, func(l leaver) { l.p.Unserve(widgets) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaver(t, deletedWidget(), c.recorded, c.there)
			c.provoke(l)
			var status placementv1alpha1.CopyStatus
			viewtest.Eventually(t, "it is acknowledged", func() bool {
				status = l.look(t)
				return status.State == placementv1alpha1.CopyRemoved
			})
			if l.p.Has(widgets, viewtest.PhysicalSpace, "gear") {
				t.Errorf("it is there: %+v", status)
			}
		})
	}
}
