package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// The cells of the table in doc.go.
func TestOnlyWhatStockPassesIsJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stock, ours results
		differs     map[string]string
		want        string
		errors      string
	}{
		"as stock":                     {results{"a": true}, results{"a": true}, nil, "1 of 1 that stock passes, 0 differ by design", ""},
		"fails here":                   {results{"a": true, "b": true}, results{"a": true, "b": false}, nil, "1 of 2 that stock passes, 0 differ by design", "b fails, and passes on a stock cluster"},
		"did not run here":             {results{"a": true}, nil, nil, "0 of 1 that stock passes, 0 differ by design", "a did not run"},
		"differs by design":            {results{"a": true}, results{"a": false}, map[string]string{"a": "why"}, "0 of 1 that stock passes, 1 differ by design", ""},
		"passes again":                 {results{"a": true}, results{"a": true}, map[string]string{"a": "why"}, "1 of 1 that stock passes, 0 differ by design", "a passes: take it off the list"},
		"passes sometimes":             {results{"a": true}, results{"a": true}, map[string]string{"a": "sometimes: why"}, "1 of 1 that stock passes, 0 differ by design", ""},
		"passes sometimes, not now":    {results{"a": true}, results{"a": false}, map[string]string{"a": "sometimes: why"}, "0 of 1 that stock passes, 1 differ by design", ""},
		"named by a star":              {results{"a 1": true, "a 2": true, "b": true}, results{"a 1": true, "a 2": false, "b": true}, map[string]string{"a *": "why"}, "2 of 3 that stock passes, 1 differ by design", ""},
		"a star that names nothing":    {results{"b": true}, results{"b": true}, map[string]string{"a *": "why"}, "1 of 1 that stock passes, 0 differ by design", "a * does not pass on a stock cluster"},
		"fails on both":                {results{"a": false}, results{"a": false}, nil, "0 of 0 that stock passes, 0 differ by design", ""},
		"listed, and fails on both":    {results{"a": false}, results{"a": false}, map[string]string{"a": "why"}, "0 of 0 that stock passes, 0 differ by design", "a does not pass on a stock cluster"},
		"listed, and is there nowhere": {results{}, results{}, map[string]string{"a": "why"}, "0 of 0 that stock passes, 0 differ by design", "a does not pass on a stock cluster"},
		"passes here only":             {results{"a": false}, results{"a": true}, nil, "0 of 0 that stock passes, 0 differ by design", ""},
	} {
		v := judge(c.stock, c.ours, c.differs)
		errors := strings.Join(v.errors, "; ")
		if v.String() != c.want || (c.errors == "") != (errors == "") || !strings.Contains(errors, c.errors) {
			t.Errorf("%s: %q, want %q; errors %q, want %q", name, v, c.want, errors, c.errors)
		}
	}
}

func TestResultsAreReadFromLinesAndFromGinkgo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.txt": "PASS run_pod_tests\nFAIL run_node_tests\n\nPASS twice\nFAIL twice\n",
		"b.json": `[{"SuiteDescription": "Client Suite", "SpecReports": [
			{"LeafNodeType": "BeforeSuite", "State": "passed"},
			{"ContainerHierarchyTexts": ["Client", "Get"], "LeafNodeType": "It", "LeafNodeText": "reads", "State": "passed"},
			{"ContainerHierarchyTexts": ["Client"], "LeafNodeType": "It", "LeafNodeText": "writes", "State": "timedout"},
			{"ContainerHierarchyTexts": ["Client"], "LeafNodeType": "It", "LeafNodeText": "later", "State": "pending"},
			{"LeafNodeType": "AfterSuite", "State": "failed"}]}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := results{
		"run_pod_tests": true, "run_node_tests": false, "twice": false,
		"Client Suite / Client / Get / reads": true, "Client Suite / Client / writes": false, "Client Suite / [AfterSuite]": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"passed run_pod_tests", "PASS"} {
		if err := (results{}).readLines(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is understood", bad)
		}
	}
	if err := (results{}).readGinkgo(strings.NewReader(`[{"Suite`)); err == nil {
		t.Error("half a report is understood")
	}
}

func TestASuiteThatDidNotRunIsNotPassed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := filepath.Join(dir, "differs.list")
	if err := os.WriteFile(list, []byte("kubectl: run_nodes_tests -- Nodes are read only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := run(list, false, "kubectl", dir, dir, os.Stderr); ok || err == nil {
		t.Errorf("it passes: %v", err)
	}
}

func TestEveryDifferenceOfTheListHasAReason(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join(process.Root(), "test", "suites", "differs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := readDiffers(f, "kubectl"); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"kubectl: run_nodes_tests", "run_nodes_tests -- why", "kubectl: run_nodes_tests -- "} {
		if _, err := readDiffers(strings.NewReader(line), "kubectl"); err == nil {
			t.Errorf("%q is understood", line)
		}
	}
	got, err := readDiffers(strings.NewReader("# comment\nkubectl: a -- why\nother: b -- why not\n"), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "why"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
