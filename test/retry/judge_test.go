package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheSlowestAreNamed(t *testing.T) {
	r := results{took: map[string]float64{"TestQuick": 9.9, "TestB": 12, "TestA": 12, "TestLong": 191.4}}
	if got, want := strings.Join(r.slowest(), "; "), " 191 s TestLong;   12 s TestA;   12 s TestB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range maxSlowest {
		r.took[fmt.Sprintf("TestMany%d", i)] = 20
	}
	if got := r.slowest(); len(got) != maxSlowest || got[0] != " 191 s TestLong" {
		t.Errorf("%d are named, first %q", len(got), got[0])
	}
}

// The cells of the table in doc.go.
func TestARunIsJudgedByBothRunsAndTheList(t *testing.T) {
	t.Parallel()
	failed := func(tests ...string) results { return results{failed: map[string][]string{"p": tests}} }
	none := results{failed: map[string][]string{}}
	listed := map[string]entry{"TestA": {test: "TestA", issue: "#7", expires: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}}
	for name, c := range map[string]struct {
		first  results
		second *results
		list   map[string]entry
		passes bool
		says   string
	}{
		"failed twice":                {failed("TestA"), new(failed("TestA")), nil, false, "TestA failed twice"},
		"failed twice, listed":        {failed("TestA"), new(failed("TestA")), listed, false, "TestA failed twice"},
		"second time, listed":         {failed("TestA"), &none, listed, true, "until 2026-04-01 (#7)"},
		"second time, not listed":     {failed("TestA"), &none, nil, false, "TestA passed only the second time"},
		"one listed, another not":     {failed("TestA", "TestB"), &none, listed, false, "TestB passed only the second time"},
		"first not complete":          {results{incomplete: []string{"p"}}, nil, listed, false, "p did not run to its end"},
		"another package incomplete":  {results{failed: failed("TestA").failed, incomplete: []string{"q"}}, &none, listed, false, "q did not run to its end"},
		"incomplete the second time":  {failed("TestA"), &results{incomplete: []string{"p"}}, listed, false, "p did not run to its end the second time"},
		"the namesake of another one": {results{failed: map[string][]string{"p": {"TestB"}, "q": {"TestB"}}}, &results{failed: map[string][]string{"q": {"TestB"}}}, nil, false, "TestB failed twice"},
	} {
		lines, passes := judge(c.first, c.second, c.list)
		if said := strings.Join(lines, "\n"); passes != c.passes || !strings.Contains(said, c.says) {
			t.Errorf("%s: passes %v, want %v, and says %q, want %q", name, passes, c.passes, said, c.says)
		}
	}
}
