package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// verdict is how logical clusters compare with a stock one.
type verdict struct {
	// passed and stock are how many tests pass here of those that pass on stock.
	passed, stock int
	// byDesign are those that differ and are on the list, with why.
	byDesign []string
	// errors are for people to mend: here or on the list.
	errors []string
}

// sometimes begins the reason of what a race decides: the test may pass, too.
const sometimes = "sometimes: "

// judge compares by the table in doc.go. differs has by test why it differs.
func judge(stock, ours results, differs map[string]string) verdict {
	var v verdict
	for _, name := range slices.Sorted(maps.Keys(stock)) {
		if !stock[name] {
			continue
		}
		v.stock++
		passed, ran := ours[name]
		why, listed := reasonFor(name, differs)
		switch {
		case passed && listed && strings.HasPrefix(why, sometimes):
			v.passed++
		case passed && listed:
			v.passed++
			v.errors = append(v.errors, name+" passes: take it off the list of what differs by design")
		case passed:
			v.passed++
		case listed:
			v.byDesign = append(v.byDesign, name+": "+why)
		case ran:
			v.errors = append(v.errors, name+" fails, and passes on a stock cluster")
		default:
			v.errors = append(v.errors, name+" did not run, and passes on a stock cluster")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(differs)) {
		if !passedOn(stock, name) {
			v.errors = append(v.errors, name+" does not pass on a stock cluster: it says nothing about what differs")
		}
	}
	return v
}

// reasonFor is why a test differs: that of its own line, or that of a line whose name
// ends with a star, for all tests that begin so; of these some may pass.
func reasonFor(name string, differs map[string]string) (why string, listed bool) {
	if why, listed = differs[name]; listed {
		return why, true
	}
	for _, pattern := range slices.Sorted(maps.Keys(differs)) {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) {
			return sometimes + differs[pattern], true
		}
	}
	return "", false
}

// passedOn says that a test of the list passes on a stock cluster, or one of those that
// a star names.
func passedOn(stock results, name string) bool {
	prefix, star := strings.CutSuffix(name, "*")
	if !star {
		return stock[name]
	}
	for test, passed := range stock {
		if passed && strings.HasPrefix(test, prefix) {
			return true
		}
	}
	return false
}

// String is the closing line.
func (v verdict) String() string {
	return fmt.Sprintf("%d of %d that stock passes, %d differ by design", v.passed, v.stock, len(v.byDesign))
}

// readDiffers reads lines of the form "suite: test -- why", those of one suite.
func readDiffers(from io.Reader, suite string) (map[string]string, error) {
	out := map[string]string{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		of, rest, ok := strings.Cut(line, ": ")
		test, why, explained := strings.Cut(rest, " -- ")
		if !ok || !explained || why == "" {
			return nil, fmt.Errorf("%q is not of the form: suite: test -- why", line)
		}
		if of == suite {
			out[test] = why
		}
	}
	return out, lines.Err()
}
