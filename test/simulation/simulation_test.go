package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 0, "run the world of this seed only, and print all of it if it fails")
	seeds = flag.Uint64("seeds", 200, "how many worlds to run")
	from  = flag.Uint64("from", 1, "the first seed")
)

func TestWorlds(t *testing.T) {
	if *seed != 0 {
		report(t, Run(Options{Seed: *seed}))
		return
	}
	began := time.Now()
	var steps, writes atomic.Int64
	each(*from, *seeds, func(seed uint64) {
		o := Run(Options{Seed: seed})
		steps.Add(int64(o.Steps))
		writes.Add(o.Writes)
		report(t, o)
	})
	t.Logf("%d worlds, %d steps, %d writes in %s", *seeds, steps.Load(), writes.Load(), time.Since(began).Round(time.Millisecond))
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

// report fails the test with a transcript if a world failed.
func report(t *testing.T, o Outcome) {
	t.Helper()
	if o.Broken == nil {
		return
	}
	t.Error(explain(o))
}

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
