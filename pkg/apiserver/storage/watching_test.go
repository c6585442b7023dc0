package storage_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	upstream "k8s.io/apiserver/pkg/storage"
)

// watching is a watch that a test reads.
type watching struct {
	watch.Interface
	t    testing.TB
	last watch.Event
}

// watch watches key with the options that a modern informer has: the state, a
// bookmark, the changes; change, if not nil, alters them.
func (f *fixture) watch(ctx context.Context, t testing.TB, key string, change func(*upstream.ListOptions)) *watching {
	t.Helper()
	initial := true
	o := upstream.ListOptions{Recursive: true, Predicate: upstream.Everything, SendInitialEvents: &initial}
	o.Predicate.AllowWatchBookmarks = true
	if change != nil {
		change(&o)
	}
	w, err := f.Watch(ctx, key, o)
	if err != nil {
		t.Fatalf("watching %s: %v", key, err)
	}
	t.Cleanup(w.Stop)
	return &watching{Interface: w, t: t}
}

// from makes a watch continue from a resource version.
func from(rv string) func(*upstream.ListOptions) {
	return func(o *upstream.ListOptions) { o.SendInitialEvents, o.ResourceVersion = nil, rv }
}

// next returns "TYPE cluster/name" of the next event, "END" for the bookmark
// after the initial events, "ERROR reason", or "CLOSED".
func (w *watching) next() string {
	w.t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		w.last = e
		switch {
		case !ok:
			return "CLOSED"
		case e.Type == watch.Error:
			return "ERROR " + string(apierrors.ReasonForError(apierrors.FromObject(e.Object)))
		case e.Type == watch.Bookmark:
			if end, err := upstream.HasInitialEventsEndBookmarkAnnotation(e.Object); err != nil || !end {
				return w.next() // the regular one, at any time
			}
			return "END"
		}
		m, err := meta.Accessor(e.Object)
		if err != nil {
			w.t.Fatal(err)
		}
		return string(e.Type) + " " + nameOf(m)
	case <-time.After(deadline):
		w.t.Fatalf("no event within %v", deadline)
		return ""
	}
}

// expect fails unless the next events are want.
func (w *watching) expect(want ...string) {
	w.t.Helper()
	got := make([]string, 0, len(want))
	for range want {
		got = append(got, w.next())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// lastVersion is the resource version of the last event.
func (w *watching) lastVersion() string {
	w.t.Helper()
	m, err := meta.Accessor(w.last.Object)
	if err != nil {
		w.t.Fatal(err)
	}
	return m.GetResourceVersion()
}
