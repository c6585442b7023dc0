package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/test/framework/etcd"
)

// clients are those of one server, which ask etcd whether a resource has objects.
func clients(t testing.TB, endpoint string) *storage.Clients {
	t.Helper()
	c, err := storage.NewClients(storagebackend.TransportConfig{ServerList: []string{endpoint}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newLazyStore is the store of one of several servers over one etcd.
func newLazyStore(t testing.TB, endpoint, registry string) *fixture {
	t.Helper()
	return newStore(t, func(s *setup) {
		s.endpoint, s.registry = endpoint, registry
		s.options.Lazy = clients(t, endpoint)
	})
}

// open watches all that the context is about from a version.
func (f *fixture) open(ctx context.Context, t testing.TB, version string) watch.Interface {
	t.Helper()
	w, err := f.Watch(ctx, prefix, upstream.ListOptions{ResourceVersion: version, Recursive: true, Predicate: upstream.Everything})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// next is the type of the next event with the name of its object.
func next(t testing.TB, w watch.Interface) string {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "ended"
		}
		obj := e.Object
		if shared, ok := obj.(runtime.CacheableObject); ok {
			obj = shared.GetObject()
		}
		if p, ok := obj.(*example.Pod); ok {
			return fmt.Sprintf("%s %s", e.Type, nameOf(p))
		}
		return string(e.Type)
	case <-time.After(deadline):
		t.Fatal("no event came")
		return ""
	}
}

func TestAWatchOfAResourceWithoutObjectsSeesWhatAnyServerWrites(t *testing.T) {
	t.Parallel()
	endpoint := etcd.Start(t)
	ours, theirs := newLazyStore(t, endpoint, "/registry"), newLazyStore(t, endpoint, "/registry")
	names, version := ours.listAt(everywhere(t), t, prefix, "")
	if len(names) != 0 {
		t.Fatalf("there is %v", names)
	}
	w := ours.open(everywhere(t), t, version)
	inA := ours.open(in(t, "a"), t, version)
	stopped := ours.open(everywhere(t), t, version)
	stopped.Stop()
	if got := next(t, stopped); got != "ended" {
		t.Errorf("a watch that was stopped has %s", got)
	}
	theirs.create(in(t, "b"), t, pod("first"))
	theirs.create(in(t, "a"), t, pod("second"))
	theirs.delete(in(t, "b"), t, "first")
	if got := next(t, inA); got != "ADDED a/second" {
		t.Errorf("the watch of a logical cluster has %s", got)
	}
	for _, want := range []string{"ADDED b/first", "ADDED a/second", "DELETED b/first"} {
		if got := next(t, w); got != want {
			t.Errorf("the watch has %s, want %s", got, want)
		}
	}
}

// Who lists an object before this server notices that there is one must learn of its
// end: a watch from the version of that list is none of a resource without objects.
func TestAnObjectThatWasListedIsNeverForgotten(t *testing.T) {
	t.Parallel()
	endpoint := etcd.Start(t)
	theirs := map[string]*fixture{}
	const rounds = 8
	for i := range rounds {
		registry := fmt.Sprintf("/registry-%d", i)
		theirs[registry] = newLazyStore(t, endpoint, registry)
	}
	for registry, other := range theirs {
		ours := newLazyStore(t, endpoint, registry)
		ours.listAt(everywhere(t), t, prefix, "") // the vacancy is known
		other.create(in(t, "a"), t, pod("x"))
		names, version := ours.listAt(everywhere(t), t, prefix, "")
		if len(names) != 1 {
			t.Fatalf("%s: listed %v", registry, names)
		}
		w := ours.open(everywhere(t), t, version)
		other.delete(in(t, "a"), t, "x")
		if got := next(t, w); got != "DELETED a/x" && got != "ERROR" { // after an error, clients list again
			t.Errorf("%s: the watch has %s", registry, got)
		}
	}
}

func TestAResourceWithoutObjectsIsReadWrittenAndSeenInViews(t *testing.T) {
	t.Parallel()
	endpoint := etcd.Start(t)
	ours := newLazyStore(t, endpoint, "/registry")
	err := ours.Get(in(t, "a"), key("ns", "x"), upstream.GetOptions{ResourceVersion: "0"}, &example.Pod{})
	if !upstream.IsNotFound(err) {
		t.Errorf("an object that nobody made: %v", err)
	}
	if names := ours.list(as(everywhere(t), "east"), t, prefix, ""); len(names) != 0 {
		t.Errorf("the view has %v", names)
	}
	ours.create(in(t, "a"), t, pod("x", "east"))
	eventually(t, "the view has the object", func() error {
		if names := ours.list(as(everywhere(t), "east"), t, prefix, ""); len(names) != 1 {
			return fmt.Errorf("it has %v", names)
		}
		return nil
	})
}

func TestAWatchThatBeginsWithTheStateBeginsTheWatchCache(t *testing.T) {
	t.Parallel()
	ours := newLazyStore(t, etcd.Start(t), "/registry")
	w := ours.open(everywhere(t), t, "0")
	ours.create(in(t, "a"), t, pod("x"))
	if got := next(t, w); got != "ADDED a/x" {
		t.Errorf("the watch has %s", got)
	}
}
