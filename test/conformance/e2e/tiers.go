package main

import (
	"embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

//go:embed names/*.txt
var nameFiles embed.FS

//go:embed known.txt
var knownFile string

// tier is a list of tests by what they need.
type tier struct {
	name  string
	tests []string
}

// loadTiers reads the lists of the tiers named and keeps the tests that are wanted.
func loadTiers(names []string, wanted func(string) bool) ([]tier, error) {
	var tiers []tier
	for _, name := range names {
		data, err := nameFiles.ReadFile("names/" + name + ".txt")
		if err != nil {
			return nil, fmt.Errorf("no tier is called %q: %w", name, err)
		}
		t := tier{name: name}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && wanted(line) {
				t.tests = append(t.tests, line)
			}
		}
		tiers = append(tiers, t)
	}
	return tiers, nil
}

// readList reads the names of tests, one a line; nil if no file is named.
func readList(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" {
			listed[line] = true
		}
	}
	return listed, nil
}

// knownFailures maps the name of a test that cannot pass yet to the reason. In
// the file a line "# reason" goes before the names that it explains.
func knownFailures(file string) map[string]string {
	known, reason := map[string]string{}, ""
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "# "); ok {
			reason = text
		} else if line != "" {
			known[line] = reason
		}
	}
	return known
}

// alone says that a test must not run beside others.
func alone(test string) bool {
	return strings.Contains(test, "[Serial]") || strings.Contains(test, "[Disruptive]")
}

// slow is how many quick tests one that is called slow counts for: it waits for
// minutes.
const slow = 20

// shards deals tests out to at most n groups of like length that run beside each
// other, slow tests first; serial are those that run alone, after the others.
func shards(tests []string, n int) (parallel [][]string, serial []string) {
	weights := map[bool]int{true: slow, false: 1}
	lengths := make([]int, n)
	groups := make([][]string, n)
	for _, weight := range []int{slow, 1} {
		for _, t := range tests {
			if alone(t) || weights[strings.Contains(t, "[Slow]")] != weight {
				continue
			}
			shortest := slices.Index(lengths, slices.Min(lengths))
			groups[shortest], lengths[shortest] = append(groups[shortest], t), lengths[shortest]+weight
		}
	}
	for _, t := range tests {
		if alone(t) {
			serial = append(serial, t)
		}
	}
	return slices.DeleteFunc(groups, func(g []string) bool { return len(g) == 0 }), serial
}

// focus is the expression by which ginkgo picks exactly these tests.
func focus(tests []string) string {
	quoted := make([]string, len(tests))
	for i, t := range tests {
		quoted[i] = regexp.QuoteMeta(t)
	}
	return "(" + strings.Join(quoted, "|") + ")$"
}
