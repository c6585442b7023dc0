package simulation

import (
	"slices"
	"testing"
)

// shrinkRuns bounds the worlds that are tried to shrink one.
const shrinkRuns = 150

// Shrink finds a smaller script that breaks the same invariant, and returns its
// outcome with a transcript.
func Shrink(t *testing.T, o Outcome) Outcome { return shrink(t, o, Bugs{}) }

func shrink(t *testing.T, o Outcome, bugs Bugs) Outcome {
	runs := 0
	breaks := func(script []Happening) bool {
		runs++
		r := Run(t, Options{Seed: o.Seed, Script: script, Bugs: bugs})
		return r.Broken != nil && r.Broken.Invariant == o.Broken.Invariant
	}
	script := slices.Clone(o.Script)
	for size := max(1, len(script)/2); ; size = max(1, size/2) {
		shrunk := false
		for i := 0; i+size <= len(script) && runs < shrinkRuns; {
			smaller := slices.Delete(slices.Clone(script), i, i+size)
			if len(smaller) > 0 && breaks(smaller) {
				script, shrunk = smaller, true
			} else {
				i += size
			}
		}
		if runs >= shrinkRuns || size == 1 && !shrunk {
			break
		}
	}
	return Run(t, Options{Seed: o.Seed, Script: script, Bugs: bugs, Record: true})
}
