package syncer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var contestNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestWhatOthersChangeBelowIsNotRevertedForEver(t *testing.T) {
	controlled := func(known bool) func(*Input) {
		return func(in *Input) {
			in.Physical.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "boss", UID: "b", Controller: ptr.To(true)}})
			in.Owner = func(uid types.UID) (*unstructured.Unstructured, bool) {
				return &unstructured.Unstructured{}, known && uid == "b"
			}
		}
	}
	reverted := func(n int, ago time.Duration) func(*Input) {
		return func(in *Input) { in.Reverts = Reverts{Count: n, Last: contestNow.Add(-ago)} }
	}
	says := func(reason string) func(*Input) {
		return func(in *Input) {
			in.Copy.Status.Reason = reason
			if reason == ReasonControlledByOther {
				in.Copy.Status.Message = "Deployment boss of the physical cluster controls it and has changed it, " +
					"and is not the copy of anything here; it is left as it is until that lets go of it"
			}
		}
	}
	changed := func(in *Input) { in.Logical.SetLabels(map[string]string{"a": "b"}) }
	applied := func(in *Input) { in.Applied = true }
	for _, c := range []struct {
		cell     string
		copy     string
		physical string
		edits    []func(*Input)
		want     string
	}{
		{"a controller that is not known may become so: reverted once", "Synced", "old~", []func(*Input){controlled(false)}, "Apply Drifted to p1"},
		{"b it changed it again", "Synced", "old~", []func(*Input){controlled(false), reverted(1, time.Minute)}, "WriteCopy Failed/ControlledByOther"},
		{"b it stays so, also after a restart", "Failed", "old~", []func(*Input){controlled(false), says("ControlledByOther")}, ""},
		{"b no matter how long ago", "Failed", "old~", []func(*Input){controlled(false), says("ControlledByOther"), reverted(9, 100*time.Hour)}, ""},
		{"what changed above is applied nevertheless", "Failed", "old", []func(*Input){controlled(false), says("ControlledByOther"), changed}, "Apply Changed to p1"},
		{"e the controller left it as it was applied", "Failed", "old", []func(*Input){controlled(false), says("ControlledByOther")}, "WriteCopy Synced"},
		{"a the controller let go", "Failed", "old~", []func(*Input){says("ControlledByOther")}, "Apply Drifted to p1"},
		{"a the controller became known", "Failed", "old~", []func(*Input){controlled(true), says("ControlledByOther")}, "Apply Drifted to p1"},
		{"a the first changes by anybody else", "Synced", "old~", []func(*Input){reverted(freeReverts-1, 0)}, "Apply Drifted to p1"},
		{"c too many", "Synced", "old~", []func(*Input){reverted(freeReverts, 0)}, "WriteCopy Failed/ChangedByOther"},
		{"a it is time to try again", "Failed", "old~", []func(*Input){says("ChangedByOther"), reverted(freeReverts, time.Second)}, "Apply Drifted to p1"},
		{"d that is not believed yet", "Failed", "old", []func(*Input){says("ChangedByOther"), reverted(freeReverts+1, 0), applied}, ""},
		{"d nor a minute later", "Failed", "old", []func(*Input){says("ChangedByOther"), reverted(freeReverts+1, time.Minute)}, ""},
		{"e but after a while", "Failed", "old", []func(*Input){says("ChangedByOther"), reverted(freeReverts+1, revertMemory+1)}, "WriteCopy Synced"},
		{"a long ago does not count", "Synced", "old~", []func(*Input){reverted(freeReverts, revertMemory+1)}, "Apply Drifted to p1"},
	} {
		t.Run(c.cell, func(t *testing.T) {
			s := situation{logical: "live", copy: c.copy, physical: c.physical, edit: func(in *Input) {
				in.Now = contestNow
				in.Copy.Status.AppliedGeneration, in.Copy.Status.ObservedGeneration = 3, 3
				for _, edit := range c.edits {
					edit(in)
				}
			}}
			if got := describe(Plan(s.input())); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWhoChangesACopyIsNamed(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", Subresource: subresource, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	in := situation{kind: "Deployment", logical: "live", copy: "Synced", physical: "old", edit: func(in *Input) {
		in.Now, in.Reverts = contestNow, Reverts{Count: freeReverts, Last: contestNow}
		in.Logical.Object["spec"] = map[string]any{"replicas": int64(2), "template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "web", "image": "i"}},
		}}}
		in.Settled = Fingerprint(below(transformed(in.Logical, planner{Input: *in}.placing())))
		in.Physical.SetManagedFields([]metav1.ManagedFieldsEntry{
			entry("kubelet", "", `{"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}}}`),
			entry("status", "status", `{"f:spec":{"f:replicas":{}}}`),
			entry("gitops", "", `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}}}}}}}`),
			entry("autoscaler", "scale", `{"f:spec":{"f:replicas":{}}}`),
			entry("autoscaler", "", `{"f:spec":{"f:replicas":{}}}`),
		})
	}}.input()
	actions := Plan(in)
	if got, want := describe(actions), "WriteCopy Failed/ChangedByOther"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	want := "autoscaler, gitops changes it on the physical cluster again and again; it is put back less and less often"
	if diff := cmp.Diff(want, actions[0].Copy.Status.Message); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRevertsBecomeRareAndAreForgotten(t *testing.T) {
	now := contestNow
	var r Reverts
	var delays []string
	for range 20 {
		delays = append(delays, r.Delay(now).String())
		now = now.Add(r.Delay(now))
		if r.Delay(now) != 0 {
			t.Fatalf("after its delay, %s is left", r.Delay(now))
		}
		r = r.Again(now)
	}
	want := "0s 0s 0s 0s 0s 1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 8m32s 17m4s 34m8s 1h0m0s 1h0m0s 1h0m0s"
	if diff := cmp.Diff(want, strings.Join(delays, " ")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{time.Hour, 20}, {2 * time.Hour, 20}, {2*time.Hour + 1, 0}} {
		if got := r.At(now.Add(c.after)).Count; got != c.want {
			t.Errorf("after %s: %d", c.after, got)
		}
	}
	if got := fmt.Sprint(r.Again(now.Add(3 * time.Hour)).Count); got != "1" {
		t.Errorf("the count starts again with %s", got)
	}
}

func TestAnAnnotationThatOthersPutBackIsDriftAndNoChangeAbove(t *testing.T) {
	in := situation{logical: "live", copy: "Synced", physical: "old", edit: func(in *Input) {
		in.Settled = Fingerprint(in.Physical)
		annotations := in.Physical.GetAnnotations()
		annotations[AppliedAnnotation] = "of-last-week"
		in.Physical.SetAnnotations(annotations)
	}}.input()
	if got, want := describe(Plan(in)), "Apply Drifted to p1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
