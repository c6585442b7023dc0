package syncer

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// filledHere: data are copied into the claim from west.
	filledHere = `{"volume":{"from":"west","copied":true}}`
	sumOfData  = `{"digest":"0123456789012345678901234567890123456789012345678901234567890123","entries":3,"bytes":5}`
)

func declaredCopy() *fleetv1alpha1.VolumeCopy {
	return &fleetv1alpha1.VolumeCopy{Image: "atoll-copy:1", MaxBytes: resource.MustParse("1Gi")}
}

// says has the helper be in a phase, with what it said when it ended.
func (w *place) says(phase corev1.PodPhase, message string) {
	w.helper.Status.Phase = phase
	w.helper.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.helper.Status.ContainerStatuses = nil
	if phase == corev1.PodSucceeded {
		w.helper.Status.Conditions = nil
		w.helper.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "copy", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}}}
	}
}

func TestAClaimIsFilledByAPodThatGoesWhenItHasSaidWhatItWrote(t *testing.T) {
	w := &place{t: t, entry: filledHere, other: `{"state":"Draining"}`, copies: declaredCopy()}
	w.run()
	want := []string{"WriteCopy Pending", "Apply", "WriteCopy Synced", "MakeHelper", "WriteCopy Synced"}
	if diff := cmp.Diff(want, w.did); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	w.says(corev1.PodRunning, "")
	w.run()
	if h := w.copy.Status.Volume.Helper; h == nil || !h.Ready || h.UID != "helper" || w.copy.Status.Volume.Filled != nil {
		t.Errorf("while it is filled: %+v", w.copy.Status.Volume)
	}
	lying := *w
	lying.helper, lying.copy = w.helper.DeepCopy(), w.copy.DeepCopy()
	lying.says(corev1.PodSucceeded, `{"digest":"yes"}`)
	lying.did = nil
	lying.run()
	if v := lying.copy.Status.Volume; v.Filled != nil || lying.helper == nil || lying.helper.Status.Phase != "" {
		t.Errorf("it says nothing that can be: %+v, and there is %+v: %v", v, lying.helper, lying.did)
	}
	failed := *w
	failed.helper, failed.copy = w.helper.DeepCopy(), w.copy.DeepCopy()
	failed.helper.Status.Phase, failed.helper.UID, failed.did = corev1.PodFailed, "evicted", nil
	failed.run()
	if failed.helper == nil || failed.helper.UID != "helper" {
		t.Errorf("after it was evicted there is %+v: %v", failed.helper, failed.did)
	}
	w.says(corev1.PodSucceeded, sumOfData)
	w.run()
	v := w.copy.Status.Volume
	filled := &placementv1alpha1.VolumeFilled{From: "west", Digest: strings.Repeat("0123456789", 6) + "0123", Entries: 3, Bytes: 5}
	if diff := cmp.Diff(filled, v.Filled); diff != "" || v.Helper != nil || w.helper != nil {
		t.Errorf("filled: helper %+v, it says %+v (-want +got):\n%s", w.helper, v, diff)
	}
	steady := len(w.did)
	if w.run(); len(w.did) != steady || w.helper != nil {
		t.Errorf("it does not rest: %v", w.did[steady:])
	}
	// Somebody deletes it: another one would be empty.
	gone := *w
	gone.claim, gone.copy = nil, w.copy.DeepCopy()
	gone.run()
	if gone.claim != nil || gone.copy.Status.Reason != "ClaimGone" {
		t.Errorf("the claim that was deleted is %v, and the copy says %+v", gone.claim, gone.copy.Status)
	}
	// It counts from now on.
	w.entry, w.other = "{}", `{"state":"Removing"}`
	w.run()
	if v := w.copy.Status.Volume; v == nil || v.Filled != nil || v.Retained || v.Content == nil || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("in the end: %+v with the reclaim policy %s", v, w.pv.Spec.PersistentVolumeReclaimPolicy)
	}
}

// Somebody deletes the claim between the end of the pod and the moment in which that is seen: the claim that is
// made in its place is empty.
func TestWhatAPodWroteSaysNothingOfAnotherClaimOfTheSameName(t *testing.T) {
	w := &place{t: t, entry: filledHere, other: `{"state":"Draining"}`, copies: declaredCopy()}
	w.run()
	w.says(corev1.PodSucceeded, sumOfData)
	w.claim, w.pv = nil, nil
	w.run()
	if v := w.copy.Status.Volume; w.claims != 2 || v.Filled != nil || w.helper == nil || !metav1.IsControlledBy(w.helper, w.claim) || w.helper.Status.Phase != "" {
		t.Errorf("claim %d is filled by %+v, and it says %+v: %v", w.claims, w.helper, v, w.did)
	}
	// The control: of its own claim the same counts.
	w.says(corev1.PodSucceeded, sumOfData)
	if w.run(); w.copy.Status.Volume.Filled == nil {
		t.Errorf("VOID: it says %+v", w.copy.Status.Volume)
	}
	// Somebody replaces the claim with another one that looks the same, marks and all.
	w.claim.SetUID("replaced")
	w.pv.Spec.ClaimRef.UID = "replaced"
	if w.run(); w.copy.Status.Volume.Filled != nil || w.helper == nil || !metav1.IsControlledBy(w.helper, w.claim) {
		t.Errorf("replaced: filled by %+v, it says %+v", w.helper, w.copy.Status.Volume)
	}
}

// A node that is shut down ends its pods in the way that they choose.
func TestAPodThatReadsAndEndedIsMadeAgain(t *testing.T) {
	w := sending(t, "")
	w.says(corev1.PodSucceeded, "")
	w.run()
	if w.helper == nil || w.helper.Status.Phase != "" {
		t.Errorf("there is %+v: %v", w.helper, w.did)
	}
}

// Who uses a volume that is read costs a list of all attachments: it is not asked each second, for hours.
func TestAPodThatReadsIsLookedAtLessOftenOnceItIsReady(t *testing.T) {
	w := sending(t, "")
	for phase, want := range map[corev1.PodPhase]time.Duration{corev1.PodPending: volumeInterval, corev1.PodRunning: sendingInterval} {
		w.says(phase, "")
		w.run()
		in := w.input()
		in.Volume = Volume{Looked: true, Object: w.pv, Helper: w.helper}
		if actions := Plan(in); len(actions) != 1 || actions[0].Verb != Wait || actions[0].After != want {
			t.Errorf("%s: %+v, want %s", phase, actions, want)
		}
	}
}

func TestWhoMountsAClaimAndCallsItselfAHelperUsesIt(t *testing.T) {
	pod := func(labels map[string]string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"volumes": []any{map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "data"}}}}}}
		u.SetLabels(labels)
		return u
	}
	for _, c := range []struct {
		labels map[string]string
		want   bool
	}{
		{nil, true},
		{map[string]string{HelperLabel: "uid"}, false},
		{map[string]string{HelperLabel: "uid", placementv1alpha1.ManagedByLabel: controlPlane}, true},
	} {
		if got := UsesClaim(pod(c.labels), "data"); got != c.want {
			t.Errorf("labels %v: uses it %v", c.labels, got)
		}
	}
}

// The pod that reads a volume has it attached to its node: it would end itself.
func TestAVolumeThatIsAttachedForThePodThatReadsItIsNotUsed(t *testing.T) {
	w := sending(t, "")
	w.helper.Spec.NodeName = "a"
	in := w.input()
	in.Volume = Volume{Looked: true, Object: w.pv, Helper: w.helper}
	attached := func(volume, node string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeName": node, "source": map[string]any{"persistentVolumeName": volume}}}}
	}
	uses := func(volume, node string) bool { _, ok := AttachedTo(attached(volume, node), in); return ok }
	if uses(w.pv.Name, "a") || !uses(w.pv.Name, "b") || uses("other", "b") {
		t.Errorf("attached to its node %v, to another one %v, another one %v", uses(w.pv.Name, "a"), uses(w.pv.Name, "b"), uses("other", "b"))
	}
	w.helper.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
	if !uses(w.pv.Name, "a") {
		t.Error("what is attached for a pod that ends is not used")
	}
	w.helper.DeletionTimestamp = nil
	w.helper.Labels = nil
	if !uses(w.pv.Name, "a") {
		t.Error("what is attached for somebody else's pod is not used")
	}
}

// An attempt that is abandoned leaves nothing: what it is a copy of counts.
func TestHalfACopyGoesWithItsVolume(t *testing.T) {
	w := &place{t: t, entry: filledHere, other: `{"state":"Draining"}`, copies: declaredCopy()}
	w.run()
	w.did = nil
	w.entry, w.other = `{"state":"Removing","volume":{"from":"west","copied":true}}`, "{}"
	w.run()
	want := []string{"DeleteHelper", "WriteCopy Removing", "Delete", "WriteCopy Removed"}
	if diff := cmp.Diff(want, w.did); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("its volume is kept: %+v", w.pv)
	}
}

// sending is a place whose claim is read.
func sending(t *testing.T, former fleetv1alpha1.FormerVolume) *place {
	t.Helper()
	w := &place{t: t, entry: "{}", copies: declaredCopy()}
	w.copies.FormerVolume = former
	w.run()
	w.entry, w.other = `{"state":"Draining"}`, `{"state":"Waiting"}`
	w.run()
	if v := w.copy.Status.Volume; !v.Released || !v.Retained || v.Content == nil || w.helper != nil {
		t.Fatalf("given up: %+v, helper %+v", v, w.helper)
	}
	w.other = `{"volume":{"from":"east","copied":true}}`
	w.run()
	if w.helper == nil || !w.helper.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly || !w.copy.Status.Volume.Released {
		t.Fatalf("read by %+v, it says %+v", w.helper, w.copy.Status.Volume)
	}
	w.did = nil
	return w
}

func TestAClaimThatIsReadIsAsBeforeWhenItsMoveIsAbandoned(t *testing.T) {
	w := sending(t, "")
	w.entry, w.other = "{}", `{"state":"Removing","volume":{"from":"east","copied":true}}`
	w.run()
	if w.helper != nil || w.claim == nil || w.copy.Status.Volume.Released {
		t.Errorf("helper %+v, claim %v, it says %+v", w.helper, w.claim, w.copy.Status.Volume)
	}
	w.other = ""
	w.run()
	if p := w.pv.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimDelete || w.copy.Status.Volume.Retained {
		t.Errorf("the reclaim policy is %s, it says %+v", p, w.copy.Status.Volume)
	}
}

func TestWhatBecomesOfTheFormerVolumeSaysAnAdmin(t *testing.T) {
	for former, want := range map[fleetv1alpha1.FormerVolume]corev1.PersistentVolumeReclaimPolicy{
		"": corev1.PersistentVolumeReclaimRetain, fleetv1alpha1.FormerVolumeRetain: corev1.PersistentVolumeReclaimRetain,
		fleetv1alpha1.FormerVolumeReclaim: corev1.PersistentVolumeReclaimDelete,
	} {
		w := sending(t, former)
		w.entry, w.other = `{"state":"Removing"}`, "{}"
		w.run()
		if w.claim != nil || w.helper != nil || w.pv == nil || w.pv.Spec.PersistentVolumeReclaimPolicy != want || w.copy.Status.State != placementv1alpha1.CopyRemoved {
			t.Errorf("%q: claim %v, helper %v, volume %+v: %v", former, w.claim, w.helper, w.pv, w.did)
		}
	}
}

func TestAPodOfSomebodyElseIsNoHelper(t *testing.T) {
	w := &place{t: t, entry: filledHere, other: `{"state":"Draining"}`, copies: declaredCopy()}
	w.run()
	delete(w.helper.Labels, HelperLabel)
	w.says(corev1.PodSucceeded, sumOfData)
	w.run()
	if w.copy.Status.Reason != "HelperNotOurs" || w.copy.Status.Volume.Filled != nil || w.helper == nil {
		t.Errorf("the copy says %+v", w.copy.Status)
	}
}

func TestHelpersNeedNoMoreThanTheLevelBaselinePermits(t *testing.T) {
	for _, role := range []Role{RoleSend, RoleFill} {
		w := &place{t: t, entry: filledHere, copies: declaredCopy()}
		w.run()
		in := w.input()
		pod := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}.makeHelper(role)
		evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range evaluator.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelBaseline, Version: podsecurity.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			if !r.Allowed {
				t.Errorf("%s: %s: %s", role, r.ForbiddenReason, r.ForbiddenDetail)
			}
		}
	}
}
