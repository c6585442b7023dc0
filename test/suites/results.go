package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// results say of each test whether it passed; one that ran several times passed if it
// always did. What was skipped is not in it.
type results map[string]bool

func (r results) add(name string, passed bool) {
	before, known := r[name]
	r[name] = passed && (before || !known)
}

// readLines adds lines of the form "PASS name" and "FAIL name".
func (r results) readLines(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		verdict, name, ok := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch {
		case verdict == "" && !ok:
		case ok && (verdict == "PASS" || verdict == "FAIL"):
			r.add(name, verdict == "PASS")
		default:
			return fmt.Errorf("%q is neither PASS nor FAIL and a name", lines.Text())
		}
	}
	return lines.Err()
}

// report is what we read of a report of ginkgo (types.Report).
type report struct {
	SuiteDescription string
	SuiteSucceeded   bool
	SpecReports      []struct {
		ContainerHierarchyTexts []string
		LeafNodeText            string
		LeafNodeType            string
		State                   string
	}
}

// readGinkgo adds the specs of a report. Set-up that fails is a failed test, too: it
// keeps others from running.
func (r results) readGinkgo(from io.Reader) error {
	var reports []report
	if err := json.NewDecoder(from).Decode(&reports); err != nil {
		return fmt.Errorf("reading a report of ginkgo: %w", err)
	}
	for _, suite := range reports {
		for _, s := range suite.SpecReports {
			name := strings.Join(append(append([]string{suite.SuiteDescription}, s.ContainerHierarchyTexts...), s.LeafNodeText), " / ")
			passed := s.State == "passed"
			switch {
			case s.State == "skipped" || s.State == "pending":
			case s.LeafNodeType == "It":
				r.add(name, passed)
			case !passed:
				r.add(suite.SuiteDescription+" / ["+s.LeafNodeType+"]", false)
			}
		}
	}
	return nil
}
