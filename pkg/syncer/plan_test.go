package syncer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	target       = "east"
	controlPlane = "cp"
)

// situation is an Input in a few words.
type situation struct {
	kind string // default ConfigMap
	// logical: "" absent, live, deleting, removing, untargeted, observed; with
	// "!" the UID is new instead of old.
	logical string
	// copy: "" none, or a state; it records the UID old.
	copy string
	// physical: "" none, old, new (the UID in our mark), foreign, unmarked (what
	// the Copy recorded, its mark gone); with "-" being deleted, with "~" drifted.
	physical string

	gone      types.UID      // what the server said of it
	namespace NamespaceState // default Ready
	unnamed   bool
	contents  int
	failure   *Failure
	observed  string // JSON of the recorded status
	edit      func(*Input)
}

func (s situation) input() Input {
	kind := s.kind
	if kind == "" {
		kind = "ConfigMap"
	}
	in := Input{
		Kinds: workload.Builtin(),
		Ref:   Ref{Kind: kinds[kind], Cluster: "shop", Namespace: "web", Name: "thing"}, Target: target, ControlPlane: controlPlane,
		Contents: s.contents, Failure: s.failure, Ruled: true,
		Namespace: Namespace{Name: "shop-web-1", State: s.namespace},
	}
	if in.Namespace.State == "" {
		in.Namespace.State = NamespaceReady
	}
	if s.unnamed {
		in.Namespace.Name = ""
	}
	if in.Ref.IsNamespace() {
		in.Ref.Namespace = ""
	}
	if s.gone != "" {
		in.Gone = []types.UID{s.gone}
	}
	in.Logical = s.logicalObject(in.Ref)
	if s.copy != "" {
		in.Copy = &placementv1alpha1.Copy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: in.Ref.CopyName(target)},
			Spec:       placementv1alpha1.CopySpec{PhysicalCluster: target, Object: placementv1alpha1.ObjectReference{UID: "old"}},
			Status:     placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyState(s.copy), PhysicalNamespace: "shop-web-1", PhysicalUID: "p1"},
		}
		if s.copy != "Synced" && s.physical == "" { // not made yet
			in.Copy.Status.PhysicalUID = ""
		}
		if s.observed != "" {
			in.Copy.Status.Observed = &runtime.RawExtension{Raw: []byte(s.observed)}
		}
	}
	in.Physical = s.physicalObject(in)
	if s.edit != nil {
		s.edit(&in)
	}
	return in
}

func (s situation) logicalObject(ref Ref) *unstructured.Unstructured {
	if s.logical == "" {
		return nil
	}
	obj := newObject(ref)
	word, isNew := strings.CutSuffix(s.logical, "!")
	obj.SetUID("old")
	if isNew {
		obj.SetUID("new")
	}
	obj.SetGeneration(3)
	entry := map[string]string{"removing": `{"east":{"state":"Removing"}}`, "untargeted": `{"west":{}}`, "observed": `{"east":{"state":"Observed"}}`}[word]
	if entry == "" {
		entry = `{"east":{}}`
	}
	obj.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: entry})
	if word == "deleting" {
		obj.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		obj.SetFinalizers([]string{placementv1alpha1.CopiesFinalizer})
	}
	return obj
}

func (s situation) physicalObject(in Input) *unstructured.Unstructured {
	word, deleting := strings.CutSuffix(s.physical, "-")
	word, drifted := strings.CutSuffix(word, "~")
	var obj *unstructured.Unstructured
	switch word {
	case "":
		return nil
	case "foreign", "unmarked":
		obj = newObject(in.Ref)
		obj.SetUID("p9")
		if word == "unmarked" {
			obj.SetUID("p1")
		}
	default:
		source := s.logicalObject(in.Ref)
		if source == nil {
			source = newObject(in.Ref)
		}
		source.SetUID(types.UID(word))
		obj = below(transformed(source, Placing{Ref: in.Ref, ControlPlane: controlPlane, Namespace: "shop-web-1"}))
		obj.SetUID("p1")
	}
	obj.SetNamespace("shop-web-1")
	if drifted {
		obj.SetManagedFields(nil)
	}
	if deleting {
		obj.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		obj.SetFinalizers([]string{"example.com/hold"})
	}
	return obj
}

func newObject(ref Ref) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(ref.Kind.GroupVersionKind)
	obj.SetName(ref.Name)
	obj.SetNamespace(ref.Namespace)
	return obj
}

// below is what an apply makes of an object: our fields are ours.
func below(applied *unstructured.Unstructured) *unstructured.Unstructured {
	obj := applied.DeepCopy()
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: applied.GetAPIVersion(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fieldsOf(applied))),
	}})
	return obj
}

// describe is the plan in a few words.
func describe(actions []Action) string {
	var words []string
	for _, a := range actions {
		w := string(a.Verb)
		switch a.Verb {
		case WriteCopy:
			w += " " + string(a.Copy.Status.State)
			if a.Copy.Status.Reason != "" {
				w += "/" + a.Copy.Status.Reason
			}
			if a.Copy.Spec.Object.UID == "new" {
				w += " of new"
			}
		case Apply:
			w += " " + a.Why
			if a.Object.GetUID() != "" {
				w += " to " + string(a.Object.GetUID())
			}
			if v := a.Object.GetResourceVersion(); v != "" {
				w += " at " + v
			}
		case Delete, AskServer:
			w += " " + string(a.UID) + " " + a.Why
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

func unseen(in *Input) { in.Unseen = true }

// placeless: the Copy was made before its Namespace was seen.
func placeless(in *Input) { in.Copy.Status.PhysicalNamespace = "" }

// resizedTo: a container of a user's pod has other processors above than below.
func resizedTo(above, below string) func(*Input) {
	return func(in *Input) {
		for obj, cpu := range map[*unstructured.Unstructured]string{in.Logical: above, in.Physical: below} {
			setNested(obj.Object, []any{map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}}, "spec", "containers")
		}
	}
}

func unruled(in *Input) { in.Ruled = false }

// reportedAgo: the Copy was written a moment ago, and there is another status since.
func reportedAgo(ago time.Duration) func(*Input) {
	return func(in *Input) {
		in.Now = time.Unix(1000, 0)
		in.Reported = in.Now.Add(-ago)
		in.Copy.Status.AppliedGeneration, in.Copy.Status.ObservedGeneration = 3, 3
		in.Physical.Object["status"] = map[string]any{"phase": "New"}
		in.Copy.Status.PhysicalGeneration = in.Physical.GetGeneration()
	}
}

// unapplied is the state between the first record and the first apply.
func unapplied(in *Input) {
	in.Unseen = true
	in.Copy.Status = placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, Reason: ReasonNew, PhysicalNamespace: "shop-web-1"}
}

func TestThePlanForEachCellOfTheTable(t *testing.T) {
	immutable := &Failure{Reason: "Invalid", Message: "no", Immutable: true}
	for _, c := range []struct {
		cell string
		s    situation
		want string
	}{
		{"1 a record comes first", situation{logical: "live"}, "WriteCopy Pending/New"},
		{"1 even before the namespace has a name", situation{logical: "live", unnamed: true}, "WriteCopy Pending/New"},
		{"2 a removed copy is taken note of first", situation{logical: "live", copy: "Removed", physical: "old"}, ""},
		{"2 and for a new object too", situation{logical: "live!", copy: "Removed", physical: "old"}, ""},
		{"3 whether a predecessor is gone says the server", situation{logical: "live!", copy: "Synced", physical: "old"}, "AskServer old OtherIncarnation"},
		{"3 and of that one", situation{logical: "live!", copy: "Synced", physical: "old", gone: "new"}, "AskServer old OtherIncarnation"},
		{"3 a predecessor is finished", situation{logical: "live!", copy: "Synced", physical: "old", gone: "old"}, "WriteCopy Removing/OtherIncarnation, Delete p1 OtherIncarnation"},
		{"3 also when both are to go", situation{logical: "deleting!", copy: "Synced", physical: "old", gone: "old"}, "WriteCopy Removing/OtherIncarnation, Delete p1 OtherIncarnation"},
		{"3 while it is on its way", situation{logical: "live!", copy: "Removing", physical: "old-", gone: "old"}, "WriteCopy Removing/OtherIncarnation"},
		{"4 nothing of it is there", situation{logical: "live!", copy: "Synced", gone: "old"}, "WriteCopy Removed"},
		{"4 its successor is not touched", situation{logical: "live!", copy: "Synced", physical: "new", gone: "old"}, "WriteCopy Removed"},
		{"4 nor is a foreign object", situation{logical: "live!", copy: "Synced", physical: "foreign", gone: "old"}, "WriteCopy Removed"},
		{"5 a foreign object is left alone", situation{logical: "live", copy: "Pending", physical: "foreign"}, "WriteCopy Failed/NotOurs"},
		{"5a nothing is written as long as its place is in dispute", situation{logical: "live", copy: "Synced", physical: "old~", namespace: NamespaceDisputed}, "WriteCopy Pending/OtherNamespace"},
		{"5a nor made", situation{logical: "live", copy: "Pending", namespace: NamespaceDisputed}, "WriteCopy Pending/OtherNamespace"},
		{"5b the place is recorded before anything is there", situation{logical: "live", copy: "Pending", namespace: NamespaceAbsent, edit: placeless}, "WriteCopy Pending/New"},
		{"5b or written there", situation{logical: "live", copy: "Synced", physical: "old~", edit: placeless}, "WriteCopy Pending/New"},
		{"6 whether an incarnation without a record is gone says the server", situation{logical: "live", copy: "Pending", physical: "new"}, "AskServer new OtherIncarnation"},
		{"6 and it is", situation{logical: "live", copy: "Pending", physical: "new", gone: "new"}, "Delete p1 OtherIncarnation"},
		{"7 the namespace comes before the first object", situation{logical: "live", copy: "Pending", namespace: NamespaceAbsent}, "CreateNamespace"},
		{"7 what makes pods waits for what rules them", situation{kind: "Deployment", logical: "live", copy: "Pending", edit: unruled}, "LookAtRules"},
		{"7 which is no reason to leave what is there", situation{kind: "Deployment", logical: "live", copy: "Synced", physical: "old~", edit: unruled}, "Apply Drifted to p1"},
		{"7 and nothing else waits for it", situation{logical: "live", copy: "Pending", edit: unruled}, "Apply Absent"},
		{"8 news that come at once are gathered", situation{logical: "live", copy: "Synced", physical: "old", edit: reportedAgo(reportInterval / 2)}, "Wait"},
		{"8 and then said", situation{logical: "live", copy: "Synced", physical: "old", edit: reportedAgo(reportInterval)}, "WriteCopy Synced"},
		{"7 the first apply", situation{logical: "live", copy: "Pending"}, "Apply Absent"},
		{"7a gone below is made again, and that is recorded first", situation{logical: "live", copy: "Synced"}, "WriteCopy Pending/New"},
		{"7 a finished Job stays gone", situation{kind: "Job", logical: "live", copy: "Pending", observed: `{"conditions":[{"type":"Complete","status":"True"}]}`}, "WriteCopy Synced/Finished"},
		{"7a so is a running Job", situation{kind: "Job", logical: "live", copy: "Synced", observed: `{"active":1}`}, "WriteCopy Pending/New"},
		{"7 a finished Pod stays gone", situation{kind: "Pod", logical: "live", copy: "Pending", observed: `{"phase":"Succeeded"}`}, "WriteCopy Synced/Finished"},
		{"7 no name yet", situation{logical: "live", copy: "Synced", unnamed: true}, "WriteCopy Pending/NoPhysicalNamespace"},
		{"7 the namespace is being deleted", situation{logical: "live", copy: "Synced", namespace: NamespaceTerminating}, "WriteCopy Pending/NamespaceTerminating"},
		{"7 the namespace is somebody else's", situation{logical: "live", copy: "Pending", namespace: NamespaceNotOurs}, "WriteCopy Failed/NamespaceNotOurs"},
		{"8 first sight of what was applied", situation{logical: "live", copy: "Pending", physical: "old"}, "WriteCopy Synced"},
		{"8 drift", situation{logical: "live", copy: "Synced", physical: "old~"}, "Apply Drifted to p1"},
		{"8 without the mark, by the record", situation{logical: "live", copy: "Synced", physical: "unmarked"}, "Apply Changed to p1"},
		{"8 waits for a deletion below", situation{logical: "live", copy: "Synced", physical: "old-"}, "WriteCopy Pending/Terminating"},
		{"8 a change", situation{logical: "live", copy: "Synced", physical: "old", edit: func(in *Input) { in.Logical.SetLabels(map[string]string{"a": "b"}) }}, "Apply Changed to p1"},
		{"8 a refusal", situation{logical: "live", copy: "Synced", failure: immutable}, "WriteCopy Failed/Invalid"},
		{"8 a refused change of a Job makes it anew", situation{kind: "Job", logical: "live", copy: "Synced", physical: "old~", failure: immutable}, "WriteCopy Pending/Recreating, Delete p1 Recreate"},
		{"8 a pod that was resized is resized", situation{kind: "Pod", logical: "live", copy: "Synced", physical: "old", edit: resizedTo("2", "1")}, "Resize"},
		{"8 and what else changed is applied then", situation{kind: "Pod", logical: "live", copy: "Synced", physical: "old", edit: resizedTo("2", "2000m")}, "Apply Changed to p1"},
		{"8 a refused resize leaves the pod alone", situation{kind: "Pod", logical: "live", copy: "Synced", physical: "old", failure: &Failure{Reason: ReasonResizeRefused, Message: "no"}}, "WriteCopy Failed/ResizeRefused"},
		{"8 of nothing else", situation{kind: "Deployment", logical: "live", copy: "Synced", physical: "old~", failure: immutable}, "WriteCopy Failed/Invalid"},
		{"9 acknowledged", situation{logical: "deleting", copy: "Removed", physical: "old"}, ""},
		{"10 deleted", situation{logical: "deleting", copy: "Synced", physical: "old"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"10 without a record", situation{logical: "deleting", physical: "old"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"10 without its mark", situation{logical: "deleting", copy: "Synced", physical: "unmarked"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"10 an entry that says so", situation{logical: "removing", copy: "Synced", physical: "old"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"10 a refused deletion", situation{logical: "deleting", copy: "Removing", physical: "old", failure: &Failure{Reason: "Forbidden"}}, "WriteCopy Removing/Forbidden"},
		{"11 never made", situation{logical: "deleting"}, "WriteCopy Removed"},
		{"10 of another incarnation: recorded first", situation{logical: "deleting", physical: "new"}, "WriteCopy Removing/Removing"},
		{"10 then the server says whether it is gone", situation{logical: "deleting", copy: "Removing", physical: "new", observed: "{}", edit: func(in *Input) { in.Copy.Status.Reason = "Removing" }}, "AskServer new OtherIncarnation"},
		{"11 gone", situation{logical: "deleting", copy: "Removing"}, "WriteCopy Removed"},
		{"11 replaced by a foreign object", situation{logical: "deleting", copy: "Removing", physical: "foreign"}, "WriteCopy Removed"},
		{"11 with no namespace", situation{logical: "deleting", unnamed: true}, "WriteCopy Removed"},
		{"10 deleted, whatever its Namespace says by now", situation{logical: "deleting", copy: "Synced", physical: "old", namespace: NamespaceDisputed}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"12 an orphan", situation{physical: "old"}, "Report"},
		{"12 of which the server knows nothing", situation{physical: "old", gone: "old"}, "Report"},
		{"13 a foreign object", situation{physical: "foreign"}, ""},
		{"13 acknowledged", situation{copy: "Removed", physical: "old"}, ""},
		{"13 nothing", situation{}, ""},
		{"14 not in view", situation{copy: "Synced", physical: "old"}, "AskServer old NotInView"},
		{"14 untargeted", situation{logical: "untargeted", copy: "Synced", physical: "old"}, "AskServer old NotInView"},
		{"14 another one is gone", situation{copy: "Synced", physical: "old", gone: "new"}, "AskServer old NotInView"},
		{"14 gone", situation{copy: "Synced", physical: "old", gone: "old"}, "WriteCopy Removing/Gone, Delete p1 Gone"},
		{"14 gone, and below too", situation{copy: "Synced", gone: "old"}, "WriteCopy Removed"},
		{"unseen: a record needs no look", situation{logical: "live", edit: unseen}, "WriteCopy Pending/New"},
		{"unseen: an apply does", situation{logical: "live", copy: "Pending", edit: unseen}, "Look"},
		{"unseen: but not the first one", situation{logical: "live", copy: "Pending", edit: unapplied}, "Apply Absent"},
		{"unseen: nor its namespace", situation{logical: "live", copy: "Pending", namespace: NamespaceAbsent, edit: unapplied}, "CreateNamespace"},
		{"unseen: the first one does once it was refused", situation{logical: "live", copy: "Pending", edit: func(in *Input) {
			unapplied(in)
			in.Failure = &Failure{Reason: "Invalid"}
		}}, "Look"},
		{"unseen: the first one of a predecessor does", situation{logical: "live!", copy: "Pending", edit: unapplied}, "Look"},
		{"unseen: a removal before the first one does", situation{logical: "deleting", copy: "Pending", edit: unapplied}, "Look"},
		{"unseen: an acknowledgement does", situation{logical: "deleting", copy: "Synced", edit: unseen}, "Look"},
		{"unseen: also one that was never asked for", situation{logical: "removing", edit: unseen}, "Look"},
		{"unseen: also of a predecessor", situation{logical: "live!", copy: "Synced", edit: unseen}, "Look"},
		{"unseen: also of what is gone", situation{copy: "Synced", gone: "old", edit: unseen}, "Look"},
		{"what was mirrored is not sent down", situation{logical: "observed"}, ""},

		{"a Namespace stays for what is in it", situation{kind: "Namespace", logical: "deleting", copy: "Synced", physical: "old", contents: 1}, "WriteCopy Synced"},
		{"and goes when it is empty", situation{kind: "Namespace", logical: "deleting", copy: "Synced", physical: "old"}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"before one that leaves, claims are looked for that it would take along", situation{kind: "Namespace", logical: "removing", copy: "Synced", physical: "old"}, "WriteCopy Removing/Removing, LookAtVolume"},
		{"their volumes are kept", situation{kind: "Namespace", logical: "removing", copy: "Removing", physical: "old", edit: func(in *Input) {
			in.Volume = Volume{Looked: true, Object: diskVolume("pv", corev1.PersistentVolumeReclaimDelete)}
		}}, "WriteCopy Removing/Removing, UpdateVolume"},
		{"and then others", situation{kind: "Namespace", logical: "removing", copy: "Removing", physical: "old", edit: func(in *Input) {
			pv := diskVolume("pv", corev1.PersistentVolumeReclaimRetain)
			pv.Annotations[ReclaimPolicyAnnotation] = "Delete"
			in.Volume = Volume{Looked: true, Object: pv}
		}}, "WriteCopy Removing/Removing, LookAtVolume"},
		{"until there is none", situation{kind: "Namespace", logical: "removing", copy: "Removing", physical: "old", edit: func(in *Input) { in.Volume.Looked = true }}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"nor without a word of an admin about what has no Copy and would go along", situation{kind: "Namespace", logical: "removing", copy: "Removing", physical: "old", edit: func(in *Input) { in.Strays = 2 }}, "WriteCopy Removing/OrphansInside, Wait"},
		{"but it goes with them if its user deletes it", situation{kind: "Namespace", logical: "deleting", copy: "Removing", physical: "old", edit: func(in *Input) { in.Strays = 2 }}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"that its deletion has begun below is said", situation{kind: "Namespace", logical: "removing", copy: "Removing", physical: "old-"}, "WriteCopy Removing/Terminating"},
		{"but not of one with something in it, which somebody below deletes", situation{kind: "Namespace", logical: "removing", copy: "Synced", physical: "old-", contents: 1}, "WriteCopy Pending/Terminating"},
		{"also one that was made again", situation{kind: "Namespace", logical: "live!", copy: "Synced", physical: "old", gone: "old", contents: 1}, ""},
		{"but not before the server emptied it", situation{kind: "Namespace", logical: "deleting", copy: "Synced", physical: "old", edit: func(in *Input) {
			in.Logical.Object["spec"] = map[string]any{"finalizers": []any{"kubernetes"}}
		}}, "WriteCopy Synced"},
	} {
		t.Run(c.cell, func(t *testing.T) {
			if got := describe(Plan(c.s.input())); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestHowAnObjectIsDeletedBelowFollowsHowItWasDeleted(t *testing.T) {
	deletion := func(kind string, edit func(*unstructured.Unstructured)) Action {
		in := situation{kind: kind, logical: "deleting", copy: "Removing", physical: "old", edit: func(in *Input) {
			in.Copy.Status.Reason = "Removing"
			edit(in.Logical)
		}}.input()
		for _, a := range Plan(in) {
			if a.Verb == Delete {
				return a
			}
		}
		t.Fatalf("no deletion: %s", describe(Plan(in)))
		return Action{}
	}
	with := func(finalizer string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetFinalizers([]string{finalizer}) }
	}
	type how struct {
		Propagation metav1.DeletionPropagation
		Grace       *int64
	}
	for name, c := range map[string]struct {
		got  Action
		want how
	}{
		"background":           {deletion("Deployment", with("x")), how{metav1.DeletePropagationBackground, nil}},
		"foreground":           {deletion("Deployment", with("foregroundDeletion")), how{metav1.DeletePropagationForeground, nil}},
		"orphan":               {deletion("Deployment", with("orphan")), how{metav1.DeletePropagationOrphan, nil}},
		"a Pod's grace":        {deletion("Pod", func(o *unstructured.Unstructured) { o.SetDeletionGracePeriodSeconds(ptr.To[int64](7)) }), how{metav1.DeletePropagationBackground, ptr.To[int64](7)}},
		"a Pod without a node": {deletion("Pod", func(o *unstructured.Unstructured) { o.SetDeletionGracePeriodSeconds(ptr.To[int64](0)) }), how{metav1.DeletePropagationBackground, nil}},
		"a Pod that is to stop at once": {deletion("Pod", func(o *unstructured.Unstructured) {
			o.SetDeletionGracePeriodSeconds(ptr.To[int64](0))
			setNested(o.Object, "east", "spec", "nodeName")
		}), how{metav1.DeletePropagationBackground, ptr.To[int64](0)}},
		"grace of another kind": {deletion("Service", func(o *unstructured.Unstructured) { o.SetDeletionGracePeriodSeconds(ptr.To[int64](7)) }), how{metav1.DeletePropagationBackground, nil}},
	} {
		if diff := cmp.Diff(c.want, how{c.got.Propagation, c.got.Grace}); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// Else it runs in two places for as long as its pods take to end, what its pods use goes
// before them, and pods of before count for who comes back.
func TestWhatLeavesIsNotGoneBeforeItsPodsHaveEnded(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		edit func(*unstructured.Unstructured)
		want metav1.DeletionPropagation
	}{
		"a StatefulSet": {"StatefulSet", nil, metav1.DeletePropagationForeground},
		"a Deployment that is recreated": {"Deployment", func(o *unstructured.Unstructured) {
			setNested(o.Object, "Recreate", "spec", "strategy", "type")
		}, metav1.DeletePropagationForeground},
		"any other Deployment":    {"Deployment", nil, metav1.DeletePropagationForeground},
		"a Pod, which makes none": {"Pod", nil, metav1.DeletePropagationBackground},
		"a ConfigMap":             {"ConfigMap", nil, metav1.DeletePropagationBackground},
	} {
		in := situation{kind: c.kind, logical: "removing", copy: "Synced", physical: "old", edit: func(in *Input) {
			if c.edit != nil {
				c.edit(in.Logical)
			}
		}}.input()
		actions := Plan(in)
		if i := slices.IndexFunc(actions, func(a Action) bool { return a.Verb == Delete }); i < 0 || actions[i].Propagation != c.want {
			t.Errorf("%s: %s, want a deletion %s", name, describe(actions), c.want)
		}
	}
}

func TestAGenerationIsObservedWhenItsPhysicalGenerationIs(t *testing.T) {
	for _, c := range []struct {
		name     string
		kind     string
		observed any // the generation that controllers below have seen
		before   int64
		want     int64
	}{
		{"not looked at yet", "Deployment", nil, 2, 2},
		{"the one before", "Deployment", int64(6), 2, 2},
		{"this one", "Deployment", int64(7), 2, 3},
		{"a later one, of an autoscaler", "Deployment", int64(9), 2, 3},
		{"a kind that does not report it", "Service", nil, 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := situation{kind: c.kind, logical: "live", copy: "Synced", physical: "old", edit: func(in *Input) {
				in.Applied = true
				in.Physical.SetGeneration(7)
				if c.observed != nil {
					in.Physical.Object["status"] = map[string]any{"observedGeneration": c.observed}
				}
				in.Copy.Status.AppliedGeneration, in.Copy.Status.ObservedGeneration, in.Copy.Status.PhysicalGeneration = 2, c.before, 5
			}}.input()
			actions := Plan(in)
			if len(actions) != 1 || actions[0].Verb != WriteCopy {
				t.Fatalf("unexpected plan: %s", describe(actions))
			}
			got := actions[0].Copy.Status
			if got.ObservedGeneration != c.want || got.AppliedGeneration != 3 || got.PhysicalGeneration != 7 {
				t.Errorf("got observed %d, applied %d, physical %d", got.ObservedGeneration, got.AppliedGeneration, got.PhysicalGeneration)
			}
		})
	}
}

func TestMessagesAreBoundedAndOnOneLine(t *testing.T) {
	in := situation{logical: "live", copy: "Pending", failure: &Failure{Reason: "Invalid", Message: "a\n\tb " + strings.Repeat("é", 900)}}.input()
	got := Plan(in)[0].Copy.Status.Message
	if len(got) > maxMessage || !strings.HasPrefix(got, "a b é") || !strings.HasSuffix(got, "...") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestAMarkThatCameFromAnOwnerIsNoMark(t *testing.T) {
	in := situation{kind: "Deployment", logical: "live", physical: "old"}.input()
	replicaSet := in.Physical.DeepCopy() // the controller copies labels and annotations
	replicaSet.SetName("thing-5d8c")
	if m, ok := MarkOf(kinds["ReplicaSet"].GroupResource(), replicaSet); ok {
		t.Errorf("taken for a copy: %+v", m)
	}
	if _, ok := MarkOf(kinds["Deployment"].GroupResource(), in.Physical); !ok {
		t.Error("a copy is not recognized")
	}
	in.ControlPlane = "another"
	in.Copy = &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{Object: placementv1alpha1.ObjectReference{UID: "old"}}}
	if got, want := describe(Plan(in)), "WriteCopy Failed/NotOurs"; got != want {
		t.Errorf("the copy of another control plane: %s", fmt.Sprint(got))
	}
}
