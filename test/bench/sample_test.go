package main

import (
	"testing"
	"time"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	values := []int{5, 1, 4, 2, 3}
	for p, want := range map[float64]int{0: 1, 20: 1, 21: 2, 50: 3, 99: 5, 100: 5} {
		if got := percentile(values, p); got != want {
			t.Errorf("percentile %v is %d, want %d", p, got, want)
		}
	}
	if got := percentile([]int(nil), 50); got != 0 {
		t.Errorf("percentile of nothing is %d, want 0", got)
	}
}

func TestRatioIsTheMedianOfTheRoundsAndNotTheRatioOfTheMedians(t *testing.T) {
	stock := series{{cpu: 10}, {cpu: 100}, {cpu: 20}} // the second round was disturbed
	ours := series{{cpu: 11}, {cpu: 110}, {cpu: 30}}
	if got, want := ours.ratio(stock, block.cpuPerOperation), 1.1; got != want {
		t.Errorf("the ratio is %v, want %v", got, want)
	}
}

func TestOneDisturbedRoundDoesNotMoveTheMedian(t *testing.T) {
	s := series{
		{latencies: []time.Duration{1, 2, 3}},
		{latencies: []time.Duration{100, 200, 300}},
		{latencies: []time.Duration{2, 2, 2}},
	}
	if got, want := s.p50(), time.Duration(2); got != want {
		t.Errorf("p50 is %v, want %v", got, want)
	}
	if got, want := s.p99(), time.Duration(300); got != want {
		t.Errorf("p99 is %v, want %v", got, want)
	}
}
