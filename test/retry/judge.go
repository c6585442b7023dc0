package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// judge says how a run ends that did not pass at once: with lines for people, and
// whether it passes. second is nil if nothing ran again. The cells are those of the
// table in doc.go.
func judge(first results, second *results, list map[string]entry) (lines []string, passes bool) {
	passes = true
	fail := func(format string, args ...any) {
		lines, passes = append(lines, fmt.Sprintf(format, args...)), false
	}
	for _, p := range first.incomplete {
		fail("%s did not run to its end, so nothing of it ran again", p)
	}
	if second == nil {
		return lines, passes
	}
	for _, p := range second.incomplete {
		fail("%s did not run to its end the second time", p)
	}
	for _, p := range slices.Sorted(maps.Keys(first.failed)) {
		if slices.Contains(second.incomplete, p) {
			continue
		}
		for _, test := range first.failed[p] {
			e, listed := list[test]
			switch {
			case slices.Contains(second.failed[p], test):
				fail("%s failed twice", test)
			case listed:
				lines = append(lines, fmt.Sprintf("%s passed the second time, as test/flaky.txt allows until %s (%s)", test, e.expires.Format("2006-01-02"), e.issue))
			default:
				fail("%s passed only the second time: mend it, or list it in test/flaky.txt with its issue and a date", test)
			}
		}
	}
	return lines, passes
}

// pattern is what -run takes to run these tests only.
func pattern(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }
