package storage_test

import (
	"context"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"
)

func TestAWatchFromAVersionOfTheFutureIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	events := newStore(t, func(s *setup) { s.resource = schema.GroupResource{Resource: "events"}; s.endpoint = f.endpoint })
	f.create(in(t, "a"), t, pod("web", "east"))
	now := f.revision(t)
	for name, c := range map[string]struct {
		store *fixture
		ctx   context.Context
	}{
		"a view of all logical clusters": {f, as(everywhere(t), "east")},
		"a view of one logical cluster":  {f, as(in(t, "a"), "east")},
		"one logical cluster":            {f, in(t, "a")},
		"all logical clusters":           {f, everywhere(t)},
		"without a watch cache":          {events, in(t, "a")},
	} {
		t.Run(name, func(t *testing.T) {
			c.store.watch(c.ctx, t, prefix, from(version(now+1))).expect("ERROR Expired", "CLOSED")
			c.store.watch(c.ctx, t, prefix, from(version(now+100000))).expect("ERROR Expired", "CLOSED")
		})
	}
}

func TestAWatchFromTheNewestVersionIsServedThoughNothingOfItsResourceHasIt(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	other := newStore(t, func(s *setup) { s.resource = schema.GroupResource{Resource: "events"}; s.endpoint = f.endpoint })
	f.create(in(t, "a"), t, pod("old", "east"))
	view := f.watch(as(everywhere(t), "east"), t, prefix, nil)
	view.expect("ADDED a/old", "END")
	other.create(in(t, "a"), t, pod("elsewhere")) // the watch caches of f do not see it
	newest := version(f.revision(t))
	watches := []*watching{
		f.watch(as(everywhere(t), "east"), t, prefix, from(newest)),
		f.watch(in(t, "a"), t, prefix, from(newest)),
		f.watch(everywhere(t), t, prefix, from(newest)),
	}
	f.create(in(t, "a"), t, pod("new", "east"))
	for _, w := range watches {
		w.expect("ADDED a/new")
	}
}

func TestAListOfTheFutureIsTooLarge(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	f.create(in(t, "a"), t, pod("web", "east"))
	future := version(f.revision(t) + 100000)
	for name, ctx := range map[string]context.Context{
		"a view": as(everywhere(t), "east"), "one logical cluster": in(t, "a"), "all logical clusters": everywhere(t),
	} {
		o := upstream.ListOptions{ResourceVersion: future, Recursive: true, Predicate: upstream.Everything}
		if err := f.GetList(ctx, prefix, o, &example.PodList{}); !upstream.IsTooLargeResourceVersion(err) {
			t.Errorf("a list of %s: %v", name, err)
		}
		w := f.watch(ctx, t, prefix, func(o *upstream.ListOptions) { o.ResourceVersion = future })
		w.expect("ERROR Timeout")
	}
}

// revision is that of etcd.
func (f *fixture) revision(t testing.TB) uint64 {
	t.Helper()
	now, err := f.GetCurrentResourceVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func version(n uint64) string { return strconv.FormatUint(n, 10) }
