package syncer

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// found is an orphan in a few words.
type found struct {
	kind  string // default ConfigMap
	order fleetv1alpha1.OrphanOrder
	// physical: "" gone, there, unmarked, or of another control plane; with "-" being deleted.
	physical string
	// answer of the server: "" none, exists, gone, other; with "?" about the order before.
	answer string
	edit   func(*OrphanInput)
}

func (f found) input() OrphanInput {
	if f.kind == "" {
		f.kind = "ConfigMap"
	}
	word, deleting := strings.CutSuffix(f.physical, "-")
	s := situation{kind: f.kind, physical: "old"}
	in := OrphanInput{Target: target, ControlPlane: controlPlane, Kind: kinds[f.kind], Namespace: "shop-web-1"}
	physical := s.input().Physical
	in.Orphan, _ = NewOrphan(target, controlPlane, in.Kind, physical)
	in.Orphan.Generation, in.Orphan.Spec.Order = 2, f.order
	if deleting {
		physical.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		physical.SetFinalizers([]string{"example.com/hold"})
	}
	switch word {
	case "there":
		in.Physical = physical
	case "unmarked":
		physical.SetAnnotations(nil)
		in.Physical = physical
	case "another":
		physical.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: "another"})
		in.Physical = physical
	}
	answer, before := strings.CutSuffix(f.answer, "?")
	if answer != "" {
		c := metav1.Condition{Type: fleetv1alpha1.ConditionObjectExists, ObservedGeneration: 2, Message: "so it says"}
		if before {
			c.ObservedGeneration = 1
		}
		c.Status = map[string]metav1.ConditionStatus{"exists": metav1.ConditionTrue, "unknown": metav1.ConditionUnknown}[answer]
		if c.Status == "" {
			c.Status = metav1.ConditionFalse
		}
		c.Reason = map[string]string{"exists": fleetv1alpha1.ReasonExists, "gone": fleetv1alpha1.ReasonNotFound, "other": fleetv1alpha1.ReasonOtherUID}[answer]
		in.Orphan.Status.Conditions = []metav1.Condition{c}
	}
	if f.edit != nil {
		f.edit(&in)
	}
	return in
}

func TestThePlanForEachOrphan(t *testing.T) {
	logical := func(word string) func(*OrphanInput) {
		return func(in *OrphanInput) {
			in.Logical = situation{logical: word}.logicalObject(ClaimOf(in.Kind, in.Orphan))
		}
	}
	recorded := func(uid types.UID, state placementv1alpha1.CopyState) func(*OrphanInput) {
		return func(in *OrphanInput) {
			in.Copy = &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: state, PhysicalUID: uid, Reason: "Invalid"}}
		}
	}
	both := func(edits ...func(*OrphanInput)) func(*OrphanInput) {
		return func(in *OrphanInput) {
			for _, edit := range edits {
				edit(in)
			}
		}
	}
	const leave, remove, adopt, discard = fleetv1alpha1.OrphanLeave, fleetv1alpha1.OrphanRemove, fleetv1alpha1.OrphanAdopt, fleetv1alpha1.OrphanDiscard
	bound := func(policy corev1.PersistentVolumeReclaimPolicy) func(*OrphanInput) {
		return func(in *OrphanInput) {
			in.Volume = Volume{Looked: true, Object: diskVolume("disk", policy)}
		}
	}
	takesClaims := func(in *OrphanInput) {
		in.Physical.Object["spec"] = map[string]any{
			"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Delete"}, "volumeClaimTemplates": []any{map[string]any{}},
		}
	}
	for _, c := range []struct {
		cell string
		f    found
		want string
	}{
		{"1 gone", found{order: remove, answer: "gone"}, "DropOrphan"},
		{"1 somebody took the mark off", found{order: remove, physical: "unmarked", answer: "gone"}, "DropOrphan"},
		{"1 of another control plane", found{order: remove, physical: "another", answer: "gone"}, "DropOrphan"},
		{"2 a copy again", found{order: remove, physical: "there", answer: "gone", edit: recorded("p1", "Synced")}, "DropOrphan"},
		{"2 mirrored", found{physical: "there", edit: func(in *OrphanInput) { in.Mirrored = true }}, "DropOrphan"},
		{"2 but the Copy has another one", found{physical: "there", edit: recorded("p2", "Synced")}, "WriteOrphan Found/NoObject"},
		{"2 or says that it is gone", found{physical: "there", edit: recorded("p1", "Removed")}, "WriteOrphan Found/NoObject"},
		{"3 nobody decided", found{physical: "there"}, "WriteOrphan Found/NoObject"},
		{"3 with what the server says", found{physical: "there", answer: "exists?"}, "WriteOrphan Found/Exists"},
		{"4 left", found{order: leave, physical: "there", answer: "gone"}, "WriteOrphan Left/Ordered"},
		{"5 the object is in view", found{order: remove, physical: "there", answer: "gone", edit: logical("live")}, "WriteOrphan Refused/ObjectExists"},
		{"5 another one is in view", found{order: remove, physical: "there", answer: "other", edit: logical("live!")}, "AskServer Delete WriteOrphan Removing/Deleting"},
		{"6 the server was not asked", found{order: remove, physical: "there"}, "WriteOrphan Removing/AskingServer"},
		{"6 not about this order", found{order: remove, physical: "there", answer: "gone?"}, "WriteOrphan Removing/AskingServer"},
		{"7 it exists", found{order: remove, physical: "there", answer: "exists"}, "WriteOrphan Refused/ObjectExists"},
		{"7 nobody knows", found{order: remove, physical: "there", answer: "unknown"}, "WriteOrphan Refused/ObjectExists"},
		{"8 a namespace with contents", found{kind: "Namespace", order: remove, physical: "there", answer: "gone", edit: func(in *OrphanInput) { in.Contents = 2 }}, "WriteOrphan Removing/NotEmpty"},
		{"9 on its way", found{order: remove, physical: "there-", answer: "gone"}, "WriteOrphan Removing/Terminating"},
		{"10 gone by UID", found{order: remove, physical: "there", answer: "gone"}, "AskServer Delete WriteOrphan Removing/Deleting"},
		{"10 another one has the name", found{order: remove, physical: "there", answer: "other"}, "AskServer Delete WriteOrphan Removing/Deleting"},
		{"10 an empty namespace", found{kind: "Namespace", order: remove, physical: "there", answer: "gone"}, "AskServer Delete WriteOrphan Removing/Deleting"},
		{"10 refused by the physical cluster", found{order: remove, physical: "there", answer: "gone", edit: func(in *OrphanInput) { in.Failure = &Failure{Reason: "Forbidden"} }}, "WriteOrphan Removing/Forbidden"},
		{"5 placed here, it is not discarded", found{order: discard, physical: "there", answer: "exists", edit: logical("live")}, "WriteOrphan Refused/ObjectExists"},
		{"6 nor without the server's word", found{order: discard, physical: "there"}, "WriteOrphan Removing/AskingServer"},
		{"6 nor about the order before", found{order: discard, physical: "there", answer: "exists?"}, "WriteOrphan Removing/AskingServer"},
		{"7 nor if nobody knows", found{order: discard, physical: "there", answer: "unknown"}, "WriteOrphan Refused/ObjectExists"},
		{"8 nor a namespace with contents", found{kind: "Namespace", order: discard, physical: "there", answer: "exists", edit: func(in *OrphanInput) { in.Contents = 2 }}, "WriteOrphan Removing/NotEmpty"},
		{"10 discarded, it exists elsewhere", found{order: discard, physical: "there", answer: "exists"}, "AskServer Delete WriteOrphan Removing/Deleting"},
		{"10 a claim is discarded as it is removed if what it claims is gone", found{kind: "PersistentVolumeClaim", order: discard, physical: "there", answer: "gone"}, "AskServer Delete WriteOrphan Removing/Deleting"},
		{"10a it takes its claims along", found{kind: "StatefulSet", order: discard, physical: "there", answer: "exists", edit: takesClaims}, "WriteOrphan Refused/TakesOthersAlong"},
		{"10a as ordered, if what it claims is gone", found{kind: "StatefulSet", order: discard, physical: "there", answer: "gone", edit: takesClaims}, "AskServer Delete WriteOrphan Removing/Deleting"},
		{"10b of a claim it is looked for a volume", found{kind: "PersistentVolumeClaim", order: discard, physical: "there", answer: "exists"}, "AskServer LookAtVolume Delete WriteOrphan Removing/Deleting"},
		{"10b which is kept", found{kind: "PersistentVolumeClaim", order: discard, physical: "there", answer: "exists", edit: bound("Delete")}, "AskServer UpdateVolume Delete WriteOrphan Removing/Deleting"},
		{"10b so are those of a namespace", found{kind: "Namespace", order: discard, physical: "there", answer: "exists", edit: bound("Delete")}, "AskServer UpdateVolume Delete WriteOrphan Removing/Deleting"},
		{"10b or it stays", found{kind: "PersistentVolumeClaim", order: discard, physical: "there", answer: "exists", edit: func(in *OrphanInput) { in.Failure = &Failure{Reason: "VolumeRefused"} }}, "WriteOrphan Removing/VolumeRefused"},
		{"11 it exists elsewhere", found{order: adopt, physical: "there", answer: "exists"}, "WriteOrphan Refused/NotPlacedHere"},
		{"11 another one of the name", found{order: adopt, physical: "there", answer: "other"}, "WriteOrphan Refused/NotPlacedHere"},
		{"11 mirrored under the name", found{order: adopt, physical: "there", edit: logical("observed")}, "WriteOrphan Refused/NotPlacedHere"},
		{"12 nothing to adopt it", found{order: adopt, physical: "there", answer: "gone"}, "WriteOrphan Refused/NoObject"},
		{"13 its place is elsewhere", found{order: adopt, physical: "there", edit: both(logical("live!"), func(in *OrphanInput) { in.Namespace = "shop-web-2" })}, "WriteOrphan Refused/OtherNamespace"},
		{"14 it is about to be", found{order: adopt, physical: "there", edit: logical("live!")}, "WriteOrphan Adopting/Ordered"},
		{"14 the physical cluster refuses", found{order: adopt, physical: "there", edit: both(logical("live!"), recorded("", "Failed"))}, "WriteOrphan Adopting/Invalid"},
	} {
		t.Run(c.cell, func(t *testing.T) {
			in := c.f.input()
			var said []string
			for range 5 {
				a := only(PlanOrphan(in))
				said = append(said, string(a.Verb))
				switch a.Verb {
				case AskServer:
					in.Asked = true
					continue
				case LookAtVolume, UpdateVolume:
					in.Volume = Volume{Looked: true}
					continue
				case Delete:
					in.Deleted = true
					continue
				case WriteOrphan:
					said[len(said)-1] = fmt.Sprintf("WriteOrphan %s/%s", a.Orphan.Status.State, a.Orphan.Status.Reason)
				}
				break // nothing follows
			}
			if got := strings.Join(said, " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestNoOrphanIsRemovedWithoutAnOrderAndTheWordOfTheServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := found{
			kind:     rapid.SampledFrom([]string{"ConfigMap", "Namespace", "Deployment"}).Draw(t, "kind"),
			order:    rapid.SampledFrom([]fleetv1alpha1.OrphanOrder{"", "Leave", "Remove", "Discard", "Adopt"}).Draw(t, "order"),
			physical: rapid.SampledFrom([]string{"", "there", "there-", "unmarked", "another"}).Draw(t, "physical"),
			answer:   rapid.SampledFrom([]string{"", "exists", "gone", "other", "unknown", "gone?", "other?"}).Draw(t, "answer"),
		}
		in := f.input()
		in.Contents = rapid.IntRange(0, 1).Draw(t, "contents")
		in.Logical = situation{logical: rapid.SampledFrom([]string{"", "live", "live!", "observed"}).Draw(t, "logical")}.logicalObject(ClaimOf(in.Kind, in.Orphan))
		in.Asked = rapid.Bool().Draw(t, "asked")
		if only(PlanOrphan(in)).Verb != Delete {
			return
		}
		answered := f.answer == "gone" || f.answer == "other" || f.answer == "exists" && f.order == "Discard"
		exists := in.Logical != nil && in.Logical.GetUID() == in.Orphan.Spec.Claim.UID
		if f.order != "Remove" && f.order != "Discard" || !answered || f.physical != "there" || exists || f.kind == "Namespace" && in.Contents > 0 || !in.Asked {
			t.Fatalf("removed: %+v", f)
		}
	})
}

func TestWhatIsListedAsAnOrphanWaitsForItsOrder(t *testing.T) {
	listed := func(order fleetv1alpha1.OrphanOrder) func(*Input) {
		return func(in *Input) {
			in.Orphan = func(uid types.UID) (fleetv1alpha1.OrphanOrder, bool) { return order, uid == "p1" }
		}
	}
	for _, c := range []struct {
		name string
		s    situation
		want string
	}{
		{"undecided", situation{logical: "live", copy: "Pending", physical: "new", edit: listed("")}, "WriteCopy Failed/OrphanInTheWay"},
		{"to be left", situation{logical: "live", copy: "Pending", physical: "new", edit: listed("Leave")}, "WriteCopy Failed/OrphanInTheWay"},
		{"to be removed, by its own plan", situation{logical: "live", copy: "Pending", physical: "new", edit: listed("Remove")}, "WriteCopy Failed/OrphanInTheWay"},
		{"to be adopted", situation{logical: "live", copy: "Pending", physical: "new", edit: listed("Adopt")}, "Apply Changed to p1"},
		{"to be adopted, a record comes first", situation{logical: "live", physical: "new", edit: listed("Adopt")}, "WriteCopy Pending/New"},
		{"to be adopted, by what is going", situation{logical: "deleting", physical: "new", edit: listed("Adopt")}, "WriteCopy Removed"},
		{"undecided, and a new object is deleted", situation{logical: "deleting", copy: "Failed", physical: "new", edit: listed("")}, "WriteCopy Removed"},
		{"nothing above", situation{physical: "old", edit: listed("Leave")}, "Report"},
		{"its own object is back", situation{logical: "live", copy: "Pending", physical: "old", edit: listed("")}, "WriteCopy Synced"},
		{"not listed", situation{logical: "live", copy: "Pending", physical: "new", gone: "new"}, "Delete p1 OtherIncarnation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(Plan(c.s.input())); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
