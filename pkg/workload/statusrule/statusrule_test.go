package statusrule

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARuleDecidesFieldsOfTheStatusOverAllTargets(t *testing.T) {
	rule, err := Compile(`{"phase": copies.all(c, c.status.phase == "Well") ? "Well" : "Ill",
		"ready": self.spec.size * int(size(copies)), "where": copies.map(c, c.physicalCluster), "was": status.phase}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rule.Evaluate(map[string]any{"spec": map[string]any{"size": int64(3)}}, map[string]any{"phase": "Old"}, []Copy{
		{"east", map[string]any{"phase": "Well"}}, {"west", map[string]any{"phase": "Sick"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"phase": "Ill", "ready": int64(6), "where": []any{"east", "west"}, "was": "Old"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARuleThatCannotBeIsRefusedWithItsReason(t *testing.T) {
	for text, reason := range map[string]string{
		`{"a": `:                       "Syntax error",
		`secrets`:                      "undeclared reference",
		`"text"`:                       "must be a map",
		strings.Repeat(" ", 5000):      "characters",
		`[1, 2].map(x, {"a": x})`:      "must be a map",
		`{"a": duration("1s").none()}`: "undeclared reference",
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.30q: got %v, want %q", text, err, reason)
		}
	}
}

func TestAnEvaluationIsBounded(t *testing.T) {
	for text, reason := range map[string]string{
		`{"n": copies.map(a, copies.map(b, copies.map(c, copies.map(d, 1))))}`: "cost limit",
		`{"t": timestamp("2026-01-01T00:00:00Z")}`:                             "a status has no",
		`{"x": self.spec.missing}`:                                             "no such key",
		`{1: "one"}`:                                                           "names of fields",
	} {
		rule, err := Compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		many := make([]Copy, 100)
		if _, err := rule.Evaluate(map[string]any{"spec": map[string]any{}}, map[string]any{}, many); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want %q", text, err, reason)
		}
	}
}
