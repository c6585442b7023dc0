package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func everything(string) bool { return true }

func TestEveryTierHasTestsAndNoTestIsListedTwice(t *testing.T) {
	tiers, err := loadTiers([]string{"api", "webhook-config", "placed"}, everything)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, tier := range tiers {
		if len(tier.tests) == 0 {
			t.Errorf("tier %s is empty", tier.name)
		}
		for _, test := range tier.tests {
			if other, ok := seen[test]; ok {
				t.Errorf("%q is in %s and %s", test, other, tier.name)
			}
			seen[test] = tier.name
		}
	}
	for test, reason := range knownFailures(knownFile) {
		if seen[test] == "" || reason == "" {
			t.Errorf("known.txt: %q is in no tier or has no reason", test)
		}
	}
}

// What .ci/run judges: names that a new version of the suite does not have any more
// would silently be left out.
func TestTheSampleIsOfAllTiersAndAllOfItIsInOne(t *testing.T) {
	listed, err := readList("sample.txt")
	if err != nil {
		t.Fatal(err)
	}
	tiers, err := loadTiers([]string{"api", "webhook-config", "placed"}, func(test string) bool { return listed[test] })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, tier := range tiers {
		if len(tier.tests) == 0 {
			t.Errorf("the sample has no test of tier %s", tier.name)
		}
		n += len(tier.tests)
	}
	if n != len(listed) || n == 0 {
		t.Errorf("%d of %d tests of the sample are in a tier", n, len(listed))
	}
	if _, err := readList("nowhere.txt"); err == nil {
		t.Error("a list that is not there is read")
	}
	if none, err := readList(""); none != nil || err != nil {
		t.Errorf("no list: %v, %v", none, err)
	}
}

func TestAFocusPicksExactlyItsTests(t *testing.T) {
	picks := regexp.MustCompile(focus([]string{"[sig-a] b (c) works. [Conformance]", "[sig-a] d"}))
	for name, want := range map[string]bool{
		"suite [sig-a] b (c) works. [Conformance]":        true,
		"suite [sig-a] b (c) works. [Conformance] [Slow]": false,
		"suite [sig-a] d":   true,
		"suite [sig-a] d e": false,
	} {
		if got := picks.MatchString(name); got != want {
			t.Errorf("%q is picked: %v", name, got)
		}
	}
}

func TestShardsHaveLikeLengthAndSerialTestsRunAlone(t *testing.T) {
	tests := []string{"a", "b [Slow]", "c [Serial]"}
	for range slow {
		tests = append(tests, "quick")
	}
	parallel, serial := shards(tests, 2)
	if !reflect.DeepEqual(serial, []string{"c [Serial]"}) {
		t.Errorf("serial: %q", serial)
	}
	if len(parallel) != 2 || len(parallel[0]) != 2 || len(parallel[1]) != slow {
		t.Errorf("parallel: %q", parallel)
	}
	if parallel, _ := shards([]string{"a"}, 3); len(parallel) != 1 {
		t.Errorf("one test in %d shards", len(parallel))
	}
}

const report = `<testsuites><testsuite>
<testcase name="[It] good" time="1.5"></testcase>
<testcase name="[It] bad" time="2"><failure message="no pods">stack</failure></testcase>
<testcase name="[It] other" time="0"><skipped message="filtered"/></testcase>
<testcase name="[SynchronizedBeforeSuite]" time="0"></testcase>
</testsuite></testsuites>`

func TestATestHasPassedOnlyIfAReportSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "junit_01.xml"), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := readReports(dir)
	if err != nil {
		t.Fatal(err)
	}
	tiers := []tier{{"x", []string{"good", "bad"}}, {"y", []string{"other"}}}
	results := collect(tiers, found, map[string]string{"other": "it needs a moon"})
	want := []result{
		{Test: "good", Tier: "x", Outcome: passed, Seconds: 1.5},
		{Test: "bad", Tier: "x", Outcome: failed, Seconds: 2, Message: "no pods"},
		{Test: "other", Tier: "y", Outcome: notRun, Known: "it needs a moon"},
	}
	if !reflect.DeepEqual(results, want) {
		t.Errorf("got %+v", results)
	}
	var out bytes.Buffer
	if surprises := say(&out, tiers, results); surprises != 1 {
		t.Errorf("%d surprises", surprises)
	}
	for _, line := range []string{"failed: bad: no pods", "not run as known: other: it needs a moon", "conformance 1/3 33.3%"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in:\n%s", line, out.String())
		}
	}
	if err := writeReports(dir, tiers, results); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"conformance.json", "conformance.xml"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(data, []byte("no pods")) {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
}

func TestATestThatPassesThoughItCannotIsASurprise(t *testing.T) {
	var out bytes.Buffer
	results := []result{{Test: "a", Tier: "x", Outcome: passed, Known: "no"}}
	if surprises := say(&out, []tier{{"x", []string{"a"}}}, results); surprises != 1 {
		t.Errorf("%d surprises: %s", surprises, out.String())
	}
}
