package division

import (
	"cmp"
	"slices"
)

// exact divides a wish in proportion to weights within bounds, which it fits: each share is
// the exact one rounded up or down, so that as few replicas as possible change; what that
// leaves open is rounded up where the remainder is largest, then by name.
func exact(parts []part, wish int64) []int64 {
	shares, open := make([]int64, len(parts)), make([]int, len(parts))
	for i := range open {
		open[i] = i
	}
	rest := wish
	for {
		weights := weightsOf(parts, open)
		sum := total(weights)
		frozen := beyond(parts, open, weights, rest, sum)
		if len(frozen) == 0 {
			round(parts, open, weights, rest, sum, shares)
			return shares
		}
		for i, share := range frozen {
			shares[i] = share
			rest -= share
		}
		open = slices.DeleteFunc(open, func(i int) bool { _, is := frozen[i]; return is })
	}
}

// maxSum bounds the sum of weights, so that no product overflows. Only shares of millions
// of replicas come near.
const maxSum = 1 << 24

// weightsOf are the weights of some parts; all the same if there is none.
func weightsOf(parts []part, open []int) []int64 {
	weights := make([]int64, len(open))
	for n, i := range open {
		weights[n] = max(0, parts[i].weight)
	}
	for total(weights) > maxSum {
		for n := range weights {
			weights[n] /= 2
		}
	}
	if total(weights) == 0 {
		for n := range weights {
			weights[n] = 1
		}
	}
	return weights
}

func total(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// beyond are the parts whose exact share, rest*weight/sum, is not within their bounds, with
// the bound that they get: those below theirs if they lack more than the others are over,
// else those over theirs. So each bound that is given is one of the answer.
func beyond(parts []part, open []int, weights []int64, rest, sum int64) map[int]int64 {
	below, above := map[int]int64{}, map[int]int64{}
	violation := int64(0)
	for n, i := range open {
		exactly := rest * weights[n]
		switch p := parts[i]; {
		case exactly < p.least*sum:
			below[i] = p.least
			violation += p.least*sum - exactly
		case exactly > p.most*sum:
			above[i] = p.most
			violation -= exactly - p.most*sum
		}
	}
	if violation > 0 || violation == 0 && len(below) > 0 {
		return below
	}
	return above
}

// round gives each open part its share, rounded down, and the rest of them one more.
func round(parts []part, open []int, weights []int64, rest, sum int64, shares []int64) {
	if len(open) == 0 {
		return
	}
	left, up := rest, []int{}
	remainders := map[int]int64{}
	for n, i := range open {
		shares[i] = rest * weights[n] / sum
		remainders[i] = rest * weights[n] % sum
		left -= shares[i]
		if remainders[i] > 0 {
			up = append(up, i)
		}
	}
	has := func(i int) int { // what it has already need not move
		if parts[i].Present > shares[i] {
			return 0
		}
		return 1
	}
	slices.SortFunc(up, func(a, b int) int {
		return cmp.Or(cmp.Compare(has(a), has(b)), -cmp.Compare(remainders[a], remainders[b]), cmp.Compare(parts[a].Name, parts[b].Name))
	})
	for _, i := range up[:left] {
		shares[i]++
	}
}
