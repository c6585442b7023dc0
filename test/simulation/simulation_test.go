package simulation

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	seed  = flag.Uint64("seed", 0, "run the world of this seed only")
	seeds = flag.Uint64("seeds", 120, "how many worlds to run")
	from  = flag.Uint64("from", 1, "the first seed")
)

// maxReports bounds the worlds that are shrunk and printed in one run.
const maxReports = 3

func TestWorlds(t *testing.T) {
	if *seed != 0 {
		if o := Run(Options{Seed: *seed}); o.Broken != nil {
			t.Error(explain(o))
		}
		return
	}
	began := time.Now()
	var steps, writes atomic.Int64
	var mu sync.Mutex
	var broken []Outcome
	each(*from, *seeds, func(seed uint64) {
		o := Run(Options{Seed: seed})
		steps.Add(int64(o.Steps))
		writes.Add(o.Writes)
		if o.Broken != nil {
			mu.Lock()
			defer mu.Unlock()
			broken = append(broken, o)
		}
	})
	slices.SortFunc(broken, func(a, b Outcome) int { return int(a.Seed) - int(b.Seed) })
	for i, o := range broken {
		if i < maxReports {
			t.Error(explain(o))
		} else {
			t.Errorf("seed %d: %s: %s", o.Seed, o.Broken.Invariant, o.Broken.Detail)
		}
	}
	t.Logf("%d worlds, %d steps, %d writes in %s", *seeds, steps.Load(), writes.Load(), time.Since(began).Round(time.Millisecond))
}

func TestTheSameSeedIsTheSameWorld(t *testing.T) {
	for seed := range uint64(5) {
		first, second := Run(Options{Seed: seed, Record: true}), Run(Options{Seed: seed, Record: true})
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("seed %d (-first +second):\n%s", seed, diff)
		}
	}
}

func TestWorldsDiffer(t *testing.T) {
	digests := map[uint64]bool{}
	for seed := range uint64(10) {
		digests[Run(Options{Seed: seed}).Digest] = true
	}
	if len(digests) != 10 {
		t.Errorf("10 seeds are %d worlds", len(digests))
	}
}

func TestEverythingThatCanHappenHappens(t *testing.T) {
	missing := map[string]bool{}
	for _, v := range verbs {
		missing[v.name] = true
	}
	for seed := uint64(1); seed <= 100; seed++ {
		for _, h := range Script(seed) {
			delete(missing, h.Verb)
		}
	}
	if len(missing) > 0 {
		t.Errorf("in 100 worlds none of these happens: %v", slices.Sorted(maps.Keys(missing)))
	}
}

func TestABrokenWorldIsShrunkToWhatItTakes(t *testing.T) {
	bugs := Bugs{plan: acknowledgesEarly}
	for seed := uint64(1); ; seed++ {
		o := Run(Options{Seed: seed, Bugs: bugs})
		if o.Broken == nil {
			continue
		}
		small := shrink(o, bugs)
		if small.Broken == nil || small.Broken.Invariant != o.Broken.Invariant {
			t.Fatalf("it breaks %v, shrunk it breaks %v", o.Broken, small.Broken)
		}
		if len(small.Script) > 4 { // make something, take it away
			t.Errorf("it still takes %d happenings: %v", len(small.Script), small.Script)
		}
		if last := small.Transcript[len(small.Transcript)-2:]; !strings.Contains(strings.Join(last, "\n"), "BROKEN: "+RemovedIsGone) {
			t.Errorf("the transcript does not end with what is broken: %v", last)
		}
		return
	}
}

// each runs f for many seeds, on all CPUs.
func each(from, n uint64, f func(seed uint64)) {
	var next atomic.Uint64
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				f(from + i - 1)
			}
		})
	}
	running.Wait()
}

// explain shrinks a broken world and prints what happened in it.
func explain(o Outcome) string {
	small := Shrink(o)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s: %s\n", o.Seed, o.Broken.Invariant, o.Broken.Detail)
	fmt.Fprintf(&b, "again: go test ./test/simulation -run TestWorlds -seed %d\n", o.Seed)
	fmt.Fprintf(&b, "it takes %d of %d happenings:\n", len(small.Script), len(o.Script))
	for _, h := range small.Script {
		fmt.Fprintf(&b, "  %s\n", h)
	}
	fmt.Fprintf(&b, "transcript:\n  %s", strings.Join(small.Transcript, "\n  "))
	return b.String()
}
