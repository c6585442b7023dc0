package storage

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// Each change holds two versions of an object: what a hub remembers is what a server
// weighs after hours of work.
func TestAHubForgetsChangesThatAreOld(t *testing.T) {
	t.Parallel()
	h, src := newTestHub(t)
	clock := make(chan time.Time, 1)
	clock <- time.Unix(1000, 0)
	h.now = func() time.Time {
		now := <-clock
		clock <- now
		return now
	}
	later := func(d time.Duration) { clock <- (<-clock).Add(d) }
	w := begin(t, h, src)
	for i := 1; i <= 100; i++ {
		w.events <- event(watch.Added, 100+i, "a", fmt.Sprintf("pod-%d", i), "east")
	}
	settle(t, h, 200)
	later(historyWindow - time.Second)
	w.events <- event(watch.Added, 201, "a", "young", "east")
	settle(t, h, 201)
	remembered := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.history.changes)
	}
	if n := remembered(); n != 101 {
		t.Errorf("%d changes are remembered within the window, want 101", n)
	}
	later(2 * time.Second)
	// The bookmark of each minute does it, too: nothing else may ever happen.
	w.events <- watch.Event{Type: watch.Bookmark, Object: &example.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "202"}}}
	settle(t, h, 202)
	if n := remembered(); n != 1 {
		t.Errorf("%d changes are remembered after the window, want 1", n)
	}
	if err := h.add(newViewWatch(h, "east", "/pods/", storage.Everything), 199); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before what is remembered: %v", err)
	}
	expect(t, open(t, h, "east", 200, storage.Everything, true), "ADDED young@201")
}

func TestWhatAHubHasTakenFromTheWatchCacheIsForgotten(t *testing.T) {
	t.Parallel()
	s := &recentObjects{}
	s.on.Store(true)
	pod := func(rv int) *example.Pod {
		return &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: strconv.Itoa(rv)}}
	}
	held := func() (n int) {
		for _, obj := range s.ring {
			if obj != nil {
				n++
			}
		}
		return n
	}
	for rv := 1; rv <= 3*recentKept; rv++ { // more than it holds: the first are overwritten
		s.add(pod(rv))
	}
	if n := held(); n != recentKept {
		t.Fatalf("%d are held, want %d", n, recentKept)
	}
	if s.find(pod(3*recentKept-10)) == nil {
		t.Fatal("an object that is on its way was not found")
	}
	if n := held(); n != 10 {
		t.Errorf("%d are held, want the 10 that are on their way", n)
	}
	for rv := 3*recentKept - 9; rv <= 3*recentKept; rv++ {
		if s.find(pod(rv)) == nil {
			t.Errorf("version %d was not found", rv)
		}
	}
	if n := held(); n != 0 {
		t.Errorf("%d are held, want none", n)
	}
}
