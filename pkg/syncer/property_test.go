package syncer

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// drawSituation draws any situation, sensible or not.
func drawSituation(t *rapid.T) situation {
	s := situation{
		kind:      rapid.SampledFrom([]string{"ConfigMap", "Deployment", "Job", "CronJob", "Pod", "Namespace", "Service"}).Draw(t, "kind"),
		logical:   rapid.SampledFrom([]string{"", "live", "live!", "deleting", "deleting!", "removing", "removing!", "untargeted", "observed"}).Draw(t, "logical"),
		copy:      rapid.SampledFrom([]string{"", "Pending", "Synced", "Failed", "Removing", "Removed"}).Draw(t, "copy"),
		physical:  rapid.SampledFrom([]string{"", "old", "old~", "old-", "new", "new-", "foreign", "foreign-", "unmarked"}).Draw(t, "physical"),
		gone:      types.UID(rapid.SampledFrom([]string{"", "", "old", "new"}).Draw(t, "gone")),
		namespace: rapid.SampledFrom([]NamespaceState{NamespaceReady, NamespaceAbsent, NamespaceTerminating, NamespaceNotOurs, NamespaceDisputed}).Draw(t, "namespace"),
		unnamed:   rapid.Bool().Draw(t, "unnamed"),
		contents:  rapid.IntRange(0, 1).Draw(t, "contents"),
		observed:  rapid.SampledFrom([]string{"", `{"phase":"Failed"}`, `{"conditions":[{"type":"Complete","status":"True"}]}`}).Draw(t, "observed"),
	}
	if rapid.Bool().Draw(t, "failed") {
		s.failure = &Failure{Reason: "Invalid", Immutable: rapid.Bool().Draw(t, "immutable")}
	}
	return s
}

// instructed says, independently of Plan, whether something mirrors the
// removal of the incarnation uid.
func instructed(in Input, uid types.UID) bool {
	if in.Logical == nil {
		return in.Copy != nil && slices.Contains(in.Gone, uid)
	}
	entry, ok := stamp.TargetsOf(in.Logical.GetAnnotations())[in.Target]
	if !ok || entry.State == placementv1alpha1.TargetObserved {
		return in.Copy != nil && slices.Contains(in.Gone, uid)
	}
	if stale := in.Copy != nil && in.Copy.Spec.Object.UID != in.Logical.GetUID(); stale && !slices.Contains(in.Gone, in.Copy.Spec.Object.UID) {
		return false // it may have been brought back
	}
	if in.Logical.GetUID() != uid {
		return slices.Contains(in.Gone, uid)
	}
	return in.Logical.GetDeletionTimestamp() != nil || entry.State == placementv1alpha1.TargetStateRemoving
}

func TestNothingIsDeletedWithoutAnInstructionForItsUID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSituation(t).input()
		for _, a := range Plan(in) {
			if a.Verb != Delete {
				continue
			}
			if in.Physical == nil || a.UID != in.Physical.GetUID() || a.UID == "" {
				t.Fatalf("deletes %q, which is not what is there", a.UID)
			}
			recreated := a.Why == "Recreate" && in.Failure != nil && in.Failure.Immutable && (in.Ref.Kind.Kind == "Job" || in.Ref.Kind.Kind == "Pod")
			if !recreated && !instructed(in, incarnation(in)) {
				t.Fatalf("nothing says that %q shall go", incarnation(in))
			}
			if in.Ref.IsNamespace() && in.Logical != nil && in.Contents > 0 && in.Logical.GetUID() == incarnation(in) {
				t.Fatal("a Namespace with copies in it")
			}
		}
	})
}

func TestWithoutALookNothingThatMayBeThereIsTouchedAndNothingAcknowledged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSituation(t).input()
		in.Physical, in.Unseen = nil, true
		never := in.Copy != nil && rapid.Bool().Draw(t, "unapplied")
		if never {
			unapplied(&in)
		}
		for _, a := range Plan(in) {
			switch {
			case a.Verb == Look, a.Verb == WriteCopy && a.Copy.Status.State == placementv1alpha1.CopyPending:
			case never && (a.Verb == Apply && a.Object.GetUID() == "" || a.Verb == CreateNamespace): // refused, if anything is there
			case never && a.Verb == WriteCopy && a.Copy.Status.State == placementv1alpha1.CopyFailed:
			default:
				t.Fatalf("%s", describe([]Action{a}))
			}
		}
	})
}

func TestOfAKindThatIsNotServedNothingIsAcknowledgedWithoutProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSituation(t).input()
		in.Physical, in.Unproven = nil, Leaves(in) && in.Copy != nil
		if !in.Unproven {
			return
		}
		for _, a := range Plan(in) {
			if a.Verb == WriteCopy && a.Copy.Status.State == placementv1alpha1.CopyRemoved {
				t.Fatalf("%s", describe([]Action{a}))
			}
		}
	})
}

func TestWhatMayNotBeLookedAtIsNeitherWrittenToNorSaidToBeThereOrGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSituation(t).input()
		in.Physical, in.Unproven, in.Failure = nil, true, &Failure{Reason: "Forbidden", Message: "no"}
		if in.Copy != nil && in.Copy.Status.State == placementv1alpha1.CopyRemoved {
			return
		}
		for _, a := range Plan(in) {
			switch {
			case a.Verb == AskServer:
			case a.Verb == WriteCopy && in.Copy == nil && a.Copy.Status.State == placementv1alpha1.CopyPending: // the record comes first
			case a.Verb == WriteCopy && in.Copy == nil && a.Copy.Status.State == placementv1alpha1.CopyRemoving:
			case a.Verb == WriteCopy && (a.Copy.Status.State == placementv1alpha1.CopyFailed || a.Copy.Status.State == placementv1alpha1.CopyRemoving):
				if a.Copy.Status.Reason != "Forbidden" || a.Copy.Status.PhysicalUID != in.Copy.Status.PhysicalUID {
					t.Fatalf("the Copy says %+v", a.Copy.Status)
				}
			default:
				t.Fatalf("%s", describe([]Action{a}))
			}
		}
	})
}

func TestNothingThatIsNotOursIsWrittenTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSituation(t).input()
		for _, a := range Plan(in) {
			if (a.Verb == Delete || a.Verb == Apply) && in.Physical != nil && incarnation(in) == "" {
				t.Fatalf("%s of a foreign object", a.Verb)
			}
			if a.Verb == Apply && in.Physical != nil && a.Object.GetUID() != in.Physical.GetUID() {
				t.Fatal("an apply that does not name the UID")
			}
		}
	})
}

func TestThereIsARecordBeforeTheFirstWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSituation(t).input()
		if in.Copy != nil && rapid.Bool().Draw(t, "placeless") {
			placeless(&in)
		}
		recorded := in.Copy != nil
		for _, a := range Plan(in) {
			switch a.Verb {
			case WriteCopy:
				recorded = true
			case Apply, Delete, CreateNamespace:
				if !recorded {
					t.Fatalf("%s without a Copy", a.Verb)
				}
				if a.Verb != Delete && in.Copy.Status.PhysicalNamespace == "" {
					t.Fatalf("%s without the place on the Copy", a.Verb)
				}
			}
		}
	})
}

func TestACopyKeepsTheObjectThatItRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawSituation(t).input()
		for _, a := range Plan(in) {
			if a.Verb == WriteCopy && in.Copy != nil && a.Copy.Spec != in.Copy.Spec {
				t.Fatal("the spec of a Copy changed")
			}
			if a.Verb == WriteCopy && in.Copy != nil && equalStatus(a.Copy.Status, in.Copy.Status) {
				t.Fatal("a write that changes nothing")
			}
		}
	})
}

// world does what plans say, as the two servers would.
type world struct {
	in      Input
	holding bool // a finalizer holds what is deleted below
	made    int
}

func (w *world) do(a Action) {
	switch a.Verb {
	case WriteCopy:
		w.in.Copy = a.Copy.DeepCopy()
	case CreateNamespace:
		w.in.Namespace.State = NamespaceReady
	case Apply:
		w.made++
		w.in.Physical, w.in.Applied = below(a.Object), true
		if a.Object.GetUID() == "" {
			w.in.Physical.SetUID(types.UID(fmt.Sprintf("made-%d", w.made)))
		}
		w.in.Settled = Fingerprint(w.in.Physical)
	case Delete:
		w.in.Applied, w.in.Failure = false, nil
		if w.holding {
			w.in.Physical.SetDeletionTimestamp(ptr.To(metav1.Unix(2, 0)))
			return
		}
		w.in.Physical = nil
	case AskServer:
		w.in.Gone = append(w.in.Gone, a.UID)
	case LookAtVolume:
		w.in.Volume.Looked = true // nothing is left in a Namespace
	}
}

// run plans and acts until nothing is left to do.
func (w *world) run(t *rapid.T) {
	for range 10 {
		actions := Plan(w.in)
		if len(actions) == 0 || actions[0].Verb == Report {
			return
		}
		for _, a := range actions {
			w.do(a)
		}
	}
	t.Fatalf("no end in sight: %s", describe(Plan(w.in)))
}

func TestEveryPassEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{in: drawSituation(t).input(), holding: rapid.Bool().Draw(t, "holding")}
		w.run(t)
	})
}

func TestAfterAPassNothingIsLeftToDoEvenWithoutMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{in: drawSituation(t).input()}
		w.in.Failure = nil // what failed is tried again
		w.run(t)
		w.in.Settled, w.in.Applied, w.in.Reverted = "", false, 0 // a restart
		if actions := Plan(w.in); hasVerb(actions, Apply, Delete, WriteCopy) {
			t.Fatalf("again: %s", describe(actions))
		}
	})
}

func hasVerb(actions []Action, verbs ...Verb) bool {
	for _, a := range actions {
		for _, v := range verbs {
			if a.Verb == v {
				return true
			}
		}
	}
	return false
}

// A life: whatever happened before, an object that shall be here ends up here
// once, and one that is deleted ends up acknowledged.
func TestALifeFromCreationToAcknowledgement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"ConfigMap", "Deployment", "Job", "Namespace"}).Draw(t, "kind")
		w := world{in: situation{kind: kind, logical: "live", namespace: NamespaceAbsent}.input()}
		if w.in.Ref.IsNamespace() {
			w.in.Namespace.State = NamespaceReady
		}
		w.run(t)
		expect(t, w.in, placementv1alpha1.CopySynced)
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0: // the user changes it
				w.in.Logical.SetLabels(map[string]string{"n": fmt.Sprint(w.made)})
				w.in.Logical.SetGeneration(w.in.Logical.GetGeneration() + 1)
			case 1: // somebody deletes it below
				w.in.Physical = nil
			case 2: // somebody changes it below
				w.in.Physical.SetManagedFields(nil)
			case 3: // the syncer restarts
				w.in.Settled = ""
			case 4: // it vanishes from the view for a while
				logical := w.in.Logical
				w.in.Logical = nil
				if actions := Plan(w.in); hasVerb(actions, Delete, Apply) {
					t.Fatalf("absence led to %s", describe(actions))
				}
				w.in.Logical = logical
			}
			w.in.Applied, w.in.Reverted = false, 0
			w.run(t)
			expect(t, w.in, placementv1alpha1.CopySynced)
		}
		w.in.Logical.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		w.in.Applied = false
		w.run(t)
		if w.in.Physical != nil || w.in.Copy.Status.State != placementv1alpha1.CopyRemoved {
			t.Fatalf("left behind: %v, %s", w.in.Physical != nil, w.in.Copy.Status.State)
		}
	})
}

func expect(t *rapid.T, in Input, state placementv1alpha1.CopyState) {
	if in.Physical == nil || in.Copy.Status.State != state || in.Copy.Status.PhysicalUID != in.Physical.GetUID() ||
		in.Copy.Status.AppliedGeneration != in.Logical.GetGeneration() || incarnation(in) != in.Logical.GetUID() {
		t.Fatalf("not synced: %+v", in.Copy.Status)
	}
	wanted := in.Logical.GetLabels()
	if in.Ref.IsNamespace() {
		wanted = planner{Input: in}.placing().passage().NamespaceLabels(in.Ref.Name, wanted)
	}
	if !hasLabels(in.Physical, wanted) {
		t.Fatal("what is below is not what is above")
	}
}

func hasLabels(physical *unstructured.Unstructured, wanted map[string]string) bool {
	for k, v := range wanted {
		if physical.GetLabels()[k] != v {
			return false
		}
	}
	return true
}
