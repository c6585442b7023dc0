package storage

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// open registers a watch of target; its goroutine runs if read is set.
func open(t *testing.T, h *hub, target string, rv uint64, p storage.SelectionPredicate, read bool) *viewWatch {
	t.Helper()
	w := newViewWatch(h, target, "/pods/", p)
	if err := h.add(w, rv); err != nil {
		t.Fatal(err)
	}
	if read {
		go w.run(t.Context(), nil)
	}
	return w
}

func receive(t *testing.T, w *viewWatch) string {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		switch {
		case !ok:
			return "CLOSED"
		case e.Type == watch.Error:
			return "ERROR " + string(apierrors.ReasonForError(apierrors.FromObject(e.Object)))
		}
		m := e.Object.(metav1.Object)
		return fmt.Sprintf("%s %s@%s", e.Type, m.GetName(), m.GetResourceVersion())
	case <-time.After(testTimeout):
		t.Fatal("no event")
		return ""
	}
}

func expect(t *testing.T, w *viewWatch, want ...string) {
	t.Helper()
	got := make([]string, 0, len(want))
	for range want {
		got = append(got, receive(t, w))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// settle waits until the hub has applied everything up to version.
func settle(t *testing.T, h *hub, version uint64) {
	t.Helper()
	for end := time.Now().Add(testTimeout); h.version() < version; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the hub is at %d, not at %d", h.version(), version)
		}
	}
}

// The cost of an event is the watches it wakes and the objects they look at.
// Both are counted in one world and in a world with a hundred times as many
// targets and logical clusters.
func TestTheCostOfAnEventDoesNotGrowWithTargetsOrLogicalClusters(t *testing.T) {
	t.Parallel()
	cost := func(n int) (woken, evaluated int) {
		h, src := newTestHub(t)
		w := begin(t, h, src)
		selective := storage.SelectionPredicate{
			Label: labels.SelectorFromSet(labels.Set{"app": "web"}),
			GetAttrs: func(obj runtime.Object) (labels.Set, fields.Set, error) {
				evaluated++
				return nil, nil, nil
			},
		}
		var all []*viewWatch
		rv := 100
		for i := range n {
			all = append(all, open(t, h, fmt.Sprintf("target-%d", i), 0, selective, false))
			rv++
			w.events <- event(watch.Added, rv, fmt.Sprintf("cluster-%d", i), "web", fmt.Sprintf("target-%d", i))
		}
		settle(t, h, uint64(rv))
		for _, v := range all {
			v.queue = nil
		}
		w.events <- event(watch.Modified, rv+1, "cluster-0", "web", "target-0", "target-1")
		settle(t, h, uint64(rv+1))
		for _, v := range all {
			for _, p := range v.queue {
				woken++
				v.event(p)
			}
		}
		return woken, evaluated
	}
	// It concerns the watch of target-0 (old and new state) and of target-1 (new).
	for _, n := range []int{2, 200} {
		if woken, evaluated := cost(n); woken != 2 || evaluated != 3 {
			t.Errorf("with %d targets an event woke %d watches and evaluated %d objects, want 2 and 3", n, woken, evaluated)
		}
	}
}

func TestASlowReaderEndsAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	h, src := newTestHub(t)
	h.pending = 3
	w := begin(t, h, src)
	slow := open(t, h, "east", 0, storage.Everything, false)
	for i := 1; i <= 5; i++ {
		w.events <- event(watch.Added, 100+i, "a", fmt.Sprintf("pod-%d", i), "east")
	}
	settle(t, h, 105)
	go slow.run(t.Context(), nil)
	expect(t, slow, "ADDED pod-1@101", "ADDED pod-2@102", "ADDED pod-3@103", "CLOSED")
	expect(t, open(t, h, "east", 103, storage.Everything, true), "ADDED pod-4@104", "ADDED pod-5@105")
}

func TestTheHubGoesOnWhereAWatchEnded(t *testing.T) {
	t.Parallel()
	h, src := newTestHub(t)
	first := begin(t, h, src)
	v := open(t, h, "east", 0, storage.Everything, true)
	first.events <- event(watch.Added, 107, "a", "web", "east")
	close(first.events)
	second := src.next(t)
	if second.from != "107" {
		t.Errorf("the second watch is from %s, want 107", second.from)
	}
	second.events <- event(watch.Deleted, 109, "a", "web", "east")
	expect(t, v, "ADDED web@107", "DELETED web@109")
}

func TestWatchesEndWithAnErrorWhenTheHubLosesTrack(t *testing.T) {
	t.Parallel()
	h, src := newTestHub(t)
	first := begin(t, h, src)
	v := open(t, h, "east", 0, storage.Everything, true)
	first.events <- event(watch.Added, 107, "a", "web", "east")
	src.version = "200"
	first.events <- watch.Event{Type: watch.Error, Object: statusOf(apierrors.NewResourceExpired("too old"))}
	expect(t, v, "ADDED web@107", "ERROR Expired", "CLOSED")

	second := begin(t, h, src)
	if second.from != "200" {
		t.Errorf("the second watch is from %s, want 200", second.from)
	}
	if err := h.add(newViewWatch(h, "east", "/pods/", storage.Everything), 107); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before the gap: %v", err)
	}
}

func TestAWatchFromForgottenVersionsIsExpired(t *testing.T) {
	t.Parallel()
	h, src := newTestHub(t)
	h.history.keep = 2
	w := begin(t, h, src)
	for i := 1; i <= 5; i++ {
		w.events <- event(watch.Added, 100+i, "a", fmt.Sprintf("pod-%d", i), "east")
	}
	settle(t, h, 105)
	for rv, expired := range map[uint64]bool{100: true, 101: true, 102: false, 104: false, 105: false} {
		if err := h.add(newViewWatch(h, "east", "/pods/", storage.Everything), rv); apierrors.IsResourceExpired(err) != expired {
			t.Errorf("a watch from %d: %v", rv, err)
		}
	}
	expect(t, open(t, h, "east", 103, storage.Everything, true), "ADDED pod-4@104", "ADDED pod-5@105")
}

func TestBookmarksReachWatchesThatAskForThem(t *testing.T) {
	t.Parallel()
	h, src := newTestHub(t)
	w := begin(t, h, src)
	with := storage.Everything
	with.AllowWatchBookmarks = true
	asked := open(t, h, "east", 0, with, true)
	silent := open(t, h, "east", 0, storage.Everything, true)
	w.events <- watch.Event{Type: watch.Bookmark, Object: &example.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "120"}}}
	w.events <- event(watch.Added, 121, "a", "web", "east")
	expect(t, asked, "BOOKMARK @120", "ADDED web@121")
	expect(t, silent, "ADDED web@121")
}

// wrapped is what the watch cache hands its watchers: the only way to the object
// is a copy.
type wrapped struct {
	*example.Pod
	copies *int
}

func (w wrapped) GetObject() runtime.Object {
	*w.copies++
	return w.Pod.DeepCopy()
}

func (w wrapped) CacheEncode(_ runtime.Identifier, encode func(runtime.Object, io.Writer) error, to io.Writer) error {
	return encode(w.Pod, to)
}

func TestTheHubSharesObjectsWithTheWatchCache(t *testing.T) {
	t.Parallel()
	h, src := newTestHub(t)
	begin(t, h, src)
	copies := 0
	apply := func(rv int, name string, seen bool) (in, held *example.Pod) {
		e := event(watch.Added, rv, "a", name, "east")
		in = e.Object.(*example.Pod)
		if seen {
			h.recent.add(in)
		}
		e.Object = wrapped{in, &copies}
		if err := h.apply(e); err != nil {
			t.Fatal(err)
		}
		return in, h.entries["/pods/a/ns/"+name].obj.(*example.Pod)
	}
	h.recent.on.Store(true)
	if in, held := apply(101, "seen", true); in != held || copies != 0 {
		t.Errorf("an object of the watch cache was copied %d times", copies)
	}
	if in, held := apply(102, "unseen", false); in == held || copies != 1 || !cmp.Equal(in, held) {
		t.Errorf("an object that the hub did not find was copied %d times, want 1:\n%s", copies, cmp.Diff(in, held))
	}
}
