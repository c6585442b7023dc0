package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

const served = "/apis/example.com/v1"

// kindOf is one of many kinds that a physical cluster serves.
func kindOf(n int) (schema.GroupVersionKind, schema.GroupVersionResource) {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	return gv.WithKind(fmt.Sprintf("Thing%d", n)), gv.WithResource(fmt.Sprintf("things%d", n))
}

// thing is an object of a kind.
func thing(n int) *unstructured.Unstructured {
	gvk, _ := kindOf(n)
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	obj.SetName(fmt.Sprintf("thing-%d", n))
	return obj
}

// carried is what a view has of what is carried.
func carried(w *viewtest.World, n int) *unstructured.Unstructured {
	_, gvr := kindOf(n)
	key := view.KeyOf(viewtest.Kind("Manifest"), viewtest.ManifestOf(thing(n)))
	obj, _ := w.CarriedBelow(key, gvr, controller.Request{Name: thing(n).GetName()})
	return obj
}

func TestAKindThatIsCarriedIsWatchedOnce(t *testing.T) {
	p := viewtest.NewPhysical(t)
	gvk, gvr := kindOf(1)
	p.Serve(gvr, gvk.Kind, false)
	p.Put(gvr, viewtest.Applied(viewtest.ManifestOf(thing(1))))
	p.Put(gvr, &unstructured.Unstructured{Object: map[string]any{"apiVersion": served[len("/apis/"):], "kind": gvk.Kind, "metadata": map[string]any{"name": "of-others"}}})
	w := viewtest.NewOver(t, p, nil)
	w.Watch(t)
	for range 3 {
		kind, err := w.Carry(w.Ctx, gvk)
		if want := (view.CarriedKind{Resource: gvr}); err != nil || kind != want {
			t.Fatalf("got %+v, %v", kind, err)
		}
	}
	if carried(w, 1) == nil {
		t.Error("what is carried is not there after the first list")
	}
	if n := p.Asked("list", served+"/things1"); n != 1 {
		t.Errorf("%d lists", n)
	}
	if got := len(w.CarriedMarked(view.KeyOf(viewtest.Kind("Manifest"), viewtest.ManifestOf(thing(1))))); got != 1 {
		t.Errorf("%d objects have the mark", got)
	}
}

func TestWhatThePhysicalClusterDoesNotServeOrSayIsNotWatched(t *testing.T) {
	gvk, gvr := kindOf(1)
	forbidden := apierrors.NewForbidden(gvr.GroupResource(), "", errors.New("no"))
	for name, c := range map[string]struct {
		verb, path string
		err        error
		is         func(error) bool
	}{
		"it does not serve the group":        {"discover", served, viewtest.ErrPage, func(err error) bool { return errors.Is(err, view.ErrNotServed) }},
		"it serves another kind of the name": {"", "", nil, func(err error) bool { return errors.Is(err, view.ErrNotServed) }},
		"it does not say what it serves":     {"discover", served, apierrors.NewServiceUnavailable("starting"), syncer.IsSilence},
		"what it serves may not be known":    {"discover", served, forbidden, apierrors.IsForbidden},
		"it may not be listed":               {"compare", served + "/things1", forbidden, apierrors.IsForbidden},
		"it is not served after all":         {"compare", served + "/things1", viewtest.ErrPage, apierrors.IsNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			p := viewtest.NewPhysical(t)
			if name == "it serves another kind of the name" {
				p.Serve(gvr, "Other", false)
			} else {
				p.Serve(gvr, gvk.Kind, false)
			}
			w := viewtest.NewOver(t, p, nil)
			w.Watch(t)
			heal := p.Fail(c.verb, c.path, c.err)
			if _, err := w.Carry(w.Ctx, gvk); err == nil || !c.is(err) || !errors.Is(err, view.ErrNotServed) && c.path == "" {
				t.Errorf("got %v", err)
			}
			if n := p.Asked("list", served+"/things1"); n != 0 {
				t.Errorf("%d lists by a watch", n)
			}
			heal()
			p.Serve(gvr, gvk.Kind, false)
			if _, err := w.Carry(w.Ctx, gvk); err != nil {
				t.Errorf("once it is served: %v", err)
			}
		})
	}
}

func TestNoMoreKindsAreWatchedThanMayBeAndRoomIsMadeOfThoseThatNothingCarries(t *testing.T) {
	p := viewtest.NewPhysical(t)
	var above []runtime.Object
	for n := range fleetv1alpha1.MaxManifestKinds + 1 {
		gvk, gvr := kindOf(n)
		p.Serve(gvr, gvk.Kind, false)
		above = append(above, viewtest.ManifestOf(thing(n)))
	}
	manifest := above[0].(*unstructured.Unstructured)
	w := viewtest.NewOver(t, p, above)
	w.Watch(t)
	manifests := viewtest.Kind("Manifest").GroupVersionResource()
	viewtest.Eventually(t, "the Manifests are seen", func() bool { return len(slices.Collect(w.Objects(manifests))) == len(above) })
	for n := range fleetv1alpha1.MaxManifestKinds {
		gvk, _ := kindOf(n)
		if _, err := w.Carry(w.Ctx, gvk); err != nil {
			t.Fatal(err)
		}
	}
	last, _ := kindOf(fleetv1alpha1.MaxManifestKinds)
	if _, err := w.Carry(w.Ctx, last); !errors.Is(err, view.ErrTooManyKinds) {
		t.Fatalf("one more: %v", err)
	}
	if err := w.Above.Tracker().Delete(manifests, manifest.GetNamespace(), manifest.GetName()); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "it is gone", func() bool { _, there := w.Object(view.KeyOf(viewtest.Kind("Manifest"), manifest)); return !there })
	if _, err := w.Carry(w.Ctx, last); err != nil {
		t.Fatalf("there is room now: %v", err)
	}
	if _, gvr := kindOf(0); carriedWatch(t, w, p, gvr) {
		t.Error("the kind that nothing carries is still watched")
	}
	first, _ := kindOf(0)
	if _, err := w.Carry(w.Ctx, first); !errors.Is(err, view.ErrTooManyKinds) {
		t.Errorf("the one that made room: %v", err)
	}
}

// carriedWatch says whether what comes of a kind is seen, by something of another kind that comes later.
func carriedWatch(t *testing.T, w *viewtest.World, p *viewtest.Physical, gvr schema.GroupVersionResource) bool {
	t.Helper()
	p.Put(gvr, viewtest.Applied(viewtest.ManifestOf(thing(0))))
	_, seen := kindOf(1)
	p.Put(seen, viewtest.Applied(viewtest.ManifestOf(thing(1))))
	viewtest.Eventually(t, "what comes later is seen", func() bool { return carried(w, 1) != nil })
	return carried(w, 0) != nil
}

// A record keeps the watch of a kind as well: somebody has to see it go.
func TestNoRoomIsMadeOfAKindThatARecordHas(t *testing.T) {
	p := viewtest.NewPhysical(t)
	var records []runtime.Object
	for n := range fleetv1alpha1.MaxManifestKinds + 1 {
		gvk, gvr := kindOf(n)
		p.Serve(gvr, gvk.Kind, false)
		c := viewtest.RecordOf(viewtest.ManifestOf(thing(n)), gvr.Resource)
		c.Status.State = placementv1alpha1.CopyRemoving
		records = append(records, c)
	}
	w := viewtest.NewOver(t, p, nil, records...)
	w.Watch(t)
	for n := range fleetv1alpha1.MaxManifestKinds + 1 {
		gvk, _ := kindOf(n)
		if _, err := w.Carry(w.Ctx, gvk); errors.Is(err, view.ErrTooManyKinds) != (n == fleetv1alpha1.MaxManifestKinds) {
			t.Fatalf("kind %d: %v", n, err)
		}
	}
}

func TestOfAKindThatGoesAllIsLookedAtAndNothingIsListedAnyMore(t *testing.T) {
	p := viewtest.NewPhysical(t)
	gvk, gvr := kindOf(1)
	p.Serve(gvr, gvk.Kind, false)
	below := viewtest.Applied(viewtest.ManifestOf(thing(1)))
	p.Put(gvr, below)
	w := viewtest.NewOver(t, p, nil)
	w.Watch(t)
	changes := make(chan syncer.Change, 10)
	w.Handle(view.Handlers{Below: func(c syncer.Change) { changes <- c }})
	next := func() syncer.Change {
		select {
		case c := <-changes:
			return c
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is said of it")
			return syncer.Change{}
		}
	}
	for range 3 {
		if _, err := w.Carry(w.Ctx, gvk); err != nil {
			t.Fatal(err)
		}
		if c := next(); c.Old != nil || c.New == nil {
			t.Errorf("it came: %+v", c)
		}
		p.Unserve(gvr)
		if c := next(); c.Old == nil || c.New != nil || c.Old.GetUID() != below.GetUID() {
			t.Errorf("the kind is gone: %+v", c)
		}
		if carried(w, 1) != nil {
			t.Error("it is shown as if it were there")
		}
		if _, err := w.Carry(w.Ctx, gvk); !errors.Is(err, view.ErrNotServed) {
			t.Errorf("the kind is carried: %v", err)
		}
		p.Serve(gvr, gvk.Kind, false)
	}
	// Of each time there is the list of its watch, and the one that found the kind gone.
	if n := p.Asked("list", served+"/things1"); n != 6 {
		t.Errorf("%d lists", n)
	}
}

func TestNobodyWaitsForTheFirstListOfAWatchThatHasEnded(t *testing.T) {
	p := viewtest.NewPhysical(t)
	gvk, gvr := kindOf(1)
	p.Serve(gvr, gvk.Kind, false)
	p.Fail("list", served+"/things1", apierrors.NewServiceUnavailable("not now"))
	w := viewtest.NewOver(t, p, nil)
	w.Watch(t)
	done := make(chan error)
	go func() { _, err := w.Carry(w.Ctx, gvk); done <- err }()
	viewtest.Eventually(t, "it is listed", func() bool { return p.Asked("list", served+"/things1") > 0 })
	w.DoubtKind(gvk)
	select {
	case err := <-done:
		if err == nil || !syncer.IsSilence(err) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits on")
	}
}

func TestNoWatchBeginsAfterTheSessionHasEnded(t *testing.T) {
	p := viewtest.NewPhysical(t)
	gvk, gvr := kindOf(1)
	p.Serve(gvr, gvk.Kind, false)
	other, otherResource := kindOf(2)
	p.Serve(otherResource, other.Kind, false)
	w := viewtest.NewOver(t, p, nil)
	ctx, end := context.WithCancel(w.Ctx)
	var running sync.WaitGroup
	if err := w.Start(ctx, &running); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Carry(w.Ctx, gvk); err != nil {
		t.Fatal(err)
	}
	end()
	running.Wait() // all watches end, that of what is carried, too
	for _, kind := range []schema.GroupVersionKind{gvk, other} {
		if _, err := w.Carry(w.Ctx, kind); err == nil {
			t.Errorf("%s is watched", kind.Kind)
		}
	}
	running.Wait()
	if a, b := p.Asked("list", served+"/things1"), p.Asked("list", served+"/things2"); a != 1 || b != 0 {
		t.Errorf("%d and %d lists", a, b)
	}
}
