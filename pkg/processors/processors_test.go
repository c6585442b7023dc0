package processors

import (
	"runtime"
	"testing"
)

func TestRunning(t *testing.T) {
	t.Parallel()
	for processors, want := range map[int]int{1: 2, 2: 4, 3: 6, 4: 8, 6: 8, 8: 8, 64: 64} {
		if got := running(processors); got != want {
			t.Errorf("on %d processors run %d goroutines, want %d", processors, got, want)
		}
	}
}

// What runs at a time is of the whole process.
//
//nolint:paralleltest // see above
func TestSpread(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	counted := Count()

	t.Setenv("GOMAXPROCS", "3")
	if Spread(); runtime.GOMAXPROCS(0) != before {
		t.Errorf("%d run at a time, of which the operator said %d", runtime.GOMAXPROCS(0), before)
	}
	t.Setenv("GOMAXPROCS", "") // as if it were not set

	for _, c := range []struct {
		name       string
		processors int
		want       int
	}{
		{"all processors of the machine", runtime.NumCPU(), running(runtime.NumCPU())},
		{"a container that may have fewer", runtime.NumCPU() - 1, before},
	} {
		runtime.GOMAXPROCS(before)
		count = c.processors
		if Spread(); runtime.GOMAXPROCS(0) != c.want {
			t.Errorf("%s: %d run at a time, want %d", c.name, runtime.GOMAXPROCS(0), c.want)
		}
		if Count() != c.processors {
			t.Errorf("%s: %d are counted afterwards, want %d", c.name, Count(), c.processors)
		}
	}
	count = counted
}
