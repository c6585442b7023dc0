package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxKept bounds what is kept of the output of one test, maxLine one line of go.
const (
	maxKept = 1 << 20
	maxLine = 8 << 20
)

// maxSaid and maxSaidLine bound what of a failed test is repeated at the end of a run, in
// lines and in bytes.
const (
	maxSaid     = 8
	maxSaidLine = 400
)

// results are those of one run.
type results struct {
	// failed has the tests (not their subtests) that failed, by package.
	failed map[string][]string
	// said has what tests that failed said first, a line for each call, by package and test.
	said map[string]map[string][]string
	// took is how many seconds each test lasted that ended.
	took map[string]float64
	// incomplete are the packages of which nobody knows whether all tests ran.
	incomplete []string
}

func (r results) passed() bool { return len(r.failed) == 0 && len(r.incomplete) == 0 }

// maxSlowest is how many of the slowest tests are named, slow how long one lasts at least that is, in seconds.
const (
	maxSlowest = 15
	slow       = 10
)

// slowest says which tests lasted longest, one a line: to shorten a run begins there.
func (r results) slowest() []string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(r.took)), func(test string) bool { return r.took[test] < slow })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(r.took[b], r.took[a]), cmp.Compare(a, b)) })
	var out []string
	for _, test := range names[:min(len(names), maxSlowest)] {
		out = append(out, fmt.Sprintf("%4.0f s %s", r.took[test], test))
	}
	return out
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	// Elapsed is in seconds.
	Elapsed float64
}

// packageRun is one package while it runs.
type packageRun struct {
	running map[string]*strings.Builder // output by test
	failed  []string
	said    map[string][]string
	crashed bool
}

// readResults reads the output of go test -json. What failing tests and packages say
// is copied to out.
func readResults(r io.Reader, out io.Writer) (results, error) {
	packages := map[string]*packageRun{}
	all := results{failed: map[string][]string{}, said: map[string]map[string][]string{}, took: map[string]float64{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil { // go itself complains
			fmt.Fprintln(out, lines.Text())
			continue
		}
		if e.Package == "" {
			fmt.Fprint(out, e.Output)
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &packageRun{running: map[string]*strings.Builder{}, said: map[string][]string{}}
			packages[e.Package] = p
		}
		if e.Test != "" && !strings.Contains(e.Test, "/") && e.Elapsed > 0 {
			all.took[e.Test] = e.Elapsed
		}
		if p.add(e, out); e.Test == "" && e.Action == "fail" {
			p.end(e.Package, &all, out)
		}
	}
	slices.Sort(all.incomplete)
	return all, lines.Err()
}

// add takes note of an event; a test's output is shown when it fails.
func (p *packageRun) add(e event, out io.Writer) {
	test, _, sub := strings.Cut(e.Test, "/")
	switch {
	case e.Action == "output":
		p.crashed = p.crashed || crash(e.Output)
		if test == "" {
			showPackage(e.Output, out)
			return
		}
		p.keep(test, e.Output)
	case test == "" || sub:
	case e.Action == "run":
		p.keep(test, "")
	case e.Action == "fail":
		p.failed = append(p.failed, test)
		p.said[test] = said(p.running[test].String())
		fmt.Fprint(out, p.running[test])
		delete(p.running, test)
	case e.Action == "pass", e.Action == "skip":
		delete(p.running, test)
	}
}

func (p *packageRun) keep(test, output string) {
	kept := p.running[test]
	if kept == nil {
		kept = &strings.Builder{}
		p.running[test] = kept
	}
	if !strings.HasPrefix(output, "=== ") && kept.Len()+len(output) <= maxKept {
		kept.WriteString(output)
	}
}

// end files a package that failed.
func (p *packageRun) end(name string, all *results, out io.Writer) {
	if len(p.failed) > 0 && len(p.running) == 0 && !p.crashed {
		slices.Sort(p.failed)
		all.failed[name], all.said[name] = p.failed, p.said
		return
	}
	all.incomplete = append(all.incomplete, name)
	for _, test := range slices.Sorted(maps.Keys(p.running)) {
		fmt.Fprintf(out, "--- not finished: %s\n%s", test, p.running[test])
	}
}

// call is where a line of a test's output begins that a call of its testing.T wrote.
var call = regexp.MustCompile(`^ *[^ ]+\.go:[0-9]+: `)

// said are the first lines of the first calls in the output of a test: why it failed is
// among them, however long the logs are that follow.
func said(output string) []string {
	var out []string
	for line := range strings.Lines(output) {
		if line = strings.TrimRight(line, "\n"); !call.MatchString(line) {
			continue
		}
		if line = strings.TrimSpace(line); len(line) > maxSaidLine {
			line = line[:maxSaidLine] + "..."
		}
		if out = append(out, line); len(out) == maxSaid {
			break
		}
	}
	return out
}

// crash says whether a line is how a process ends that runs no further tests.
func crash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "*** Test killed")
}

// showPackage leaves out what says nothing.
func showPackage(line string, out io.Writer) {
	if line != "PASS\n" && line != "FAIL\n" && !strings.Contains(line, "[no test files]") && !strings.HasPrefix(line, "coverage:") {
		fmt.Fprint(out, line)
	}
}
