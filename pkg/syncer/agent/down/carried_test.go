package down

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

const (
	ofWidgets    = "/apis/example.com/v1"
	ofGear       = ofWidgets + "/namespaces/monitoring/widgets/gear"
	ofDefinition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
	ofServices   = "/apis/apiregistration.k8s.io/v1/apiservices"
)

func gear() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "monitoring", "name": "gear"},
	}}
}

// named is a bare object.
func named(name string, labels map[string]string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	obj.SetLabels(labels)
	return obj
}

// carrier is a Manifest that is being deleted, with its record; what it carries is of a kind that the
// physical cluster serves.
type carrier struct {
	*fixture
	p   *viewtest.Physical
	key view.ObjectKey
}

func newCarrier(t *testing.T, deleting bool) carrier {
	t.Helper()
	p := viewtest.NewPhysical(t)
	p.Serve(widgets, "Widget", true)
	p.Put(viewtest.Definitions, named("widgets.example.com", nil))
	p.Put(viewtest.APIServices, named("v1.example.com", map[string]string{"kube-aggregator.kubernetes.io/automanaged": "true"}))
	p.Put(viewtest.APIServices, named("v1.apps", map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}))
	manifest := viewtest.ManifestOf(gear())
	p.Put(widgets, viewtest.Applied(manifest))
	record := viewtest.RecordOf(manifest, "widgets")
	if deleting {
		viewtest.Deleting(manifest, "placement.atoll.dev/copies")
	}
	f := newFixtureOver(t, p, []runtime.Object{manifest}, record)
	f.Watch(t)
	key := view.KeyOf(viewtest.Kind("Manifest"), manifest)
	viewtest.Eventually(t, "the Manifest is seen", func() bool { _, seen := f.World.Object(key); return seen })
	return carrier{f, p, key}
}

// look reconciles, whatever comes of it, and returns what the record says.
func (c carrier) look(t *testing.T) placementv1alpha1.CopyStatus {
	t.Helper()
	_, _ = c.Reconcile(c.Ctx, c.key)
	return c.Record(t, c.key).Status
}

// goneKind takes away the kind, with what is of it.
func (c carrier) goneKind() {
	c.p.Remove(widgets, "monitoring", "gear")
	c.p.Unserve(widgets)
	c.p.Remove(viewtest.Definitions, "", "widgets.example.com")
}

// What has not been removed is never acknowledged as removed, whatever a physical cluster answers that
// lacks something for a while. In each case it is removed, or its end is acknowledged, once that is over.
func TestNoAnswerButTheProofIsTakenForTheEndOfWhatIsCarried(t *testing.T) {
	starting := apierrors.NewServiceUnavailable("starting")
	forbidden := apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no"))
	other := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "gear")
	fail := func(verb, path string, err error) func(carrier) func() {
		return func(c carrier) func() { return c.p.Fail(verb, path, err) }
	}
	// notServed has discovery say that there is no such group, and one more thing.
	notServed := func(more func(carrier) func()) func(carrier) func() {
		return func(c carrier) func() {
			heal, also := c.p.Fail("discover", ofWidgets, viewtest.ErrPage), more(c)
			return func() { heal(); also() }
		}
	}
	nothing := func(carrier) func() { return func() {} }
	withoutDefinition := func(more func(carrier) func()) func(carrier) func() {
		return notServed(func(c carrier) func() {
			c.p.Remove(viewtest.Definitions, "", "widgets.example.com")
			return more(c)
		})
	}
	service := func(labels map[string]string, name string) func(carrier) func() {
		return func(c carrier) func() {
			c.p.Put(viewtest.APIServices, named(name, labels))
			return func() {}
		}
	}
	for name, provoke := range map[string]func(carrier) func(){
		"discovery is silent":                                       fail("discover", ofWidgets, starting),
		"discovery is forbidden":                                    fail("discover", ofWidgets, forbidden),
		"discovery finds nothing, and the definition is there":      notServed(nothing),
		"discovery finds nothing, the definition may not be seen":   notServed(fail("get", ofDefinition, forbidden)),
		"discovery finds nothing, and the definition is not served": notServed(fail("get", ofDefinition, viewtest.ErrPage)),
		"discovery finds nothing, and of the definition is silence": notServed(fail("get", ofDefinition, starting)),
		"discovery finds nothing, another thing is not found":       notServed(fail("get", ofDefinition, other)),
		"nobody defines it, and who serves APIs is silence":         withoutDefinition(fail("compare", ofServices, starting)),
		"nobody defines it, and who serves APIs is forbidden":       withoutDefinition(fail("compare", ofServices, forbidden)),
		"nobody defines it, and who serves APIs is not served":      withoutDefinition(fail("compare", ofServices, viewtest.ErrPage)),
		"an aggregated API is down":                                 withoutDefinition(service(nil, "v1.example.com")),
		"an aggregated API of another version":                      withoutDefinition(service(nil, "v2beta1.example.com")),
		"an upgrade dropped the version":                            withoutDefinition(service(map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}, "v2.example.com")),
		"the kind may not be listed":                                fail("compare", ofWidgets+"/widgets", forbidden),
		"the kind is not found by a list":                           fail("compare", ofWidgets+"/widgets", viewtest.ErrPage),
		"the object may not be seen":                                fail("get", ofGear, forbidden),
		"the object is not found, says a proxy":                     fail("get", ofGear, viewtest.ErrPage),
		"another object is not found":                               fail("get", ofGear, other),
		"of the object is silence":                                  fail("get", ofGear, starting),
		"the watch lacks it, and the object is not found by a page": func(c carrier) func() {
			c.p.Put(widgets, gear()) // without a label it is in no list
			return c.p.Fail("get", ofGear, viewtest.ErrPage)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCarrier(t, true)
			c.p.Fail("delete", ofGear, starting) // what is asked afterwards is answered as ever
			heal := provoke(c)
			for range 3 {
				if status := c.look(t); status.State == placementv1alpha1.CopyRemoved {
					t.Fatalf("it is acknowledged: %+v", status)
				}
			}
			heal()
			if !c.p.Has(widgets, "monitoring", "gear") {
				t.Error("it is not there any more")
			}
		})
	}
}

func TestWhatIsCarriedIsAcknowledgedOnceItIsRemoved(t *testing.T) {
	for name, before := range map[string]func(carrier){
		"it is deleted":                func(carrier) {},
		"somebody else has deleted it": func(c carrier) { c.p.Remove(widgets, "monitoring", "gear") },
		"the kind is gone":             carrier.goneKind,
		"the kind is gone, with all of its group": func(c carrier) {
			c.goneKind()
			c.p.Remove(viewtest.APIServices, "", "v1.example.com")
		},
		"the definition went while it was watched": func(c carrier) {
			c.look(t) // the first step
			if c.p.Has(widgets, "monitoring", "gear") {
				c.goneKind()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCarrier(t, true)
			before(c)
			var status placementv1alpha1.CopyStatus
			viewtest.Eventually(t, "it is acknowledged", func() bool {
				status = c.look(t)
				return status.State == placementv1alpha1.CopyRemoved
			})
			if c.p.Has(widgets, "monitoring", "gear") {
				t.Errorf("it is there: %+v", status)
			}
		})
	}
}

// A server that was restored from a backup has again what the watch saw go.
func TestWhatAServerThatWentBackHasAgainIsRemovedBeforeThatIsAcknowledged(t *testing.T) {
	c := newCarrier(t, true)
	gvk := gear().GroupVersionKind()
	if _, err := c.World.Carry(c.Ctx, gvk); err != nil {
		t.Fatal(err)
	}
	c.p.Remove(widgets, "monitoring", "gear")
	viewtest.Eventually(t, "the watch saw it go", func() bool { return !c.seen() })
	c.p.Restore(widgets, viewtest.Applied(viewtest.ManifestOf(gear())))
	c.p.Fail("delete", ofGear, apierrors.NewServiceUnavailable("not now"))
	if status := c.look(t); status.State == placementv1alpha1.CopyRemoved {
		t.Fatalf("it is acknowledged: %+v", status)
	}
	if n := c.p.Asked("delete", ofGear); n == 0 {
		t.Error("nobody tried to delete it")
	}
}

// seen says that the watch has it.
func (c carrier) seen() bool {
	_, ok := c.World.CarriedBelow(c.key, widgets, controller.Request{Namespace: "monitoring", Name: "gear"})
	return ok
}

func TestTheEndOfWhatIsCarriedIsAcknowledgedOfThePhysicalClusterThatIsMeantOnly(t *testing.T) {
	c := newCarrier(t, true)
	c.goneKind()
	c.confirmed = errors.New("another one answers")
	for range 3 {
		if status := c.look(t); status.State == placementv1alpha1.CopyRemoved {
			t.Fatal("it is acknowledged")
		}
	}
	c.confirmed = nil
	if status := c.look(t); status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("it is %+v", status)
	}
}

// Green means true: the watch of a kind that went says nothing of what was there.
func TestWhatIsCarriedOfAKindThatGoesIsNotSyncedAndIsAppliedAgainOnceThatIsBack(t *testing.T) {
	c := newCarrier(t, false)
	viewtest.Eventually(t, "it is in place", func() bool { return c.look(t).State == placementv1alpha1.CopySynced })
	c.goneKind()
	viewtest.Eventually(t, "it says that it is not", func() bool {
		s := c.look(t)
		return s.State == placementv1alpha1.CopyFailed && s.Reason == "NotServed"
	})
	c.p.Serve(widgets, "Widget", true)
	viewtest.Eventually(t, "it is in place again", func() bool { return c.look(t).State == placementv1alpha1.CopySynced })
	if !c.p.Has(widgets, "monitoring", "gear") {
		t.Error("nothing is there")
	}
}

func TestWhereThereIsNoPlaceForWhatIsCarriedTheRecordSaysWhy(t *testing.T) {
	noNamespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "monitoring")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no namespace":      {noNamespace, "NamespaceMissing"},
		"it may not":        {apierrors.NewForbidden(widgets.GroupResource(), "gear", errors.New("no")), "Forbidden"},
		"it says otherwise": {viewtest.ErrPage, "New"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCarrier(t, false)
			f.p.Remove(widgets, "monitoring", "gear")
			f.p.Fail("patch", ofGear, c.err)
			viewtest.Eventually(t, "it is "+c.want, func() bool { return f.look(t).Reason == c.want })
			for _, write := range f.p.Writes() {
				if !strings.HasPrefix(write, "patch "+ofGear) {
					t.Errorf("there is %s", write)
				}
			}
		})
	}
}
