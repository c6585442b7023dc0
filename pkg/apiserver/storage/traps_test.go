package storage_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"
)

// The tests of this file guard what the package doc says about the stock watch
// cache. They count, and what they count is of the whole process: they are not
// parallel.

// fill creates n pods, one in each of n logical clusters, all named alike.
func (f *fixture) fill(t testing.TB, n int) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(32)
	for i := range n {
		ctx := in(t, fmt.Sprintf("cluster-%d", i))
		g.Go(func() error { return f.Create(ctx, key("ns", "web"), pod("web"), &example.Pod{}, 0) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestEqualNamesSurviveARestart(t *testing.T) {
	f := newStore(t, nil)
	want := map[string][]string{}
	for _, cluster := range []string{"a", "b"} {
		for _, name := range []string{"db", "web"} {
			f.create(in(t, cluster), t, pod(name, "east"))
			want[cluster] = append(want[cluster], cluster+"/"+name)
			want["*"] = append(want["*"], cluster+"/"+name)
		}
	}
	f.stop()

	f = newStore(t, func(s *setup) { s.endpoint = f.endpoint })
	for cluster, want := range want {
		for _, rv := range []string{"0", ""} { // from the watch cache in any case
			if diff := cmp.Diff(want, f.list(in(t, cluster), t, prefix, rv)); diff != "" {
				t.Errorf("list of %q with resource version %q after a restart (-want +got):\n%s", cluster, rv, diff)
			}
		}
	}
	if diff := cmp.Diff(want["*"], f.list(as(everywhere(t), "east"), t, prefix, "0")); diff != "" {
		t.Errorf("view of east after a restart (-want +got):\n%s", diff)
	}
	f.watch(in(t, "b"), t, prefix, nil).expect("ADDED b/db", "ADDED b/web", "END")
}

func TestAnEventWakesWatchesOfItsLogicalClusterOnly(t *testing.T) {
	const events = 50
	f := newStore(t, nil)
	f.create(in(t, "busy"), t, pod("web"))
	opened := 0
	// woken opens watches in logical clusters of their own, until there are n, and
	// returns how often the scheduler saw a goroutine wake up during some events:
	// the least of several measurements, because what else this process does in
	// the meantime (clients of an etcd that another test has ended) only adds.
	woken := func(n int) uint64 {
		for ; opened < n; opened++ {
			f.watch(in(t, fmt.Sprintf("idle-%d", opened)), t, prefix, nil).expect("END")
		}
		busy := f.watch(in(t, "busy"), t, prefix, nil)
		busy.expect("ADDED busy/web", "END")
		least := uint64(math.MaxUint64)
		for round := range 5 {
			before := wakeups()
			for i := range events {
				f.update(in(t, "busy"), t, "web", func(p *example.Pod) { p.Spec.NodeName = fmt.Sprint(n, round, i) })
				busy.expect("MODIFIED busy/web")
			}
			least = min(least, wakeups()-before)
		}
		busy.Stop()
		return least
	}
	few, many := woken(10), woken(2000)
	t.Logf("wake-ups: %d with 10 watches, %d with 2000", few, many)
	// One for each watch and event, or the eighth that the runtime tracks, would be
	// 100,000 or 12,500.
	if many > 4*few+1000 {
		t.Errorf("%d events woke goroutines %d times with 10 watches, and %d times with 2000", events, few, many)
	}
}

// wakeups counts how often goroutines have become runnable and run.
func wakeups() (n uint64) {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	for _, count := range sample[0].Value.Float64Histogram().Counts {
		n += count
	}
	return n
}

func TestInitialEventsDoNotWalkOtherLogicalClusters(t *testing.T) {
	const others = 3000
	f := newStore(t, nil)
	f.create(in(t, "mine"), t, pod("web", "east"))
	eventually(t, "the watch cache has the object", func() error { // any version may lack it
		if got := f.list(in(t, "mine"), t, prefix, "0"); len(got) != 1 {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
	// A watch that begins with one object, in each way that asks for the state.
	initial := true
	ways := map[string]struct {
		ctx context.Context
		o   func(*upstream.ListOptions)
		end bool
	}{
		"streaming list":       {ctx: in(t, "mine"), end: true},
		"of any version":       {ctx: in(t, "mine"), o: func(o *upstream.ListOptions) { o.ResourceVersion, o.SendInitialEvents = "0", &initial }, end: true},
		"of version zero":      {ctx: in(t, "mine"), o: from("0")},
		"of no version":        {ctx: in(t, "mine"), o: from("")},
		"of a view":            {ctx: as(everywhere(t), "east"), end: true},
		"of a view in cluster": {ctx: as(in(t, "mine"), "east"), end: true},
	}
	// allocated returns how often the process allocates memory while such a watch
	// begins: the least of several, because what else it does in the meantime (the
	// watch cache still reads what was created) only adds.
	allocated := func(way string) uint64 {
		least := uint64(math.MaxUint64)
		for range 10 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := f.watch(ways[way].ctx, t, prefix, ways[way].o)
			w.expect("ADDED mine/web")
			if ways[way].end {
				w.expect("END")
			}
			w.Stop()
			runtime.ReadMemStats(&after)
			least = min(least, after.Mallocs-before.Mallocs)
		}
		return least
	}
	few := map[string]uint64{}
	for way := range ways {
		few[way] = allocated(way)
	}
	f.fill(t, others)
	eventually(t, "the watch cache has all objects", func() error { // else there is little to walk
		if got := f.list(everywhere(t), t, prefix, "0"); len(got) != 1+others {
			return fmt.Errorf("it has %d", len(got))
		}
		return nil
	})
	for way := range ways {
		many := allocated(way)
		t.Logf("watch %s: %d allocations alone, %d beside %d other logical clusters", way, few[way], many, others)
		// Each object that is walked costs at least one allocation.
		if many > few[way]+others/4 {
			t.Errorf("a watch %s of one object allocates %d times alone, and %d times beside %d other logical clusters", way, few[way], many, others)
		}
	}
}
