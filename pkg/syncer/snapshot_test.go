package syncer

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// snapping is the part of a place whose volumes are restored from snapshots.
type snapping struct {
	snaps *fleetv1alpha1.VolumeSnapshots
	// taken is the VolumeSnapshot, also where it is restored, and content what it is bound to.
	taken, content *unstructured.Unstructured
	// inBackend are the snapshots that the driver has made here and has not removed.
	inBackend int
}

const (
	restoredHere = `{"volume":{"from":"west","copied":true,"source":{},"snapshot":{"storageClass":"disks","driver":"disks.example.com","handle":"snap-1","restoreSize":"1Gi"}}}`
	draining     = `{"state":"Draining"}`
)

func declaredSnapshots() *fleetv1alpha1.VolumeSnapshots {
	return &fleetv1alpha1.VolumeSnapshots{VolumeSnapshotClass: "snaps", Image: "atoll-copy:1"}
}

func (w *place) lookAtSnapshot(in *Input) {
	if w.taken != nil && w.taken.GetName() == SnapshotOf(*in) {
		in.Volume.Snapshot = w.taken.DeepCopy()
	}
	if w.content != nil && w.content.GetName() == SnapshotContentOf(*in) {
		in.Volume.SnapshotContent = w.content.DeepCopy()
	}
}

func (w *place) makeSnapshot(obj *unstructured.Unstructured) bool {
	if obj.GetKind() != SnapshotKind.Kind && obj.GetKind() != ContentKind.Kind {
		return false
	}
	if v := w.copy.Status.Volume; v == nil || v.Snapshot == nil || v.Snapshot.Name != obj.GetName() {
		w.t.Errorf("a %s is made that nobody wrote down", obj.GetKind())
	}
	made := obj.DeepCopy()
	made.SetUID(types.UID("uid-" + obj.GetKind()))
	if obj.GetKind() == ContentKind.Kind {
		if text(field(obj.Object, "spec"), "deletionPolicy") != "Retain" || obj.GetNamespace() != "" {
			w.t.Error("what another physical cluster made would go with the content here")
		}
		w.content = made
		return true
	}
	w.taken = made
	return true
}

func (w *place) deleteSnapshot(a Action) bool {
	switch a.Object.GetKind() {
	case SnapshotKind.Kind:
		if a.UID != w.taken.GetUID() {
			w.t.Error("a VolumeSnapshot is removed without its UID")
		}
		w.taken = nil
		if w.content != nil && text(field(w.content.Object, "spec"), "deletionPolicy") == "Delete" {
			w.content = nil
			w.inBackend--
		}
	case ContentKind.Kind:
		if a.UID != w.content.GetUID() || text(field(w.content.Object, "spec"), "deletionPolicy") != "Retain" {
			w.t.Errorf("the content %v is removed", w.content)
		}
		w.content = nil
	default:
		return false
	}
	return true
}

// snapshots is what the controller of snapshots does, and the driver.
func (w *place) snapshots() {
	w.t.Helper()
	if w.taken == nil {
		w.t.Fatalf("there is no VolumeSnapshot: %v, it says %+v", w.did, w.copy.Status)
	}
	if w.content == nil {
		w.content = &unstructured.Unstructured{Object: map[string]any{"kind": ContentKind.Kind,
			"spec": map[string]any{"driver": "disks.example.com", "deletionPolicy": "Delete", "source": map[string]any{"volumeHandle": sharedHandle}, "volumeSnapshotRef": map[string]any{}}}}
		w.content.SetAnnotations(map[string]string{"snapshot.storage.kubernetes.io/deletion-secret-name": "password"})
		w.content.SetName("snapcontent-1")
		w.content.SetUID("content")
		w.content.Object["status"] = map[string]any{"snapshotHandle": "snap-1", "restoreSize": int64(1 << 30)}
		w.inBackend++
	}
	setNested(w.content.Object, string(w.taken.GetUID()), "spec", "volumeSnapshotRef", "uid")
	w.taken.Object["status"] = map[string]any{"readyToUse": true, "boundVolumeSnapshotContentName": w.content.GetName()}
}

// clone is a place that goes on by itself.
func (w *place) clone() *place {
	out := *w
	out.copy, out.did = w.copy.DeepCopy(), nil
	for _, obj := range []**unstructured.Unstructured{&out.claim, &out.taken, &out.content} {
		if *obj != nil {
			*obj = (*obj).DeepCopy()
		}
	}
	out.pv, out.helper = w.pv.DeepCopy(), w.helper.DeepCopy()
	return &out
}

// givenUp is a place whose volume is released, and whose snapshot is about to be made.
func givenUp(t *testing.T) *place {
	t.Helper()
	w := &place{t: t, entry: "{}", names: map[string]string{"disks": "premium"}, snapping: snapping{snaps: declaredSnapshots()}}
	w.run()
	w.other = `{"state":"Waiting"}`
	w.run()
	if v := w.copy.Status.Volume; v == nil || v.Content == nil || v.Content.Driver != "disks.example.com" || !v.Retained || v.Source != nil || w.taken != nil {
		t.Fatalf("before anything is stopped: %+v, VolumeSnapshot %v", v, w.taken)
	}
	w.entry, w.users = draining, []string{"pod db-0"}
	w.run()
	if w.taken != nil || w.copy.Status.Volume.Released {
		t.Fatalf("in use: %+v, VolumeSnapshot %v", w.copy.Status.Volume, w.taken)
	}
	w.users, w.did = nil, nil
	w.run()
	return w
}

func TestASnapshotIsMadeOnceNothingUsesTheVolume(t *testing.T) {
	w := givenUp(t)
	want := []string{"WriteCopy Synced", "MakeHelper", "WriteCopy Synced"}
	if diff := cmp.Diff(want, w.did); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if v := w.copy.Status.Volume; !v.Released || v.Content.Snapshot != nil || v.Snapshot == nil || v.Snapshot.Message != "it is not made yet" {
		t.Errorf("before it is ready: %+v, %+v", v, v.Snapshot)
	}
	if diff := cmp.Diff(map[string]any{"source": map[string]any{"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "snaps"}, w.taken.Object["spec"]); diff != "" || !metav1.IsControlledBy(w.taken, w.claim) {
		t.Errorf("the VolumeSnapshot (-want +got):\n%s", diff)
	}
	w.snapshots()
	w.run()
	got := w.copy.Status.Volume
	source := &placementv1alpha1.SnapshotSource{StorageClass: "disks", Driver: "disks.example.com", Handle: "snap-1", RestoreSize: ptr.To(resource.MustParse("1Gi"))}
	if diff := cmp.Diff(source, got.Content.Snapshot, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" || got.Snapshot.Message != "" {
		t.Errorf("%+v (-want +got):\n%s", got.Snapshot, diff)
	}
	if said, _ := json.Marshal(w.copy); strings.Contains(string(said), "password") {
		t.Errorf("it says what names Secrets: %s", said)
	}
	steady := len(w.did)
	if w.run(); len(w.did) != steady {
		t.Errorf("it does not rest: %v", w.did[steady:])
	}
	abandoned, used, left := w.clone(), w.clone(), w.clone()

	abandoned.entry, abandoned.other = "{}", ""
	abandoned.run()
	if v := abandoned.copy.Status.Volume; v.Released || v.Retained || v.Snapshot != nil || v.Content.Snapshot != nil || abandoned.taken != nil || abandoned.inBackend != 0 || abandoned.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("abandoned: %+v, %d snapshots, %v", v, abandoned.inBackend, abandoned.did)
	}
	// What was written after it is not in it.
	used.users = []string{"pod stray"}
	used.run()
	if v := used.copy.Status.Volume; v.Released || v.Content.Snapshot != nil || used.taken != nil || used.inBackend != 0 {
		t.Errorf("used again: %+v, %d snapshots", v, used.inBackend)
	}
	left.entry, left.other = `{"state":"Removing"}`, "{}"
	left.run()
	want = []string{"DeleteHelper", "WriteCopy Removing", "Delete", "WriteCopy Removed"}
	if diff := cmp.Diff(want, left.did); diff != "" || left.inBackend != 0 {
		t.Errorf("left with %d snapshots (-want +got):\n%s", left.inBackend, diff)
	}
	if left.pv == nil || left.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("the former volume is %+v", left.pv)
	}
}

func TestTheFormerVolumeOfASnapshotIsReclaimedIfAnAdminSaysSo(t *testing.T) {
	w := givenUp(t)
	w.snapshots()
	w.run()
	w.snaps.FormerVolume = fleetv1alpha1.FormerVolumeReclaim
	w.entry, w.other = `{"state":"Removing"}`, "{}"
	w.run()
	if w.claim != nil || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("claim %v, volume %+v", w.claim, w.pv)
	}
}

// What is not the snapshot of this volume, as it is declared, is not handed over.
func TestASnapshotIsHandedOverIfItIsTheOneThatIsMeant(t *testing.T) {
	for want, change := range map[string]func(w *place){
		"it is not ready to use yet": func(w *place) { setNested(w.taken.Object, false, "status", "readyToUse") },
		"the disk is full":           func(w *place) { setNested(w.taken.Object, "the disk is full", "status", "error", "message") },
		"the driver is away":         func(w *place) { setNested(w.content.Object, "the driver is away", "status", "error", "message") },
		"the class is not there": func(w *place) {
			setNested(w.taken.Object, map[string]any{"error": map[string]any{"message": "the class is not there"}}, "status")
			w.content = nil
		},
		"it is bound to a content that is not bound to it":                            func(w *place) { setNested(w.content.Object, "other", "spec", "volumeSnapshotRef", "uid") },
		"its content is one of another volume":                                        func(w *place) { setNested(w.content.Object, "other", "spec", "source", "volumeHandle") },
		"it is one of the driver evil.example.com, and disks.example.com is declared": func(w *place) { setNested(w.content.Object, "evil.example.com", "spec", "driver") },
		"it would stay in the backend: its content has the deletionPolicy Retain":     func(w *place) { setNested(w.content.Object, "Retain", "spec", "deletionPolicy") },
		"it needs a volume of 2Gi, and the claim asks for 1Gi":                        func(w *place) { setNested(w.content.Object, int64(2<<30), "status", "restoreSize") },
		"handle: Required value: the handle of the snapshot":                          func(w *place) { setNested(w.content.Object, "", "status", "snapshotHandle") },
		`handle: Too long: may not be more than 256 bytes`:                            func(w *place) { setNested(w.content.Object, strings.Repeat("x", 257), "status", "snapshotHandle") },
	} {
		w := givenUp(t)
		w.snapshots()
		change(w)
		w.run()
		if v := w.copy.Status.Volume; v.Content.Snapshot != nil || v.Snapshot == nil || v.Snapshot.Message != want {
			t.Errorf("%q: it says %+v and hands over %+v", want, v.Snapshot, v.Content.Snapshot)
		}
	}
}

// A claim that was deleted below, and made again, has other data.
func TestASnapshotOfTheClaimBeforeIsMadeAgain(t *testing.T) {
	w := givenUp(t)
	w.snapshots()
	w.run()
	w.claim.SetUID("replaced")
	w.pv.Spec.ClaimRef.UID = "replaced"
	w.run()
	if v := w.copy.Status.Volume; w.taken == nil || !metav1.IsControlledBy(w.taken, w.claim) || v.Content.Snapshot != nil {
		t.Errorf("VolumeSnapshot %v, it says %+v: %v", w.taken, v, w.did)
	}
}

func TestASnapshotOfSomebodyElseIsLeftAlone(t *testing.T) {
	w := givenUp(t)
	w.snapshots()
	w.taken.SetLabels(nil)
	w.did = nil
	w.run()
	if w.copy.Status.Reason != "SnapshotNotOurs" || w.taken == nil || w.copy.Status.Volume.Content.Snapshot != nil {
		t.Errorf("VolumeSnapshot %v, it says %+v: %v", w.taken, w.copy.Status, w.did)
	}
	r := &place{t: t, entry: restoredHere, other: draining, snapping: snapping{snaps: declaredSnapshots()}}
	r.content = &unstructured.Unstructured{Object: map[string]any{"kind": ContentKind.Kind, "spec": map[string]any{"source": map[string]any{"snapshotHandle": "snap-1"}}}}
	r.content.SetName(SnapshotName(controlPlane, "old"))
	r.run()
	if r.copy.Status.Reason != "SnapshotNotOurs" || r.claim != nil || r.taken != nil {
		t.Errorf("restored from the content of somebody else: claim %v, it says %+v", r.claim, r.copy.Status)
	}
}

func TestVolumesOfWhichNoSnapshotIsMadeSaySoBeforeAnythingIsStopped(t *testing.T) {
	for want, change := range map[string]func(*corev1.PersistentVolume){
		"":                    func(*corev1.PersistentVolume) {},
		"it is no CSI volume": func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil },
		"it is one of the driver other.example.com, and disks.example.com is declared": func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other.example.com" },
		"it has 2Gi, and its claim asks for 1Gi: have it ask for as much": func(pv *corev1.PersistentVolume) {
			pv.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
		},
	} {
		pv := diskVolume("a", corev1.PersistentVolumeReclaimDelete)
		change(pv)
		if c, why := SnapshottedOf(pv, "disks", "disks.example.com", resource.MustParse("1Gi")); why != want || (c != nil) != (want == "") {
			t.Errorf("%q: %+v, %q", want, c, why)
		}
	}
	w := &place{t: t, entry: "{}", names: map[string]string{"disks": "premium"}, snapping: snapping{snaps: declaredSnapshots()}}
	w.run()
	w.other = `{"state":"Waiting"}`
	in := w.input()
	if tried := Tried(in); tried == nil || tried.GroupVersionKind() != SnapshotKind || tried.GetNamespace() != "shop-web-1" {
		t.Errorf("tried is %v", tried)
	}
	in.Volume = Volume{Looked: true, Object: w.pv, Untaken: "trying it: the quota is used up"}
	var said *placementv1alpha1.CopyVolume
	for _, a := range Plan(in) {
		if a.Copy != nil {
			said = a.Copy.Status.Volume
		}
	}
	if said == nil {
		w.pv.Annotations[ReclaimPolicyAnnotation] = "Delete"
		w.pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		for _, a := range Plan(in) {
			if a.Copy != nil {
				said = a.Copy.Status.Volume
			}
		}
	}
	if said == nil || said.Content != nil || said.Reason != "what is made beside it would be refused: trying it: the quota is used up" {
		t.Errorf("it says %+v", said)
	}
}

// restoring is a place whose claim waits for its snapshot.
func restoring(t *testing.T) *place {
	t.Helper()
	w := &place{t: t, entry: restoredHere, other: draining, names: map[string]string{"disks": "premium"}, snapping: snapping{snaps: declaredSnapshots()}}
	w.run()
	return w
}

func TestAClaimIsRestoredAndCountsOnceItWasMounted(t *testing.T) {
	w := restoring(t)
	want := []string{"WriteCopy Pending", "MakeHelper", "WriteCopy Pending"}
	if diff := cmp.Diff(want, w.did); diff != "" || w.claim != nil {
		t.Errorf("claim %v, actions (-want +got):\n%s", w.claim, diff)
	}
	name := SnapshotName(controlPlane, "old")
	if diff := cmp.Diff(map[string]any{
		"driver": "disks.example.com", "deletionPolicy": "Retain", "sourceVolumeMode": "Filesystem", "volumeSnapshotClassName": "snaps",
		"source":            map[string]any{"snapshotHandle": "snap-1"},
		"volumeSnapshotRef": map[string]any{"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "namespace": "shop-web-1", "name": name},
	}, w.content.Object["spec"]); diff != "" {
		t.Errorf("the content (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"source": map[string]any{"volumeSnapshotContentName": name}, "volumeSnapshotClassName": "snaps"}, w.taken.Object["spec"]); diff != "" || w.copy.Status.Message != "it is not ready to use yet" {
		t.Errorf("it says %q, the VolumeSnapshot (-want +got):\n%s", w.copy.Status.Message, diff)
	}
	w.snapshots()
	w.run()
	source := map[string]any{"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}
	if diff := cmp.Diff(source, field(w.claim.Object, "spec")["dataSource"]); diff != "" {
		t.Fatalf("the claim is made from (-want +got):\n%s", diff)
	}
	if w.helper == nil || !w.helper.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly || w.helper.Spec.Containers[0].Args[0] != "mount" || w.copy.Status.Volume.Filled != nil {
		t.Fatalf("it is mounted by %+v, and says %+v", w.helper, w.copy.Status.Volume)
	}
	half := w.clone()
	w.says(corev1.PodRunning, "")
	if w.run(); w.copy.Status.Volume.Filled != nil || w.content == nil {
		t.Errorf("before it ended: %+v", w.copy.Status.Volume)
	}
	w.says(corev1.PodSucceeded, "")
	w.run()
	v := w.copy.Status.Volume
	if diff := cmp.Diff(&placementv1alpha1.VolumeFilled{From: "west", Snapshot: "snap-1"}, v.Filled); diff != "" || v.Helper != nil || v.Snapshot != nil || w.helper != nil || w.taken != nil || w.content != nil {
		t.Errorf("restored: %+v, VolumeSnapshot %v, content %v (-want +got):\n%s", v, w.taken, w.content, diff)
	}
	gone := w.clone()
	gone.claim = nil
	if gone.run(); gone.claim != nil || gone.copy.Status.Reason != "ClaimGone" {
		t.Errorf("the claim that was deleted is %v, and the copy says %+v", gone.claim, gone.copy.Status)
	}
	// It counts from now on, and stays what it was made from.
	w.entry, w.other = "{}", `{"state":"Removing"}`
	w.run()
	if v := w.copy.Status.Volume; v == nil || v.Filled != nil || v.Content == nil || w.copy.Status.State != placementv1alpha1.CopySynced || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("in the end: %+v, %s", v, w.pv.Spec.PersistentVolumeReclaimPolicy)
	}
	in := w.input()
	in.Settled = "" // as by who begins anew
	desired := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"dataSourceRef": map[string]any{}}}}
	planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: classifyPhysical(in)}.setSource(desired)
	if diff := cmp.Diff(map[string]any{"dataSource": source}, desired.Object["spec"]); diff != "" {
		t.Errorf("it is applied with (-want +got):\n%s", diff)
	}
	steady := len(w.did)
	if w.run(); len(w.did) != steady {
		t.Errorf("it does not rest: %v", w.did[steady:])
	}

	half.entry, half.other = strings.Replace(restoredHere, "{", `{"state":"Removing",`, 1), "{}"
	half.run()
	want = []string{"DeleteHelper", "WriteCopy Removing", "Delete", "WriteCopy Removed"}
	if diff := cmp.Diff(want, half.did); diff != "" || half.taken != nil || half.content != nil || half.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("taken back: VolumeSnapshot %v, content %v (-want +got):\n%s", half.taken, half.content, diff)
	}
}

// Somebody makes the claim between two looks, of another snapshot, or with another driver.
func TestAClaimThatWasNotRestoredDoesNotCount(t *testing.T) {
	for name, change := range map[string]func(w *place){
		"of another source": func(w *place) { setNested(w.claim.Object, "other", "spec", "dataSource", "name") },
		"of another driver": func(w *place) { w.pv.Spec.CSI.Driver = "other.example.com" },
		"of another handle": func(w *place) { setNested(w.content.Object, "other", "spec", "source", "snapshotHandle") },
		"of another claim":  func(w *place) { w.helper.OwnerReferences[0].UID = "other" },
	} {
		w := restoring(t)
		w.snapshots()
		w.run()
		w.says(corev1.PodSucceeded, "")
		change(w)
		w.run()
		if v := w.copy.Status.Volume; v != nil && v.Filled != nil {
			t.Errorf("%s: it counts: %+v", name, v)
		}
	}
	w := restoring(t)
	w.snapshots()
	w.run()
	w.says(corev1.PodSucceeded, "")
	if w.run(); w.copy.Status.Volume.Filled == nil {
		t.Error("VOID: the control does not count")
	}
}

// What an admin has not declared here is not made here, whatever the entry says.
func TestASnapshotIsRestoredOfTheDriverThatIsDeclaredHere(t *testing.T) {
	w := &place{t: t, entry: strings.Replace(restoredHere, "disks.example.com", "evil.example.com", 1), other: draining, snapping: snapping{snaps: declaredSnapshots()}}
	w.run()
	if w.copy.Status.Reason != "VolumeNotSnapshotted" || w.content != nil || w.taken != nil || w.claim != nil {
		t.Errorf("content %v, claim %v, it says %+v", w.content, w.claim, w.copy.Status)
	}
}

func TestThePodThatMountsNeedsNoMoreThanTheLevelRestrictedPermits(t *testing.T) {
	w := restoring(t)
	w.snapshots()
	w.run()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range evaluator.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}, &w.helper.ObjectMeta, &w.helper.Spec) {
		if !r.Allowed {
			t.Errorf("%s: %s", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
}

func TestAClaimStaysMadeFromWhatItWasMadeFrom(t *testing.T) {
	own := map[string]any{"apiGroup": SnapshotKind.Group, "kind": SnapshotKind.Kind, "name": SnapshotName(controlPlane, "old")}
	cloned := map[string]any{"kind": "PersistentVolumeClaim", "name": "golden"}
	claim := func(source map[string]any) *unstructured.Unstructured {
		obj := parse(t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop-web-1, uid: below}, spec: {}}")
		if source != nil {
			setNested(obj.Object, source, "spec", "dataSource")
		}
		return obj
	}
	for name, c := range map[string]struct {
		entry string
		below *unstructured.Unstructured
		want  map[string]any
	}{
		"made as its user wrote":  {"{}", nil, cloned},
		"handed over":             {handedOver, nil, cloned},
		"copied":                  {`{"volume":{"from":"west","copied":true}}`, nil, nil},
		"restored":                {restoredHere, nil, own},
		"was made as was written": {"{}", claim(cloned), cloned},
		"was copied":              {"{}", claim(nil), nil},
		"was restored":            {"{}", claim(own), own},
	} {
		w := &place{t: t, entry: c.entry, claim: c.below}
		in := w.input()
		p := planner{Input: in, logical: classifyLogical(in), copy: classifyCopy(in), physical: physicalNone}
		if c.below != nil {
			p.physical = physicalOurs
		}
		desired := claim(cloned)
		setNested(desired.Object, cloned, "spec", "dataSourceRef")
		p.setSource(desired)
		spec := field(desired.Object, "spec")
		if diff := cmp.Diff(c.want, field(spec, "dataSource")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if _, ref := spec["dataSourceRef"]; ref != cmp.Equal(c.want, cloned) {
			t.Errorf("%s: it has a reference: %v", name, ref)
		}
	}
}
