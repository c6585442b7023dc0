package view_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// builtinWith is the catalog of the built-in kinds, changed.
func builtinWith(t *testing.T, change func([]workload.Kind) []workload.Kind) workload.Catalog {
	t.Helper()
	c, err := workload.New(change(slices.Clone(workload.Builtin().All()))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// insert puts a kind before those that are only mirrored.
func insert(kind workload.Kind) func([]workload.Kind) []workload.Kind {
	return func(all []workload.Kind) []workload.Kind {
		at := slices.IndexFunc(all, func(k workload.Kind) bool { return k.Role == workload.Mirrored })
		return slices.Insert(all, at, kind)
	}
}

func without(resource string) func([]workload.Kind) []workload.Kind {
	return func(all []workload.Kind) []workload.Kind {
		return slices.DeleteFunc(all, func(k workload.Kind) bool { return k.Resource == resource })
	}
}

// requests counts the requests of a verb by resource.
func requests(c *dynamicfake.FakeDynamicClient, verb string) map[string]int {
	n := map[string]int{}
	for _, a := range c.Actions() {
		if a.GetVerb() == verb {
			n[a.GetResource().Resource]++
		}
	}
	return n
}

// more is what was asked since before, of lists and watches of both sides.
func more(w *viewtest.World, before map[string]map[string]int) map[string][]string {
	out := map[string][]string{}
	for side, now := range asked(w) {
		for resource, n := range now {
			for range n - before[side][resource] {
				out[side] = append(out[side], resource)
			}
		}
		slices.Sort(out[side])
	}
	maps.DeleteFunc(out, func(_ string, r []string) bool { return len(r) == 0 })
	return out
}

func asked(w *viewtest.World) map[string]map[string]int {
	return map[string]map[string]int{
		"list above": requests(w.Above, "list"), "list below": requests(w.Below, "list"),
		"watch above": requests(w.Above, "watch"), "watch below": requests(w.Below, "watch"),
	}
}

// following is a view that follows, and the names of the objects that were dispatched.
type following struct {
	*viewtest.World
	ctx     context.Context
	running sync.WaitGroup

	mu    sync.Mutex
	above []string
	below []string
	copy  []string
}

// follow begins when all that is watched at the start is.
func follow(t *testing.T, w *viewtest.World) *following {
	t.Helper()
	kinds := len(workload.Builtin().All())
	viewtest.Eventually(t, "all kinds, the accounts above and the events below are watched", func() bool {
		return viewtest.Count(w.Above, "watch") == kinds+1 && viewtest.Count(w.Below, "watch") == kinds // Manifests are none, events are
	})
	f := &following{World: w}
	ctx, cancel := context.WithCancel(w.Ctx)
	f.ctx = ctx
	t.Cleanup(func() { cancel(); f.running.Wait() })
	note := func(to *[]string) func(syncer.Change) {
		return func(c syncer.Change) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if c.New != nil {
				*to = append(*to, c.Kind.Kind+" "+c.New.GetName())
			}
		}
	}
	w.Handle(view.Handlers{Above: note(&f.above), Below: note(&f.below), Copy: func(key view.ObjectKey, _ syncer.CopyChange) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.copy = append(f.copy, key.Resource.Resource+" "+key.Request.Name)
	}})
	return f
}

func (f *following) to(c workload.Catalog, serves func(workload.Kind) bool) {
	f.Follow(f.ctx, &f.running, c, serves)
}

func (f *following) dispatched(list *[]string, what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(*list, what)
}

// forget forgets what was dispatched.
func (f *following) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.above, f.below, f.copy = nil, nil, nil
}

func all(workload.Kind) bool { return true }

func TestAKindThatComesAndGoesMakesNoOtherBeListedAgain(t *testing.T) {
	widget := viewtest.Logical("Widget", "web", "gear", "g", `{"east":{}}`)
	record := viewtest.Copy(viewtest.Logical("Widget", "web", "old", "o", `{"east":{}}`), placementv1alpha1.CopyStatus{})
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace(), widget}, nil, record)
	w.Watch(t)
	f := follow(t, w)
	gvr := viewtest.Widgets.GroupVersionResource()

	before := asked(w)
	f.to(workload.Builtin(), all)
	if got := more(w, before); len(got) > 0 {
		t.Errorf("without a change, it asks for %v", got)
	}
	f.to(builtinWith(t, insert(viewtest.Widgets)), all)
	viewtest.Eventually(t, "the kind is shown", func() bool { return w.IsPlaced(gvr) && w.Served(gvr) })
	viewtest.Eventually(t, "its objects are looked at", func() bool { return f.dispatched(&f.above, "Widget gear") })
	viewtest.Eventually(t, "its Copies are looked at", func() bool { return f.dispatched(&f.copy, "widgets old") })
	want := map[string][]string{"list above": {"widgets"}, "list below": {"widgets"}, "watch above": {"widgets"}, "watch below": {"widgets"}}
	viewtest.Eventually(t, "both sides are watched", func() bool { return cmp.Equal(want, more(w, before)) })
	if diff := cmp.Diff(want, more(w, before)); diff != "" {
		t.Errorf("requests when a kind comes (-want +got)\n%s", diff)
	}

	before = asked(w)
	f.to(workload.Builtin(), all)
	if w.IsPlaced(gvr) || w.Served(gvr) || len(w.ObjectsIn(gvr, viewtest.Cluster, "web")) > 0 {
		t.Error("the kind is shown though it is gone")
	}
	if n := len(w.CopiesIn(viewtest.Cluster, "web")); n != 1 {
		t.Errorf("%d Copies are in the namespace: that of a kind that is gone keeps it, too", n)
	}
	f.forget()
	if err := w.Above.Tracker().Create(gvr, viewtest.Logical("Widget", "web", "late", "l", `{"east":{}}`), "web"); err != nil {
		t.Fatal(err)
	}
	config := viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	if err := w.Above.Tracker().Create(viewtest.Kind("ConfigMap").GroupVersionResource(), config, "web"); err != nil {
		t.Fatal(err)
	}
	viewtest.Eventually(t, "other kinds are watched as before", func() bool { return f.dispatched(&f.above, "ConfigMap conf") })
	if f.dispatched(&f.above, "Widget late") {
		t.Error("a kind that is gone is still watched")
	}
	if got := more(w, before); len(got) > 0 {
		t.Errorf("requests when a kind goes: %v", got)
	}
}

func TestABuiltInKindThatGoesAndComesBackIsTheOnlyOneThatIsListed(t *testing.T) {
	config := viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace(), config}, nil)
	w.Watch(t)
	f := follow(t, w)
	gvr, key := viewtest.Kind("ConfigMap").GroupVersionResource(), viewtest.KeyOf("ConfigMap", "web", "conf")
	before := asked(w)
	f.to(builtinWith(t, without("configmaps")), all)
	if _, ok := w.Object(key); ok || w.IsPlaced(gvr) {
		t.Error("it is shown though it is gone")
	}
	f.forget()
	f.to(workload.Builtin(), all)
	viewtest.Eventually(t, "it is shown again, and looked at", func() bool {
		_, ok := w.Object(key)
		return ok && f.dispatched(&f.above, "ConfigMap conf")
	})
	want := map[string][]string{"list above": {"configmaps"}, "list below": {"configmaps"}, "watch above": {"configmaps"}, "watch below": {"configmaps"}}
	viewtest.Eventually(t, "it is watched again", func() bool { return cmp.Equal(want, more(w, before)) })
	if diff := cmp.Diff(want, more(w, before)); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestAKindThatIsDeclaredAnewIsReadAnewAndNoOther(t *testing.T) {
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace()}, nil)
	w.Watch(t)
	f := follow(t, w)
	before := asked(w)
	f.to(builtinWith(t, func(kinds []workload.Kind) []workload.Kind {
		i := slices.IndexFunc(kinds, func(k workload.Kind) bool { return k.Kind == "Service" })
		kinds[i].Recreate = true
		return kinds
	}), all)
	gvr := viewtest.Kind("Service").GroupVersionResource()
	viewtest.Eventually(t, "the new declaration is shown", func() bool { k, ok := w.PlacedKind(gvr); return ok && k.Recreate })
	want := map[string][]string{"list above": {"services"}, "list below": {"services"}, "watch above": {"services"}, "watch below": {"services"}}
	viewtest.Eventually(t, "it is watched", func() bool { return cmp.Equal(want, more(w, before)) })
	if diff := cmp.Diff(want, more(w, before)); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestWhatThePhysicalClusterServesComesAndGoesBelowOnly(t *testing.T) {
	pod := viewtest.Logical("Pod", "web", "app", "p", `{"east":{}}`)
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace(), pod}, []runtime.Object{viewtest.CopyOf(pod, "below-p")})
	w.Watch(t)
	f := follow(t, w)
	gvr := viewtest.Kind("Pod").GroupVersionResource()
	before := asked(w)
	f.forget()
	f.to(workload.Builtin(), func(k workload.Kind) bool { return k.Kind != "Pod" })
	viewtest.Eventually(t, "it is not served", func() bool { return !w.Served(gvr) })
	viewtest.Eventually(t, "what is above hears of it", func() bool { return f.dispatched(&f.above, "Pod app") })
	if _, observed := w.ObservedKind(gvr); observed || !w.IsPlaced(gvr) {
		t.Error("of a kind that is not served below, nothing is mirrored, but its objects have Copies that say so")
	}
	if got := more(w, before); len(got) > 0 {
		t.Errorf("it asks for %v", got)
	}
	f.forget()
	f.to(workload.Builtin(), all)
	viewtest.Eventually(t, "it is served", func() bool { return w.Served(gvr) })
	viewtest.Eventually(t, "both sides hear of it", func() bool { return f.dispatched(&f.above, "Pod app") && f.dispatched(&f.below, "Pod app") })
	want := map[string][]string{"list below": {"pods"}, "watch below": {"pods"}}
	viewtest.Eventually(t, "it is watched", func() bool { return cmp.Equal(want, more(w, before)) })
	if diff := cmp.Diff(want, more(w, before)); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestAKindIsNotShownBeforeBothSidesHaveTheirLists(t *testing.T) {
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace()}, nil)
	w.Watch(t)
	f := follow(t, w)
	gvr := viewtest.Widgets.GroupVersionResource()
	heal := viewtest.Fail(w.Below, "widgets")
	f.to(builtinWith(t, insert(viewtest.Widgets)), all)
	viewtest.Eventually(t, "both lists are asked for", func() bool {
		return requests(w.Above, "watch")["widgets"] == 1 && requests(w.Below, "list")["widgets"] > 0
	})
	if w.IsPlaced(gvr) {
		t.Error("it is shown, but nobody knows what is absent below")
	}
	f.to(workload.Builtin(), all) // a list that does not come holds up no other change
	if w.IsPlaced(gvr) {
		t.Error("it is shown though it went before its lists came")
	}
	f.to(builtinWith(t, insert(viewtest.Widgets)), all)
	heal()
	viewtest.Eventually(t, "it is shown", func() bool { return w.IsPlaced(gvr) && w.Served(gvr) })
}

func TestWhoseFirstListIsAwaitedIsSaid(t *testing.T) {
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace()}, nil)
	heal := viewtest.Fail(w.Below, "pods")
	ctx, cancel := context.WithCancel(w.Ctx)
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	started := make(chan error, 1)
	go func() { started <- w.Start(ctx, &running) }()
	viewtest.Eventually(t, "pods are awaited", func() bool { return strings.Contains(w.Awaited(), "pods") })
	heal()
	if err := <-started; err != nil || w.Awaited() != "" {
		t.Errorf("%q is awaited by who has all (error %v)", w.Awaited(), err)
	}
}
