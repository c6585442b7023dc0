package storage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"
)

func TestAViewListsWhatIsTargetedAtIt(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	f.create(in(t, "a"), t, pod("both", "east", "west"))
	f.create(in(t, "a"), t, pod("east", "east"))
	f.create(in(t, "b"), t, pod("east", "east"))
	f.create(in(t, "b"), t, pod("eastern", "eastern"))
	f.create(in(t, "b"), t, pod("none"))
	_, rv := f.listAt(everywhere(t), t, prefix, "")

	for target, want := range map[string][]string{
		"east":  {"a/both", "a/east", "b/east"},
		"west":  {"a/both"},
		"north": {},
	} {
		for _, rv := range []string{"", rv} { // the newest state, and one that is not older
			if diff := cmp.Diff(want, f.list(as(everywhere(t), target), t, prefix, rv)); diff != "" {
				t.Errorf("view of %s (-want +got):\n%s", target, diff)
			}
		}
	}
	if diff := cmp.Diff([]string{"b/east"}, f.list(as(in(t, "b"), "east"), t, prefix, "")); diff != "" {
		t.Errorf("view of east in b (-want +got):\n%s", diff)
	}
}

func TestAListOfAViewIsPaged(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	for _, name := range []string{"1", "2", "3", "4"} {
		f.create(in(t, "a"), t, pod("east-"+name, "east"))
		f.create(in(t, "a"), t, pod("west-"+name, "west"))
	}
	var got []string
	p := upstream.Everything
	p.Limit = 3
	for {
		list := &example.PodList{}
		if err := f.GetList(as(everywhere(t), "east"), prefix, upstream.ListOptions{Recursive: true, Predicate: p}, list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			got = append(got, nameOf(&list.Items[i]))
		}
		if p.Continue = list.Continue; p.Continue == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"a/east-1", "a/east-2", "a/east-3", "a/east-4"}, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotVisibleIsNotFound(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	f.create(in(t, "a"), t, pod("web", "west"))
	ctx := as(in(t, "a"), "east")
	do := verbs(f, key("ns", "web"))
	for _, verb := range []string{"get", "update", "delete"} {
		if err := do[verb](ctx); !upstream.IsNotFound(err) {
			t.Errorf("%s of an invisible pod: %v", verb, err)
		}
		if err := do[verb](as(in(t, "a"), "west")); err != nil {
			t.Errorf("%s of a visible pod: %v", verb, err)
		}
	}
	f.create(in(t, "a"), t, pod("other", "west"))
	out := pod("rest of an earlier request")
	if err := f.Get(ctx, key("ns", "other"), upstream.GetOptions{IgnoreNotFound: true}, out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&example.Pod{}, out); diff != "" {
		t.Errorf("an invisible pod, not found ignored (-want +got):\n%s", diff)
	}
}

func TestAWatchOfAViewFollowsTargets(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	a := in(t, "a")
	f.create(a, t, pod("old", "east"))
	f.create(a, t, pod("hidden", "west"))
	east := f.watch(as(everywhere(t), "east"), t, prefix, nil)
	west := f.watch(as(a, "west"), t, prefix, nil)
	east.expect("ADDED a/old", "END")
	west.expect("ADDED a/hidden", "END")

	f.create(in(t, "b"), t, pod("new", "east"))
	east.expect("ADDED b/new")
	f.update(a, t, "hidden", func(p *example.Pod) { setTargets(p, "east", "west") })
	east.expect("ADDED a/hidden")
	west.expect("MODIFIED a/hidden")
	f.update(a, t, "hidden", func(p *example.Pod) { p.Spec.NodeName = "n" })
	east.expect("MODIFIED a/hidden")
	west.expect("MODIFIED a/hidden")

	left := f.update(a, t, "hidden", func(p *example.Pod) { setTargets(p, "west"); p.Spec.NodeName = "secret" })
	east.expect("DELETED a/hidden")
	west.expect("MODIFIED a/hidden")
	if got := east.last.Object.(*example.Pod); got.ResourceVersion != left.ResourceVersion || got.Spec.NodeName != "n" {
		t.Errorf("a pod that left the view has version %s and node %q, want %s and its last visible state",
			got.ResourceVersion, got.Spec.NodeName, left.ResourceVersion)
	}
	f.update(a, t, "hidden", func(p *example.Pod) { p.Spec.NodeName = "more secret" })
	west.expect("MODIFIED a/hidden")

	gone := f.delete(a, t, "old")
	east.expect("DELETED a/old") // and nothing of hidden before it
	if got := east.lastVersion(); got != gone.ResourceVersion {
		t.Errorf("the version of the deletion is %s, want %s", got, gone.ResourceVersion)
	}
}

func TestAWatchOfAViewGoesOnFromAList(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	a := in(t, "a")
	f.create(a, t, pod("one", "east"))
	_, rv := f.listAt(as(everywhere(t), "east"), t, prefix, "")
	f.create(a, t, pod("other", "west"))
	f.create(a, t, pod("two", "east"))
	f.update(a, t, "one", func(p *example.Pod) { setTargets(p) })
	f.delete(a, t, "two")

	w := f.watch(as(everywhere(t), "east"), t, prefix, from(rv))
	w.expect("ADDED a/two", "DELETED a/one")
	middle := w.lastVersion()
	w.expect("DELETED a/two")
	f.watch(as(everywhere(t), "east"), t, prefix, from(middle)).expect("DELETED a/two")

	f.create(a, t, pod("three", "east"))
	w.expect("ADDED a/three")
}

func TestAWatchOfAViewHonoursSelectors(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	a := in(t, "a")
	labelled := func(p *example.Pod, value string) *example.Pod {
		p.Labels = map[string]string{"app": value}
		return p
	}
	f.create(a, t, labelled(pod("web", "east"), "web"))
	f.create(a, t, labelled(pod("db", "east"), "db"))
	byLabel := f.watch(as(everywhere(t), "east"), t, prefix, func(o *upstream.ListOptions) {
		o.Predicate.Label = labels.SelectorFromSet(labels.Set{"app": "web"})
		o.Predicate.GetAttrs = upstream.DefaultNamespaceScopedAttr
	})
	byName := f.watch(as(a, "east"), t, key("ns", "db"), func(o *upstream.ListOptions) {
		o.Recursive = false
		o.Predicate.Field = fields.OneTermEqualSelector("metadata.name", "db")
		o.Predicate.GetAttrs = upstream.DefaultNamespaceScopedAttr
	})
	byLabel.expect("ADDED a/web", "END")
	byName.expect("ADDED a/db", "END")
	f.update(a, t, "web", func(p *example.Pod) { labelled(p, "db") })
	f.update(a, t, "db", func(p *example.Pod) { labelled(p, "web") })
	f.delete(a, t, "db")
	byLabel.expect("DELETED a/web", "ADDED a/db", "DELETED a/db")
	byName.expect("MODIFIED a/db", "DELETED a/db")
}

func TestAViewNeedsAWatchCache(t *testing.T) {
	t.Parallel()
	f := newStore(t, func(s *setup) { s.resource = schema.GroupResource{Resource: "events"} })
	f.create(in(t, "a"), t, pod("web", "east"))
	for verb, do := range verbs(f, prefix) {
		if verb == "list" || verb == "watch" {
			if err := do(as(everywhere(t), "east")); !apierrors.IsMethodNotSupported(err) {
				t.Errorf("%s of a view without a watch cache: %v", verb, err)
			}
		}
	}
	if err := f.Get(as(in(t, "a"), "east"), key("ns", "web"), upstream.GetOptions{}, &example.Pod{}); err != nil {
		t.Errorf("reading a visible object: %v", err)
	}
}

func TestWatchesOfAViewEndWithTheStore(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	w := f.watch(as(everywhere(t), "east"), t, prefix, nil)
	w.expect("END")
	f.stop()
	w.expect("CLOSED")
	_, err := f.Watch(as(everywhere(t), "east"), prefix, upstream.ListOptions{Recursive: true, Predicate: upstream.Everything})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("watching a closed store: %v", err)
	}
}

func TestObjectsThatAWatchHandsOutMayBeChanged(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	a := in(t, "a")
	f.create(a, t, pod("web", "east"))
	one := f.watch(as(everywhere(t), "east"), t, prefix, nil)
	one.expect("ADDED a/web", "END")
	one.Stop()
	two := f.watch(as(everywhere(t), "east"), t, prefix, nil)
	two.expect("ADDED a/web")
	two.last.Object.(metav1.Object).GetAnnotations()["changed"] = "by a reader"
	three := f.watch(as(everywhere(t), "east"), t, prefix, nil)
	three.expect("ADDED a/web")
	if _, changed := three.last.Object.(metav1.Object).GetAnnotations()["changed"]; changed {
		t.Error("readers of two watches share an object")
	}
}
