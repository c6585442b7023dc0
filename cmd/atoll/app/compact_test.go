package app

import (
	"runtime/debug"
	"testing"
)

func TestOnlyTheStartCollectsOften(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, tc := range []struct {
		name             string
		asked, whileMade int
	}{
		{"the default of Go", 100, startGCPercent},
		{"more garbage was asked for", 400, startGCPercent},
		{"less garbage was asked for", 10, 10},
		{"no collections were asked for", -1, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			debug.SetGCPercent(tc.asked)
			settle := compact()
			if got := gcPercent(); got != tc.whileMade {
				t.Errorf("while the server starts it is %d, want %d", got, tc.whileMade)
			}
			settle()
			if got := gcPercent(); got != tc.asked {
				t.Errorf("when the server has started it is %d, want %d", got, tc.asked)
			}
		})
	}
}

func gcPercent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}
