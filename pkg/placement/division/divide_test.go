package division

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func targets(spec ...Target) []Target {
	for i := range spec {
		spec[i].Name = string(rune('a' + i))
		if spec[i].Max == 0 {
			spec[i].Max = -1
		}
	}
	return spec
}

// weighted are targets with these weights.
func weighted(weights ...int64) []Target {
	out := make([]Target, len(weights))
	for i, w := range weights {
		out[i].Weight = w
	}
	return targets(out...)
}

func with(list []Target, present ...int64) []Target {
	for i := range list {
		list[i].Present = present[i]
	}
	return list
}

func roomy(room ...int64) []Target {
	out := make([]Target, len(room))
	for i, n := range room {
		out[i].Room = n
	}
	return targets(out...)
}

// The rows that name Karmada are of its published tables: what it is asked and answers.
func TestDivide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		by      By
		targets []Target
		wish    int64
		want    []int64
	}{
		{"even", Weights, weighted(1, 1), 6, []int64{3, 3}},
		{"uneven by one, the first by name", Weights, weighted(1, 1), 7, []int64{4, 3}},
		{"uneven by one, where it is already", Weights, with(weighted(1, 1), 3, 4), 7, []int64{3, 4}},
		{"one to two", Weights, weighted(1, 2), 9, []int64{3, 6}},
		{"Karmada: static, 3:2:1 of 12", Weights, weighted(3, 2, 1), 12, []int64{6, 4, 2}},
		{"Karmada: static, 1:1:1 of 12", Weights, weighted(1, 1, 1), 12, []int64{4, 4, 4}},
		{"Karmada had 8, 4, 2 for 3:2:1 of 14; the exact shares are 7, 4 2/3, 2 1/3", Weights, weighted(3, 2, 1), 14, []int64{7, 5, 2}},
		{"Karmada: dynamic, 18:12:6", Free, roomy(18, 12, 6), 12, []int64{6, 4, 2}},
		{"Karmada: dynamic, 6:12:6", Free, roomy(6, 12, 6), 12, []int64{3, 6, 3}},
		{"Karmada had 7, 4, 1 for 20:12:6; the exact shares are 6.3, 3.8, 1.9", Free, roomy(20, 12, 6), 12, []int64{6, 4, 2}},
		{"Karmada: aggregated, 12:6:6", Packed, roomy(12, 6, 6), 12, []int64{12, 0, 0}},
		{"Karmada: aggregated, 6:6:6", Packed, roomy(6, 6, 6), 12, []int64{6, 6, 0}},
		{"Karmada: parties of 100, 80, 30 and 20 thousand and 7 seats", Weights, weighted(100, 80, 30, 20), 7, []int64{3, 2, 1, 1}},
		{"and 8 seats", Weights, weighted(100, 80, 30, 20), 8, []int64{3, 3, 1, 1}},
		{"nothing wanted", Weights, weighted(1, 2), 0, []int64{0, 0}},
		{"fewer than targets", Weights, weighted(1, 1, 1), 2, []int64{1, 1, 0}},
		{"no weight at all is the same for all", Weights, weighted(0, 0), 4, []int64{2, 2}},
		{"weight 0", Weights, weighted(0, 1), 4, []int64{0, 4}},
		{"weight 0 with a minimum", Weights, targets(Target{Min: 1}, Target{Weight: 1}), 4, []int64{1, 3}},
		{"a maximum", Weights, targets(Target{Weight: 1, Max: 1}, Target{Weight: 1}), 6, []int64{1, 5}},
		{"minimums beyond the wish", Weights, targets(Target{Weight: 1, Min: 4}, Target{Weight: 1, Min: 2}), 3, []int64{2, 1}},
		{"maximums below the wish", Weights, targets(Target{Weight: 1, Max: 2}, Target{Weight: 1, Max: 4}), 10, []int64{4, 6}},
		{"the paradox of Alabama keeps what is there as far as exact shares permit", Weights, with(weighted(6, 6, 2), 4, 4, 2), 11, []int64{5, 4, 2}},
		{"free room", Free, roomy(2, 6), 4, []int64{1, 3}},
		{"what is there stays, what is added follows the room", Free, with(roomy(0, 6), 4, 0), 8, []int64{4, 4}},
		{"what is given up is given up evenly", Free, with(roomy(0, 6), 6, 3), 6, []int64{4, 2}},
		{"no room at all", Free, roomy(0, 0), 4, []int64{2, 2}},
		{"packed", Packed, roomy(4, 8), 6, []int64{0, 6}},
		{"packed, over", Packed, roomy(4, 8), 10, []int64{2, 8}},
		{"packed, nowhere", Packed, roomy(1, 2), 10, []int64{1, 9}},
		{"packed, what is there stays", Packed, with(roomy(4, 8), 3, 0), 6, []int64{6, 0}},
		{"packed, the smallest is emptied first", Packed, with(roomy(4, 8), 5, 2), 4, []int64{4, 0}},
		{"packed, a maximum", Packed, targets(Target{Room: 9, Max: 2}, Target{Room: 4}), 5, []int64{2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Divide(c.by, c.targets, c.wish); !slices.Equal(got, c.want) {
				t.Errorf("Divide(%s, %v, %d) = %v, want %v", c.by, c.targets, c.wish, got, c.want)
			}
		})
	}
	if got := Divide(Weights, nil, 3); got != nil {
		t.Errorf("without targets: %v", got)
	}
}

// world is a random question; small, so that all answers can be tried.
func world(r *rand.Rand) (targets []Target, wish int64) {
	for i := range 1 + r.IntN(4) {
		t := Target{Name: fmt.Sprint(i), Weight: r.Int64N(5), Room: r.Int64N(6), Max: -1, Present: r.Int64N(6)}
		if r.IntN(3) == 0 {
			t.Min = r.Int64N(4)
		}
		if r.IntN(3) == 0 {
			t.Max = t.Min + r.Int64N(5)
		}
		targets = append(targets, t)
	}
	return targets, r.Int64N(14)
}

// limits are the sums of the bounds; most is below 0 if a target has no maximum.
func limits(targets []Target) (least, most int64) {
	for _, t := range targets {
		least += t.Min
		if t.Max < 0 || most < 0 {
			most = -1
			continue
		}
		most += t.Max
	}
	return least, most
}

func TestTheSumIsTheWishAndAnotherQuestionChangesNothing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 30000 {
		targets, wish := world(r)
		for _, by := range []By{Weights, Free, Packed} {
			shares := Divide(by, targets, wish)
			if total(shares) != wish || slices.Min(shares) < 0 {
				t.Fatalf("Divide(%s, %+v, %d) = %v", by, targets, wish, shares)
			}
			least, most := limits(targets)
			for i, share := range shares {
				within := share >= targets[i].Min && (targets[i].Max < 0 || share <= targets[i].Max)
				if !within && least <= wish && (most < 0 || wish <= most) {
					t.Fatalf("Divide(%s, %+v, %d) = %v, out of the bounds of %d", by, targets, wish, shares, i)
				}
			}
			again := slices.Clone(targets)
			for i := range again {
				again[i].Present = shares[i]
			}
			if next := Divide(by, again, wish); !slices.Equal(next, shares) {
				t.Fatalf("Divide(%s, %+v, %d) = %v, and then %v", by, targets, wish, shares, next)
			}
		}
	}
}

// TestSharesByWeightAreTheBestOfAll compares with all vectors, made by force: each share is
// the exact one rounded up or down; of those the fewest replicas change; of those the least
// is rounded.
func TestSharesByWeightAreTheBestOfAll(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	tried := 0
	for range 20000 {
		targets, wish := world(r)
		least, most := limits(targets)
		weights := int64(0)
		for _, t := range targets {
			weights += t.Weight
		}
		if weights == 0 || least > wish || most >= 0 && most < wish {
			continue
		}
		quotas := byForce(targets, wish)
		if quotas == nil {
			continue // only what has no weight is left to take more
		}
		tried++
		got := Divide(Weights, targets, wish)
		var best []int64
		var bestMoved int64
		var bestOff *big.Rat
		every(len(targets), wish, func(shares []int64) {
			moved, off := int64(0), new(big.Rat)
			for i, share := range shares {
				from := new(big.Rat).Sub(new(big.Rat).SetInt64(share), quotas[i])
				if from.Abs(from).Cmp(big.NewRat(1, 1)) >= 0 {
					return
				}
				off.Add(off, from)
				moved += max(share-targets[i].Present, targets[i].Present-share)
			}
			if best == nil || moved < bestMoved || moved == bestMoved && off.Cmp(bestOff) < 0 {
				best, bestMoved, bestOff = slices.Clone(shares), moved, off
			}
		})
		moved, off := int64(0), new(big.Rat)
		for i, share := range got {
			from := new(big.Rat).Sub(new(big.Rat).SetInt64(share), quotas[i])
			off.Add(off, from.Abs(from))
			moved += max(share-targets[i].Present, targets[i].Present-share)
		}
		if moved != bestMoved || off.Cmp(bestOff) != 0 {
			t.Fatalf("Divide(%+v, %d) = %v; by force %v", targets, wish, got, best)
		}
	}
	if tried < 5000 {
		t.Fatalf("only %d worlds were tried", tried)
	}
}

// byForce are the exact shares: weights times one factor, within the bounds. It tries each
// factor at which some bound is reached, and between two of them solves for the wish.
func byForce(targets []Target, wish int64) []*big.Rat {
	shares := func(factor *big.Rat) (out []*big.Rat, sum *big.Rat) {
		sum = new(big.Rat)
		for _, t := range targets {
			share := new(big.Rat).Mul(factor, big.NewRat(t.Weight, 1))
			if low := big.NewRat(t.Min, 1); share.Cmp(low) < 0 {
				share = low
			}
			if high := big.NewRat(t.Max, 1); t.Max >= 0 && share.Cmp(high) > 0 {
				share = high
			}
			out, sum = append(out, share), sum.Add(sum, share)
		}
		return out, sum
	}
	points := []*big.Rat{new(big.Rat), big.NewRat(1000, 1)}
	for _, t := range targets {
		if t.Weight > 0 {
			points = append(points, big.NewRat(t.Min, t.Weight), big.NewRat(max(0, t.Max), t.Weight))
		}
	}
	slices.SortFunc(points, (*big.Rat).Cmp)
	want := big.NewRat(wish, 1)
	for i := 1; i < len(points); i++ {
		_, low := shares(points[i-1])
		_, high := shares(points[i])
		if low.Cmp(want) > 0 || high.Cmp(want) < 0 {
			continue
		}
		if low.Cmp(high) == 0 {
			out, _ := shares(points[i])
			return out
		}
		// The sum is a straight line between two points.
		at := new(big.Rat).Quo(new(big.Rat).Sub(want, low), new(big.Rat).Sub(high, low))
		at.Mul(at, new(big.Rat).Sub(points[i], points[i-1])).Add(at, points[i-1])
		out, _ := shares(at)
		return out
	}
	return nil
}

// every calls do with all vectors of n numbers with a sum.
func every(n int, sum int64, do func([]int64)) {
	vector := make([]int64, n)
	var fill func(i int, left int64)
	fill = func(i int, left int64) {
		if i == n-1 {
			vector[i] = left
			do(vector)
			return
		}
		for x := range left + 1 {
			vector[i] = x
			fill(i+1, left-x)
		}
	}
	fill(0, sum)
}

func TestWhatIsThereStaysUnlessByWeights(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		targets, _ := world(r)
		before := int64(0)
		for i := range targets {
			targets[i].Min, targets[i].Max = 0, -1
			before += targets[i].Present
		}
		wish := r.Int64N(14)
		for _, by := range []By{Free, Packed} {
			for i, share := range Divide(by, targets, wish) {
				if wish >= before && share < targets[i].Present || wish <= before && share > targets[i].Present {
					t.Fatalf("Divide(%s, %+v, %d) moves replicas at %d", by, targets, wish, i)
				}
			}
		}
	}
}

func TestHugeNumbersDoNotOverflow(t *testing.T) {
	t.Parallel()
	const huge = 1<<31 - 1
	list := make([]Target, 64)
	for i := range list {
		list[i] = Target{Name: fmt.Sprint(i), Weight: 1000, Room: 100000, Max: -1, Present: huge}
	}
	for _, by := range []By{Weights, Free, Packed} {
		shares := Divide(by, list, huge)
		if total(shares) != huge || slices.Min(shares) < 0 {
			t.Errorf("by %s: %v", by, shares)
		}
	}
}
