package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/test/framework/process"
)

var today = time.Date(2026, 3, 10, 15, 0, 0, 0, time.UTC)

func TestALineOfTheListHasATestADateAnIssueAndAReason(t *testing.T) {
	t.Parallel()
	got, err := readList(strings.NewReader("# comment\n\nTestSlow 2026-03-10 #12 a watch is late\nTestOther 2026-05-09 https://example.com/9 port is taken\n"), today)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]entry{
		"TestSlow":  {test: "TestSlow", expires: time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC), issue: "#12", reason: "a watch is late"},
		"TestOther": {test: "TestOther", expires: time.Date(2026, 5, 9, 0, 0, 0, 0, time.UTC), issue: "https://example.com/9", reason: "port is taken"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheListRefusesWhatIsExpiredFarAheadOrIncomplete(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"TestSlow 2026-03-09 #12 a watch is late":                  "mend it (#12: a watch is late)",
		"TestSlow 2026-05-10 #12 a watch is late":                  "more than 60 days ahead",
		"TestSlow 2026-03-20 #12":                                  "is not of the form",
		"TestSlow 2026-03-20 soon a watch is late":                 "neither #<number> nor the URL",
		"TestSlow tomorrow #12 a watch is late":                    "reading the date of TestSlow",
		"Slow 2026-03-20 #12 a watch is late":                      "not the name of a test",
		"TestSlow 2026-03-20 #12 late\nTestSlow 2026-03-21 #1 odd": "line 2: TestSlow is listed twice",
	} {
		_, err := readList(strings.NewReader(line), today)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one that says %q", line, err, want)
		}
	}
}

func TestTheListOfThisRepositoryNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	list, err := load(filepath.Join(process.Root(), "test", "flaky.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(process.Root(), "test", "e2e", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no end-to-end tests", err)
	}
	var all strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	for name := range list {
		if !strings.Contains(all.String(), "func "+name+"(") {
			t.Errorf("there is no %s", name)
		}
	}
}
