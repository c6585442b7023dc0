package syncer

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// someTime is when summaries are made that are compared.
var someTime = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Each transcript has a logical object, its Copies and the status that follows;
// without one the status stays.
func TestWhatTheStatusIs(t *testing.T) {
	transcripts(t, "summarize", func(t *testing.T, files map[string]string) {
		logical := parse(t, files["logical"])
		before := logical.DeepCopy()
		got, changed := Summarize(kindOf(t, logical), logical, copiesOf(t, files["copies"]), someTime)
		if diff := cmp.Diff(before.Object, logical.Object); diff != "" {
			t.Fatalf("the object was changed\n%s", diff)
		}
		want, ok := files["status"]
		if !ok {
			if changed {
				t.Errorf("changed to\n%s", asYAML(t, got))
			}
			return
		}
		if diff := cmp.Diff(parseMap(t, want), got); diff != "" || !changed {
			t.Errorf("changed: %v (-want +got)\n%s\nwhole:\n%s", changed, diff, asYAML(t, got))
		}
		logical.Object["status"] = got
		if again, changed := Summarize(kindOf(t, logical), logical, copiesOf(t, files["copies"]), someTime); changed {
			t.Errorf("a second look changes it (-first +second)\n%s", cmp.Diff(got, again))
		}
	})
}

// copiesOf reads Copies in short: physicalCluster, uid, state, generation, status.
func copiesOf(t *testing.T, text string) []*placementv1alpha1.Copy {
	t.Helper()
	var short []struct {
		PhysicalCluster string         `json:"physicalCluster"`
		UID             types.UID      `json:"uid"`
		State           string         `json:"state"`
		Generation      int64          `json:"generation"`
		Status          map[string]any `json:"status"`
	}
	if err := yaml.Unmarshal([]byte(text), &short); err != nil {
		t.Fatal(err)
	}
	var copies []*placementv1alpha1.Copy
	for _, s := range short {
		c := &placementv1alpha1.Copy{
			Spec:   placementv1alpha1.CopySpec{PhysicalCluster: s.PhysicalCluster, Object: placementv1alpha1.ObjectReference{UID: s.UID}},
			Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyState(s.State), ObservedGeneration: s.Generation},
		}
		if s.State == "" {
			c.Status.State = placementv1alpha1.CopySynced
		}
		if s.UID == "" {
			c.Spec.Object.UID = "u"
		}
		if s.Status != nil {
			raw, err := json.Marshal(s.Status)
			if err != nil {
				t.Fatal(err)
			}
			c.Status.Observed = &runtime.RawExtension{Raw: raw}
		}
		copies = append(copies, c)
	}
	return copies
}

func TestAJobThatEndedStaysEnded(t *testing.T) {
	current := parseMap(t, `
succeeded: 1
startTime: "2026-01-01T00:00:00Z"
completionTime: "2026-01-01T00:01:00Z"
conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]`)
	got := keepJobValid(parseMap(t, `{active: 1, startTime: "2026-01-02T00:00:00Z"}`), current)
	if diff := cmp.Diff(current, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAJobThatWasMadeAgainKeepsWhatTheServerInsistsOn(t *testing.T) {
	current := parseMap(t, `{active: 1, failed: 2, succeeded: 1, startTime: "2026-01-01T00:00:00Z"}`)
	got := keepJobValid(parseMap(t, `{active: 1, ready: 2, startTime: "2026-01-02T00:00:00Z"}`), current)
	want := parseMap(t, `{active: 1, ready: 1, failed: 2, succeeded: 1, startTime: "2026-01-01T00:00:00Z"}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAnEndFromAnOlderKubernetesGetsTheConditionThatComesBefore(t *testing.T) {
	got := keepJobValid(parseMap(t, `
active: 1
failed: 1
startTime: "2026-01-01T00:00:00Z"
conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded}]`), nil)
	want := parseMap(t, `
active: 0
failed: 1
succeeded: 0
ready: 0
startTime: "2026-01-01T00:00:00Z"
conditions:
- {type: Failed, status: "True", reason: BackoffLimitExceeded}
- {type: FailureTarget, status: "True", reason: BackoffLimitExceeded}`)
	if diff := cmp.Diff(withoutZeros(want), withoutZeros(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWhenAFinishedJobExpires(t *testing.T) {
	job := func(text string) *unstructured.Unstructured {
		return parse(t, "apiVersion: batch/v1\nkind: Job\n"+text)
	}
	const placed = "metadata: {name: j, annotations: {placement.atoll.dev/targets: '{\"east\":{}}'}}\n"
	const ended = "status: {conditions: [{type: Complete, status: \"True\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}\n"
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"ended":             {placed + "spec: {ttlSecondsAfterFinished: 90}\n" + ended, "2026-01-01T00:01:30Z"},
		"at once":           {placed + "spec: {ttlSecondsAfterFinished: 0}\n" + ended, "2026-01-01T00:00:00Z"},
		"running":           {placed + "spec: {ttlSecondsAfterFinished: 90}\n", ""},
		"to be kept":        {placed + "spec: {}\n" + ended, ""},
		"mirrored":          {"metadata: {name: j, annotations: {placement.atoll.dev/targets: '{\"east\":{\"state\":\"Observed\"}}'}}\nspec: {ttlSecondsAfterFinished: 90}\n" + ended, ""},
		"of nobody, so far": {"metadata: {name: j}\nspec: {ttlSecondsAfterFinished: 90}\n" + ended, ""},
	} {
		at, ok := ExpiresAt(kindNamed(t, schema.GroupKind{Group: "batch", Kind: "Job"}), job(c.text))
		if got := at.UTC().Format("2006-01-02T15:04:05Z"); ok != (c.want != "") || (ok && got != c.want) {
			t.Errorf("%s: %v %v", name, ok, got)
		}
	}
}
