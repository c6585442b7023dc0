package simulation

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	seed       = flag.Uint64("seed", 0, "run the world of this seed only")
	transcript = flag.Bool("transcript", false, "print what happens in the world of -seed")
	worlds     = flag.Uint64("worlds", 24, "how many worlds to run at most")
	from       = flag.Uint64("from", 1, "the first seed")
	fresh      = flag.Bool("fresh", false, "begin with a random seed")
	budget     = flag.Duration("budget", 0, "run as many worlds as fit into this time; 0: all of them")
	provoke    = flag.String("provoke", "", "what is to happen often, as in script.go, separated by commas")
	processes  = flag.Int("processes", runtime.NumCPU(), "how many processes share the worlds")
)

// maxReports bounds the worlds that are shrunk and printed in one run.
const maxReports = 3

// reportEach is after how many worlds a long run says how far it is.
const reportEach = 500

func TestWorlds(t *testing.T) {
	if *seed != 0 {
		o := Run(t, Options{Seed: *seed, Script: scriptOf(*seed), Record: *transcript})
		if *transcript {
			t.Logf("%d steps:\n%s", o.Steps, strings.Join(o.Transcript, "\n"))
		}
		if o.Broken != nil {
			t.Error(explain(t, o))
		}
		return
	}
	first := *from
	if *fresh {
		first = rand.Uint64() >> 32 << 16
		t.Logf("from seed %d on", first)
	}
	if *processes > 1 && *worlds > 1 {
		inProcesses(t, first)
		return
	}
	began := time.Now()
	steps, writes, copies, lived := 0, int64(0), 0, uint64(0)
	var broken []Outcome
	for ; lived < *worlds && (*budget == 0 || time.Since(began) < *budget); lived++ {
		o := Run(t, Options{Seed: first + lived, Script: scriptOf(first + lived)})
		steps, writes, copies = steps+o.Steps, writes+o.Writes, copies+o.Copies
		if o.Broken != nil {
			broken = append(broken, o)
			fmt.Fprintf(os.Stderr, "seed %d is broken: %s: %s\n", o.Seed, o.Broken.Invariant, o.Broken.Detail)
		}
		if (lived+1)%reportEach == 0 {
			fmt.Fprintf(os.Stderr, "%d worlds from seed %d on, %d broken, in %s\n", lived+1, first, len(broken), time.Since(began).Round(time.Second))
		}
	}
	for i, o := range broken {
		if i < maxReports {
			t.Error(explain(t, o))
		} else {
			t.Errorf("seed %d: %s: %s", o.Seed, o.Broken.Invariant, o.Broken.Detail)
		}
	}
	took := time.Since(began)
	t.Logf("%d worlds from seed %d on, %d broken, %d steps, %d writes, %d copies in %s: %.1f worlds a second",
		lived, first, len(broken), steps, writes, copies, took.Round(time.Millisecond), float64(lived)/took.Seconds())
}

// scriptOf is what happens in the world of a seed, as the flags want it.
func scriptOf(seed uint64) []Happening {
	if *provoke == "" {
		return Script(seed)
	}
	return Script(seed, strings.Split(*provoke, ",")...)
}

// inProcesses shares the worlds out to processes of this test: in one, they run one
// after the other.
func inProcesses(t *testing.T, first uint64) {
	n := uint64(*processes)
	share := (*worlds + n - 1) / n
	var running sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		running.Go(func() {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestWorlds$", "-test.v", "-test.timeout", "0", "-processes", "1",
				"-from", fmt.Sprint(first+i*share), "-worlds", fmt.Sprint(share), "-budget", budget.String(), "-provoke", *provoke)
			c.Stderr = os.Stderr
			out, err := c.Output()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
				return
			}
			t.Logf("%s", out)
		})
	}
	running.Wait()
}

func TestTheSameSeedIsTheSameWorld(t *testing.T) {
	for seed := range uint64(16) {
		first, second := Run(t, Options{Seed: seed, Record: true}), Run(t, Options{Seed: seed, Record: true})
		if first.Digest == second.Digest {
			continue
		}
		for i, line := range first.Transcript {
			if i >= len(second.Transcript) || line != second.Transcript[i] {
				around := func(lines []string) []string { return lines[max(0, min(i-3, len(lines))):min(len(lines), i+6)] }
				t.Errorf("seed %d, from line %d on (-first +second):\n%s", seed, i, cmp.Diff(around(first.Transcript), around(second.Transcript)))
				break
			}
		}
	}
}

func TestWorldsDiffer(t *testing.T) {
	digests := map[uint64]bool{}
	for seed := range uint64(10) {
		digests[Run(t, Options{Seed: seed, Record: true}).Digest] = true
	}
	if len(digests) != 10 {
		t.Errorf("10 seeds are %d worlds", len(digests))
	}
}

func TestEverythingThatCanHappenHappens(t *testing.T) {
	missing := map[string]bool{}
	for _, v := range allVerbs() {
		if v.weight > 0 {
			missing[v.name] = true
		}
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
		o := Run(t, Options{Seed: seed, Bugs: bugs})
		if o.Broken == nil {
			continue
		}
		small := shrink(t, o, bugs)
		if small.Broken == nil || small.Broken.Invariant != o.Broken.Invariant {
			t.Fatalf("it breaks %v, shrunk it breaks %v", o.Broken, small.Broken)
		}
		const most = 6 // of some sixty: make something, take it away, and what has one request come before another
		if len(small.Script) > most {
			t.Errorf("it still takes %d happenings: %v", len(small.Script), small.Script)
		}
		// What others asked in the same step is answered after it.
		step := strings.Fields(small.Transcript[len(small.Transcript)-1])[0]
		last := slices.DeleteFunc(slices.Clone(small.Transcript), func(line string) bool { return !strings.HasPrefix(strings.TrimSpace(line), step+" ") })
		if !strings.Contains(strings.Join(last, "\n"), "BROKEN: "+small.Broken.Invariant) {
			t.Errorf("the transcript does not end with what is broken: %v", last)
		}
		return
	}
}

// provocation is the flag that repeats what is provoked.
func provocation() string {
	if *provoke == "" {
		return ""
	}
	return fmt.Sprintf(" -provoke %q", *provoke)
}

// explain shrinks a broken world and prints what happened in it.
func explain(t *testing.T, o Outcome) string {
	small := Shrink(t, o)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s: %s\n", o.Seed, o.Broken.Invariant, o.Broken.Detail)
	fmt.Fprintf(&b, "again: go test ./test/simulation -run TestWorlds -seed %d%s\n", o.Seed, provocation())
	fmt.Fprintf(&b, "it takes %d of %d happenings:\n", len(small.Script), len(o.Script))
	for _, h := range small.Script {
		fmt.Fprintf(&b, "  %s\n", h)
	}
	fmt.Fprintf(&b, "transcript:\n  %s", strings.Join(small.Transcript, "\n  "))
	return b.String()
}

// TestMain: one thread is faster for goroutines that take turns, and what a world
// leaves behind is better collected seldom.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(768 << 20)
	os.Exit(m.Run())
}
