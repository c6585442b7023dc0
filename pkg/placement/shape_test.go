package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Few of many are found without an order of all, and are those that an order has first.
func TestTheBestOfManyAreTheFirstInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		from := make([]*candidate, rng.IntN(60))
		for i := range from {
			from[i] = &candidate{name: fmt.Sprint(i), decided: rng.IntN(9) == 0, preference: rng.IntN(3), score: rng.IntN(4), free: rng.IntN(3)}
		}
		rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		given, ranked := slices.Clone(from), slices.Clone(from)
		slices.SortFunc(ranked, better)
		for n := range len(from) + 2 {
			if best := bestOf(from, n); !slices.Equal(best, ranked[:min(n, len(ranked))]) {
				t.Fatalf("the %d best of %d are %v", n, len(from), best)
			}
		}
		if !slices.Equal(given, from) {
			t.Fatal("what was given is in another order")
		}
	}
}
