package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Outcomes of a test.
const (
	passed = "passed"
	failed = "failed"
	notRun = "not run"
)

// result is what became of one test.
type result struct {
	Test    string  `json:"test"`
	Tier    string  `json:"tier"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
	// Message says why the test failed.
	Message string `json:"message,omitempty"`
	// Known is the reason why the test cannot pass yet, if there is one.
	Known string `json:"known,omitempty"`
}

// junit is the part of a JUnit report that ginkgo writes and this command reads
// and writes.
type junit struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	Seconds float64     `xml:"time,attr"`
	Failure *junitFault `xml:"failure"`
	Error   *junitFault `xml:"error"`
	Skipped *junitFault `xml:"skipped"`
}

type junitFault struct {
	Message string `xml:"message,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// readReports returns what the JUnit reports below dir say, by name of the test.
func readReports(dir string) (map[string]result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.xml"))
	if err != nil {
		return nil, fmt.Errorf("looking for reports in %s: %w", dir, err)
	}
	out := map[string]result{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a report: %w", err)
		}
		var report junit
		if err := xml.Unmarshal(data, &report); err != nil {
			return nil, fmt.Errorf("reading report %s: %w", file, err)
		}
		for _, suite := range report.Suites {
			for _, c := range suite.Cases {
				if r, ok := c.result(); ok {
					out[r.Test] = r
				}
			}
		}
	}
	return out, nil
}

// result of a test case; not ok for what is no test, or did not run.
func (c junitCase) result() (result, bool) {
	name, ok := strings.CutPrefix(c.Name, "[It] ")
	if !ok || c.Skipped != nil {
		return result{}, false
	}
	r := result{Test: name, Outcome: passed, Seconds: c.Seconds}
	for _, fault := range []*junitFault{c.Failure, c.Error} {
		if fault != nil {
			r.Outcome, r.Message = failed, strings.TrimSpace(fault.Message)
			if r.Message == "" {
				r.Message = strings.TrimSpace(fault.Text)
			}
		}
	}
	return r, true
}

// collect puts what was found into the order of the tiers.
func collect(tiers []tier, found map[string]result, known map[string]string) []result {
	var results []result
	for _, t := range tiers {
		for _, test := range t.tests {
			r, ok := found[test]
			if !ok {
				r = result{Test: test, Outcome: notRun}
			}
			r.Tier, r.Known = t.name, known[test]
			results = append(results, r)
		}
	}
	return results
}

// writeReports leaves the results as JSON and JUnit in dir.
func writeReports(dir string, tiers []tier, results []result) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "conformance.json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	var report junit
	for _, t := range tiers {
		suite := junitSuite{Name: t.name}
		for _, r := range results {
			if r.Tier != t.name {
				continue
			}
			c := junitCase{Name: r.Test, Class: "conformance." + t.name, Seconds: r.Seconds}
			suite.Tests++
			switch r.Outcome {
			case failed:
				suite.Failures++
				c.Failure = &junitFault{Message: r.Message}
			case notRun:
				suite.Failures++
				c.Failure = &junitFault{Message: notRun}
			}
			suite.Cases = append(suite.Cases, c)
		}
		report.Suites = append(report.Suites, suite)
	}
	if data, err = xml.MarshalIndent(report, "", "  "); err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "conformance.xml"), data, 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// say prints what did not pass, then a figure for each tier and one for all. It
// returns how many results nobody expected.
func say(w io.Writer, tiers []tier, results []result) (surprises int) {
	for _, r := range results {
		switch {
		case r.Outcome == passed && r.Known != "":
			surprises++
			fmt.Fprintf(w, "passed, though known.txt says it cannot: %s\n", r.Test)
		case r.Outcome != passed && r.Known != "":
			fmt.Fprintf(w, "%s as known: %s: %s\n", r.Outcome, r.Test, r.Known)
		case r.Outcome != passed:
			surprises++
			fmt.Fprintf(w, "%s: %s: %s\n", r.Outcome, r.Test, firstLine(r.Message))
		}
	}
	total, good := 0, 0
	for _, t := range tiers {
		n := 0
		for _, r := range results {
			if r.Tier == t.name && r.Outcome == passed {
				n++
			}
		}
		fmt.Fprintf(w, "%-16s %s\n", t.name, share(n, len(t.tests)))
		total, good = total+len(t.tests), good+n
	}
	fmt.Fprintf(w, "conformance %s\n", share(good, total))
	return surprises
}

func share(n, of int) string {
	return fmt.Sprintf("%d/%d %.1f%%", n, of, 100*float64(n)/float64(max(of, 1)))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}
