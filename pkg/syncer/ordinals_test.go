package syncer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestTheNamesOfPodsSayTheirOrdinals(t *testing.T) {
	for _, c := range []struct {
		pods []string
		want placementv1alpha1.OrdinalRange
	}{
		{nil, placementv1alpha1.OrdinalRange{}},
		{[]string{"db-4", "db-2", "web-9"}, placementv1alpha1.OrdinalRange{Start: 2, End: 5}},
		{[]string{"db-0"}, placementv1alpha1.OrdinalRange{Start: 0, End: 1}},
		{[]string{"db-x", "db-01", "db--1", "db-1-2", "db-", "db", "db-2147483647", "db-99999999999"}, placementv1alpha1.OrdinalRange{}},
	} {
		if diff := cmp.Diff(c.want, OrdinalsOf("db", c.pods)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.pods, diff)
		}
	}
}

func TestARangeIsAppliedWithThePartitionCountedFromItsBegin(t *testing.T) {
	n := int32(3)
	for _, c := range []struct {
		name, spec string
		start      int32
		want       string
	}{
		{"nothing of it", `{replicas: 6}`, 2, `{replicas: 6, ordinals: {start: 2}}`},
		{"another first ordinal", `{ordinals: {start: 10}}`, 12, `{ordinals: {start: 12}}`},
		{"a partition after it", `{updateStrategy: {rollingUpdate: {partition: 8}}}`, 2, `{ordinals: {start: 2}, updateStrategy: {rollingUpdate: {partition: 3}}}`},
		{"a partition in it", `{updateStrategy: {rollingUpdate: {partition: 4}}}`, 2, `{ordinals: {start: 2}, updateStrategy: {rollingUpdate: {partition: 2}}}`},
		{"a partition before it", `{updateStrategy: {rollingUpdate: {partition: 1}}}`, 2, `{ordinals: {start: 2}, updateStrategy: {rollingUpdate: {partition: 0}}}`},
		{"a partition that counts from the first ordinal", `{ordinals: {start: 10}, updateStrategy: {rollingUpdate: {partition: 3}}}`, 12, `{ordinals: {start: 12}, updateStrategy: {rollingUpdate: {partition: 1}}}`},
	} {
		var spec map[string]any
		if err := yaml.Unmarshal([]byte(c.spec), &spec); err != nil {
			t.Fatal(err)
		}
		obj := map[string]any{"spec": deepCopy(spec)}
		partOfStatefulSet(obj, placementv1alpha1.Target{Replicas: &n, Ordinals: &placementv1alpha1.TargetOrdinals{Start: c.start, Revision: 1}})
		var want any
		if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asYAML(t, want), asYAML(t, obj["spec"])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	obj := map[string]any{"spec": map[string]any{}}
	partOfStatefulSet(obj, placementv1alpha1.Target{Ordinals: &placementv1alpha1.TargetOrdinals{Revision: 4}})
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{}}, obj); diff != "" {
		t.Errorf("all of it (-want +got):\n%s", diff)
	}
}

// rangingInput is the input for a StatefulSet with the range 2 to 4, as it was applied, and acted on.
func rangingInput(edit func(*Input)) Input {
	in := situation{kind: "StatefulSet", logical: "live", copy: "Synced", edit: func(in *Input) {
		in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"replicas":3,"ordinals":{"start":2,"revision":7}}}`})
	}}.input()
	in.Copy.Status.PhysicalUID = "p1"
	in.Physical = &unstructured.Unstructured{}
	desired, _ := Transform(in.Logical, planner{Input: in, physical: physicalNone}.placing())
	in.Physical = desired
	in.Physical.SetUID("p1")
	in.Physical.SetGeneration(5)
	setNested(in.Physical.Object, int64(5), "status", "observedGeneration")
	in.Settled = Fingerprint(in.Physical)
	in.Copy.Status.ObservedGeneration, in.Copy.Status.AppliedGeneration, in.Copy.Status.PhysicalGeneration = 3, 3, 5
	in.Copy.Status.Observed = rawStatus(in.Physical.Object)
	if edit != nil {
		edit(&in)
	}
	return in
}

func TestTheCopySaysWhichOrdinalsMayRunOnceTheRangeIsActedOn(t *testing.T) {
	ordinals := func(revision int64, start, end int32) placementv1alpha1.CopyOrdinals {
		return placementv1alpha1.CopyOrdinals{Revision: revision, Start: start, End: end}
	}
	pods := func(start, end int32) *placementv1alpha1.OrdinalRange {
		return &placementv1alpha1.OrdinalRange{Start: start, End: end}
	}
	for _, c := range []struct {
		name string
		edit func(*Input)
		verb Verb // the first; empty: nothing to do
		said placementv1alpha1.CopyOrdinals
	}{
		{"nobody looked yet", nil, LookAtPods, placementv1alpha1.CopyOrdinals{}},
		{"an older range is said", func(in *Input) { in.Copy.Status.Ordinals = ordinals(6, 2, 5) }, LookAtPods, placementv1alpha1.CopyOrdinals{}},
		{"its controller has not acted on it", func(in *Input) { setNested(in.Physical.Object, int64(4), "status", "observedGeneration") }, WriteCopy, placementv1alpha1.CopyOrdinals{}},
		{"no pods", func(in *Input) { in.Pods = pods(0, 0) }, WriteCopy, ordinals(7, 2, 5)},
		{"pods of before", func(in *Input) { in.Pods = pods(0, 3) }, WriteCopy, ordinals(7, 0, 5)},
		{"it says so, and they are to end", func(in *Input) { in.Pods, in.Copy.Status.Ordinals = pods(0, 3), ordinals(7, 0, 5) }, Wait, placementv1alpha1.CopyOrdinals{}},
		{"it says so, and is looked at again", func(in *Input) { in.Copy.Status.Ordinals = ordinals(7, 0, 5) }, LookAtPods, placementv1alpha1.CopyOrdinals{}},
		{"it says that nothing else runs", func(in *Input) { in.Copy.Status.Ordinals = ordinals(7, 2, 5) }, "", placementv1alpha1.CopyOrdinals{}},
		{"another range is below", func(in *Input) {
			in.Physical.SetAnnotations(map[string]string{OrdinalsAnnotation: "6", AppliedAnnotation: "x"})
			in.Settled = "x " + in.Settled
		}, Apply, placementv1alpha1.CopyOrdinals{}},
		{"a later range is below: the object is outdated", func(in *Input) {
			annotations := in.Physical.GetAnnotations()
			annotations[OrdinalsAnnotation] = "8"
			in.Physical.SetAnnotations(annotations)
		}, WriteCopy, ordinals(8, 2, 5)},
		{"a later range was below: the object is outdated", func(in *Input) { in.Copy.Status.Ordinals, in.Physical = ordinals(9, 2, 5), nil }, WriteCopy, ordinals(9, 2, 5)},
		{"an autoscaler may be below", func(in *Input) { in.ScaledBelow = true }, WriteCopy, placementv1alpha1.CopyOrdinals{}},
	} {
		actions := Plan(rangingInput(c.edit))
		if c.verb == "" && len(actions) == 0 {
			continue
		}
		if len(actions) == 0 || actions[0].Verb != c.verb {
			t.Errorf("%s: %v", c.name, describe(actions))
			continue
		}
		if c.verb == WriteCopy {
			if diff := cmp.Diff(c.said, actions[0].Copy.Status.Ordinals); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	}
}

func TestAnAutoscalerOfARangeIsNotApplied(t *testing.T) {
	in := situation{kind: "HorizontalPodAutoscaler", logical: "live", copy: "Pending"}.input()
	if actions := Plan(in); !hasVerb(actions, Apply) {
		t.Errorf("one of something else: %v", describe(actions))
	}
	in.ScalesRange = true
	actions := Plan(in)
	if len(actions) != 1 || actions[0].Verb != WriteCopy || actions[0].Copy.Status.Reason != ReasonScalesRange {
		t.Errorf("%v", describe(actions))
	}
}

func TestACopyWithARangeIsGoneWhenItsPodsAre(t *testing.T) {
	in := rangingInput(func(in *Input) { in.Logical, in.Gone = nil, append(in.Gone, "old") })
	for _, a := range Plan(in) {
		if a.Verb == Delete && a.Propagation != metav1.DeletePropagationForeground {
			t.Errorf("it is deleted with %s", a.Propagation)
		}
	}
	if !hasVerb(Plan(in), Delete) {
		t.Errorf("%v", describe(Plan(in)))
	}
}

// Also not by a request that was on its way.
func TestARangeThatWasGivenUpDoesNotComeBack(t *testing.T) {
	in := rangingInput(func(in *Input) {
		in.Physical.SetResourceVersion("7")
		in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"replicas":2,"ordinals":{"start":3,"revision":8}}}`})
	})
	if got := describe(Plan(in)); !strings.Contains(got, "Apply Changed to p1 at 7") {
		t.Error(got)
	}
}

func TestOnlyAKubernetesThatKeepsOrdinalsHasTheFeature(t *testing.T) {
	for version, want := range map[string]string{"v1.30.9": "Manifests", "v1.31.0": "Manifests Ordinals", "v1.37.1+k3s1": "Manifests Ordinals", "": "Manifests", "v2": "Manifests"} {
		if got := strings.Join(Features(version), " "); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}
