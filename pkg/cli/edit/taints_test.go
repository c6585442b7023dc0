package edit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func text(taints []corev1.Taint) string {
	var out []string
	for _, t := range taints {
		out = append(out, t.ToString())
	}
	return strings.Join(out, " ")
}

func TestTaintsAreChangedAsKubectlTaintChangesThem(t *testing.T) {
	old := []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}, {Key: "a", Value: "2", Effect: "NoExecute"}, {Key: "b", Effect: "NoSchedule"}}
	for _, c := range []struct {
		args      string
		overwrite bool
		want      string
		verb      string
	}{
		{"c=3:NoSchedule", false, "a=1:NoSchedule a=2:NoExecute b:NoSchedule c=3:NoSchedule", "tainted"},
		{"c:PreferNoSchedule", false, "a=1:NoSchedule a=2:NoExecute b:NoSchedule c:PreferNoSchedule", "tainted"},
		{"a=1:NoSchedule", false, "a=1:NoSchedule a=2:NoExecute b:NoSchedule", "tainted"},
		{"a=9:NoSchedule", true, "a=9:NoSchedule a=2:NoExecute b:NoSchedule", "modified"},
		{"a-", false, "b:NoSchedule", "untainted"},
		{"a:NoExecute-", false, "a=1:NoSchedule b:NoSchedule", "untainted"},
		{"b- c:NoExecute", false, "a=1:NoSchedule a=2:NoExecute c:NoExecute", "modified"},
		{"a-  b-", false, "", "untainted"},
		{"a=2:NoExecute-", false, "a=1:NoSchedule b:NoSchedule", "untainted"},
	} {
		change, err := ParseTaints(strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		change.Overwrite = c.overwrite
		got, err := change.Apply(old)
		if err != nil || text(got) != c.want || change.Verb() != c.verb {
			t.Errorf("%s: %q %s %v, want %q %s", c.args, text(got), change.Verb(), err, c.want, c.verb)
		}
	}
	if text(old) != "a=1:NoSchedule a=2:NoExecute b:NoSchedule" {
		t.Errorf("what was there is changed: %s", text(old))
	}
}

func TestATaintThatCannotBeReadIsNamedWithTheWayOut(t *testing.T) {
	for args, want := range map[string]string{
		"a":                           "an effect is needed, as in a:NoSchedule",
		"a=b":                         "an effect is needed, as in a=b:NoSchedule",
		"a=b:Never":                   "it is one of NoSchedule",
		"a:":                          "it is one of NoSchedule",
		"=b:NoSchedule":               `key ""`,
		"a b=c:NoSchedule":            `taint "a"`,
		"a=b=c:NoSchedule":            `value "b=c"`,
		"a=b:NoExecute:NoSchedule":    `"NoExecute:NoSchedule" is no effect`,
		"a=1:NoExecute a=2:NoExecute": "there are two",
		"a=1:NoExecute a-":            "name it once",
	} {
		if _, err := ParseTaints(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestATaintThatIsThereOrIsNotThereIsAnError(t *testing.T) {
	old := []corev1.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}}
	for args, want := range map[string]string{
		"a=2:NoSchedule":  "--overwrite changes its value",
		"b-":              `taint "b" not found`,
		"a:NoExecute-":    `taint "a:NoExecute" not found`,
		"b- c:NoSchedule": `taint "b" not found`,
	} {
		change, err := ParseTaints(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := change.Apply(old); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%s: %v %v, want %q", args, got, err, want)
		}
	}
}

func TestNamesComeBeforeTaints(t *testing.T) {
	for args, want := range map[string][2]string{
		"east a=b:NoSchedule":      {"east", "a=b:NoSchedule"},
		"east west a:NoExecute b-": {"east west", "a:NoExecute b-"},
		"east a-":                  {"east", "a-"},
		"east":                     {"east", ""},
		"a-":                       {"", "a-"},
	} {
		names, taints := SplitTaints(strings.Fields(args))
		if diff := cmp.Diff(want, [2]string{strings.Join(names, " "), strings.Join(taints, " ")}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}
