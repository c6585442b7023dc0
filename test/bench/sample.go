package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// percentile of values, by nearest rank; 0 of none.
func percentile[T cmp.Ordered](values []T, p float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p/100*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

func median[T cmp.Ordered](values []T) T { return percentile(values, 50) }

// block is what one side did in one turn.
type block struct {
	latencies []time.Duration
	// cpu is what the server spent on each operation.
	cpu time.Duration
}

// series are the blocks of one side, one for each round.
type series []block

func (s series) all() []time.Duration {
	var all []time.Duration
	for _, b := range s {
		all = append(all, b.latencies...)
	}
	return all
}

// p50 is the median over the rounds of the median of each: one disturbed round
// does not move it.
func (s series) p50() time.Duration { return median(s.each(block.p50)) }

// p99 is that of all operations of all rounds.
func (s series) p99() time.Duration { return percentile(s.all(), 99) }

func (s series) cpu() time.Duration { return median(s.each(block.cpuPerOperation)) }

func (s series) each(f func(block) time.Duration) []time.Duration {
	out := make([]time.Duration, 0, len(s))
	for _, b := range s {
		out = append(out, f(b))
	}
	return out
}

func (b block) p50() time.Duration             { return median(b.latencies) }
func (b block) cpuPerOperation() time.Duration { return b.cpu }

// ratio is the median over the rounds of a figure of s to that of base in the
// same round.
func (s series) ratio(base series, f func(block) time.Duration) float64 {
	var ratios []float64
	for i := range min(len(s), len(base)) {
		if below := f(base[i]); below > 0 {
			ratios = append(ratios, float64(f(s[i]))/float64(below))
		}
	}
	return median(ratios)
}

// ms prints milliseconds with three significant digits or so.
func ms(d time.Duration) string {
	switch v := float64(d) / float64(time.Millisecond); {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func times(r float64) string { return fmt.Sprintf("%.2fx", r) }
