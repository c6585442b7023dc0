package syncer

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// place is a physical cluster with one claim, whose syncer is stopped after each action: it
// remembers nothing.
type place struct {
	t       *testing.T
	entry   string // of the targets
	other   string // that of another target; empty if there is none
	deleted bool   // the logical claim is
	copy    *placementv1alpha1.Copy
	claim   *unstructured.Unstructured
	claims  int // were made
	pv      *corev1.PersistentVolume
	users   []string
	did     []string
	said    []string // messages of copies
	// names are those that it has for storage classes.
	names map[string]string
	// copies: data of its class are copied, and helper is the pod that does it.
	copies *fleetv1alpha1.VolumeCopy
	helper *corev1.Pod
	snapping
}

const sharedHandle = "h"

func diskVolume(name string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1", Annotations: map[string]string{provisionedBy: "disks.example.com"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "disks", PersistentVolumeReclaimPolicy: policy, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: sharedHandle}},
		},
	}
}

func (w *place) input() Input {
	kind, _ := workload.Builtin().ByKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim").GroupKind())
	in := Input{
		Kinds: workload.Builtin(), Ref: Ref{Kind: kind, Cluster: "shop", Namespace: "web", Name: "data"}, Target: target, ControlPlane: controlPlane, Ruled: true,
		Namespace: Namespace{Name: "shop-web-1", State: NamespaceReady}, Copy: w.copy, Physical: w.claim,
		Permits: boundary.Permits{StorageClassNames: w.names},
		Classes: func(class string) fleetv1alpha1.ClassVolumes {
			if class != "disks" {
				w.t.Errorf("it asks for volumes of %s, which no claim of the logical cluster names", class)
			}
			if w.snaps != nil {
				return fleetv1alpha1.ClassVolumes{StorageClass: class, Strategy: fleetv1alpha1.VolumesSnapshot, Backend: "san", Driver: "disks.example.com", Snapshot: w.snaps}
			}
			if w.copies != nil {
				return fleetv1alpha1.ClassVolumes{StorageClass: class, Strategy: fleetv1alpha1.VolumesCopy, Copy: w.copies}
			}
			return fleetv1alpha1.ClassVolumes{StorageClass: class, Strategy: fleetv1alpha1.VolumesShared, Backend: "san", Driver: "disks.example.com"}
		},
	}
	targets := `{"east":` + w.entry
	if w.other != "" {
		targets += `,"west":` + w.other
	}
	if w.claim != nil {
		in.Settled = Fingerprint(w.claim)
	}
	in.Logical = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"spec": map[string]any{"storageClassName": "disks", "accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}}
	in.Logical.SetName("data")
	in.Logical.SetNamespace("web")
	in.Logical.SetUID("old")
	in.Logical.SetGeneration(1)
	in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: targets + "}"})
	if w.deleted {
		in.Logical.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
	}
	return in
}

// run does one action after the other, each in a process of its own, until there is none.
func (w *place) run() {
	if w.runFor(40) == 40 {
		w.t.Fatalf("no end: %v", w.did)
	}
}

// runFor does at most so many actions, and says how many there were.
func (w *place) runFor(most int) int {
	for n := range most {
		in := w.input()
		actions := Plan(in)
		for len(actions) > 0 && actions[0].Verb == LookAtVolume {
			if in.Volume.Looked {
				w.t.Fatal("it looks again and again")
			}
			in.Volume = Volume{Looked: true}
			if w.pv != nil && w.pv.Name == VolumeOf(in) {
				in.Volume.Object = w.pv.DeepCopy()
			}
			if w.helper != nil && w.helper.Name == HelperOf(in) {
				in.Volume.Helper = w.helper.DeepCopy()
			}
			if GivesVolumeUp(in) {
				in.Volume.Users = w.users
			}
			w.lookAtSnapshot(&in)
			actions = Plan(in)
		}
		if len(actions) == 0 || actions[0].Verb == Wait {
			return n
		}
		w.act(actions[0])
	}
	return most
}

func (w *place) act(a Action) {
	what := string(a.Verb)
	if a.Verb == WriteCopy {
		what += " " + a.Why
	}
	if len(w.did) == 0 || w.did[len(w.did)-1] != what {
		w.did = append(w.did, what)
	}
	switch a.Verb {
	case WriteCopy:
		w.copy = a.Copy
		w.said = append(w.said, a.Copy.Status.Message)
		if v := w.copy.Status.Volume; v != nil && v.Content != nil && v.Content.Snapshot != nil && !v.Released {
			w.t.Error("the snapshot of a volume that is used is handed over")
		}
	case MakeVolume:
		w.pv = &corev1.PersistentVolume{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(a.Object.Object, w.pv); err != nil {
			w.t.Fatal(err)
		}
		w.pv.UID, w.pv.ResourceVersion = "pv", "1"
		if w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			w.t.Error("a volume that is handed over would go with its claim")
		}
	case UpdateVolume:
		var patch struct {
			Metadata struct {
				Annotations map[string]*string `json:"annotations"`
			} `json:"metadata"`
			Spec struct {
				Policy   corev1.PersistentVolumeReclaimPolicy `json:"persistentVolumeReclaimPolicy"`
				ClaimRef map[string]any                       `json:"claimRef"`
			} `json:"spec"`
		}
		body, err := json.Marshal(a.Object.Object)
		if err == nil {
			err = json.Unmarshal(body, &patch)
		}
		if err != nil || a.Object.GetUID() != w.pv.UID || a.Object.GetResourceVersion() == "" {
			w.t.Fatalf("a patch without a precondition: %s (error %v)", body, err)
		}
		if patch.Spec.ClaimRef != nil {
			w.pv.Spec.ClaimRef.UID = ""
			return
		}
		w.pv.Spec.PersistentVolumeReclaimPolicy = patch.Spec.Policy
		for key, value := range patch.Metadata.Annotations {
			if delete(w.pv.Annotations, key); value != nil {
				w.pv.Annotations[key] = *value
			}
		}
	case DeleteVolume:
		if w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			w.t.Error("a volume is removed with its data")
		}
		w.pv = nil
	case Apply:
		if w.claim == nil {
			w.claim = a.Object.DeepCopy()
			w.claims++
			w.claim.SetUID(types.UID("claim-" + strconv.Itoa(w.claims)))
			w.bind()
			return
		}
		spec := w.claim.Object["spec"]
		uid := w.claim.GetUID()
		w.claim = a.Object.DeepCopy()
		w.claim.SetUID(uid)
		w.claim.Object["spec"] = spec
		w.claim.Object["status"] = map[string]any{"phase": "Bound"}
	case Delete:
		if w.helper != nil {
			w.t.Error("a claim is removed before the pod that mounts it")
		}
		if w.copies != nil || w.snaps != nil {
			if w.taken != nil || w.content != nil && w.content.GetLabels()[HelperLabel] != "" {
				w.t.Error("a claim is removed before its snapshot")
			}
			w.claim = nil
			return
		}
		if w.pv != nil && w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain && !w.deleted {
			w.t.Error("a claim takes its data along")
		}
		w.claim = nil
	case MakeHelper:
		if w.makeSnapshot(a.Object) {
			return
		}
		w.helper = &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(a.Object.Object, w.helper); err != nil {
			w.t.Fatal(err)
		}
		if w.claim == nil || w.copy.Status.Volume == nil || w.copy.Status.Volume.Helper == nil || w.copy.Status.Volume.Helper.Name != w.helper.Name {
			w.t.Error("a pod is made that nobody wrote down")
		}
		w.helper.UID = "helper"
	case DeleteHelper:
		if w.deleteSnapshot(a) {
			return
		}
		if a.UID != w.helper.UID {
			w.t.Errorf("a pod is removed without its UID")
		}
		w.helper = nil
	case Look:
	default:
		w.t.Fatalf("unexpected %s", a.Verb)
	}
}

// bind is what the controller of volumes does.
func (w *place) bind() {
	if w.pv == nil && w.snaps != nil {
		w.pv = diskVolume("fresh", corev1.PersistentVolumeReclaimDelete)
		w.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop-web-1", Name: "data"}
	}
	if w.pv == nil && w.copies != nil {
		w.pv = diskVolume("fresh", corev1.PersistentVolumeReclaimDelete)
		w.pv.Spec.CSI, w.pv.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/disk"}
		w.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop-web-1", Name: "data"}
	}
	if w.pv == nil {
		w.t.Fatal("a claim is made before its volume: it would get an empty one")
	}
	setNested(w.claim.Object, w.pv.Name, "spec", "volumeName")
	w.claim.Object["status"] = map[string]any{"phase": "Bound"}
	w.pv.Spec.ClaimRef.UID = w.claim.GetUID()
}

const handedOver = `{"volume":{"from":"west","source":{"storageClass":"disks","driver":"disks.example.com","handle":"h","capacity":"1Gi","accessModes":["ReadWriteOnce"],"reclaimPolicy":"Delete","provisioned":true}}}`

func TestAClaimGetsTheVolumeThatIsHandedOverBeforeItIsMade(t *testing.T) {
	w := &place{t: t, entry: handedOver, other: `{"state":"Draining"}`}
	w.run()
	want := []string{"WriteCopy Pending", "MakeVolume", "Apply", "WriteCopy Synced"}
	if got := slices.Compact(w.did); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if w.pv.Spec.CSI.VolumeHandle != sharedHandle || w.copy.Status.Volume.Source.Handle != sharedHandle || !w.copy.Status.Volume.Retained {
		t.Errorf("the volume is %+v, and the copy says %+v", w.pv.Spec, w.copy.Status.Volume)
	}
	// The other one is gone.
	w.entry, w.other = "{}", ""
	w.run()
	if p := w.pv.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimDelete || w.pv.Annotations[ReclaimPolicyAnnotation] != "" || w.pv.Annotations[provisionedBy] == "" {
		t.Errorf("in the end the reclaim policy is %s, annotations %v", p, w.pv.Annotations)
	}
	if w.copy.Status.Volume.Retained {
		t.Error("the copy says that the volume is kept")
	}
	steady := len(w.did)
	if w.run(); len(w.did) != steady {
		t.Errorf("it does not rest: %v", w.did[steady:])
	}
}

// settled is a place whose claim is bound to a volume of its own.
func settledPlace(t *testing.T) *place {
	w := &place{t: t, entry: handedOver, other: `{"state":"Draining"}`}
	w.run()
	w.entry, w.other = "{}", ""
	w.run()
	w.did = nil
	return w
}

func TestAVolumeIsGivenUpOnceItIsKeptAndNothingUsesIt(t *testing.T) {
	w := settledPlace(t)
	w.entry, w.other = "{}", `{"state":"Waiting"}`
	w.run()
	if v := w.copy.Status.Volume; !v.Retained || v.Released || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("before anything is stopped: %+v with the reclaim policy %s", v, w.pv.Spec.PersistentVolumeReclaimPolicy)
	}
	w.entry, w.other, w.users = `{"state":"Draining"}`, `{"state":"Waiting"}`, []string{"node far", "pod db-0"}
	w.run()
	if v := w.copy.Status.Volume; v.Released || !v.Retained || v.Reason != "it is used by node far, pod db-0" {
		t.Errorf("in use: %+v", v)
	}
	w.users = nil
	w.run()
	if v := w.copy.Status.Volume; !v.Released || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("%+v with the reclaim policy %s", v, w.pv.Spec.PersistentVolumeReclaimPolicy)
	}
	// Somebody deletes the claim: it comes back to its volume, and gives that up.
	gone := *w
	gone.claim, gone.copy, gone.pv = nil, w.copy.DeepCopy(), w.pv.DeepCopy()
	gone.run()
	if s := gone.copy.Status; gone.claim == nil || gone.pv.Spec.ClaimRef.UID != gone.claim.GetUID() || s.State != placementv1alpha1.CopySynced || !s.Volume.Released {
		t.Errorf("the claim that was deleted is %v, its volume that of %v, and the copy says %+v", gone.claim, gone.pv.Spec.ClaimRef, s)
	}
	// Its volume went, too: another one would be empty.
	gone.claim, gone.copy, gone.pv = nil, w.copy.DeepCopy(), nil
	gone.run()
	if gone.claim != nil || gone.copy.Status.Reason != "ClaimGone" {
		t.Errorf("the claim that was deleted is %v, and the copy says %+v", gone.claim, gone.copy.Status)
	}
	// Abandoned, it is as it was.
	back := *w
	back.pv, back.entry, back.other = w.pv.DeepCopy(), "{}", ""
	back.run()
	if v := back.copy.Status.Volume; v.Released || v.Retained || back.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("abandoned: %+v with the reclaim policy %s", v, back.pv.Spec.PersistentVolumeReclaimPolicy)
	}
	// Else the claim and the volume go, and the data stay.
	w.did = nil
	w.entry, w.other = `{"state":"Removing"}`, handedOver
	w.run()
	if w.claim != nil || w.pv != nil || w.copy.Status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("left: claim %v, volume %v, copy %s: %v", w.claim, w.pv, w.copy.Status.State, w.did)
	}
}

// Whatever removed a claim that was only to go elsewhere: its data stay, also if nobody came to give the volume up.
func TestARemovalForAMoveKeepsTheData(t *testing.T) {
	w := settledPlace(t)
	w.entry, w.other = `{"state":"Removing"}`, "{}"
	w.run()
	want := []string{"WriteCopy Synced", "UpdateVolume", "WriteCopy Removing", "Delete", "DeleteVolume", "WriteCopy Removed"}
	if diff := cmp.Diff(want, w.did); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestAClaimThatItsUserDeletesTakesItsVolumeAlong(t *testing.T) {
	w := settledPlace(t)
	w.deleted = true
	w.run()
	if w.claim != nil || w.pv == nil || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("claim %v, volume %+v: the controller of volumes removes it by its policy", w.claim, w.pv)
	}
}

func TestAVolumeOfSomebodyElseIsNotTaken(t *testing.T) {
	w := &place{t: t, entry: handedOver, other: `{"state":"Draining"}`}
	w.pv = diskVolume(VolumeName(controlPlane, "old"), corev1.PersistentVolumeReclaimDelete)
	w.pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop-web-1", Name: "data"}
	w.run()
	if w.claim != nil || w.copy.Status.State != placementv1alpha1.CopyFailed || w.copy.Status.Reason != "VolumeNotOurs" {
		t.Errorf("claim %v, copy %+v", w.claim, w.copy.Status)
	}
}

func TestVolumesThatNeedWhatIsOfOnePhysicalClusterAreNotHandedOver(t *testing.T) {
	for want, change := range map[string]func(*corev1.PersistentVolume){
		"":                    func(*corev1.PersistentVolume) {},
		"it is no CSI volume": func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil },
		"it names Secrets of its physical cluster": func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "kube-system", Name: "admin"}
		},
		"only some nodes reach it":                        func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} },
		"it has mount options":                            func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"suid"} },
		"its reclaim policy is neither Delete nor Retain": func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = "Recycle" },
		"it has attributes that spec.volumes of the PhysicalCluster does not name, and that may be secret: password": func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.VolumeAttributes = map[string]string{"pool": "fast", "password": "secret", "storage.kubernetes.io/csiProvisionerIdentity": "1"}
		},
		"handle: Too long": func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = strings.Repeat("x", 300) },
	} {
		pv := diskVolume("a", corev1.PersistentVolumeReclaimDelete)
		change(pv)
		s, why := SourceOf(pv, "disks", []string{"pool"})
		if (want == "") != (s != nil) || !strings.HasPrefix(why, want) {
			t.Errorf("%q: %+v, %q", want, s, why)
		}
	}
}

// West made the volume, east has it, too, and is the place.
func TestAVolumeOnSeveralTargetsIsKeptUntilOneIsLeft(t *testing.T) {
	w := &place{t: t, entry: handedOver, other: `{}`}
	w.run()
	kept := func(when string) {
		t.Helper()
		if v := w.copy.Status.Volume; w.pv == nil || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || !v.Retained {
			t.Errorf("%s: %+v, and the copy says %+v", when, w.pv, v)
		}
	}
	kept("on both")
	// Somebody deletes the claim: the next one gets the same volume.
	w.claim, w.did = nil, nil
	w.run()
	if w.claim == nil || w.claims != 2 || w.pv.Spec.ClaimRef.UID != w.claim.GetUID() || !slices.Contains(w.did, "UpdateVolume") {
		t.Errorf("the claim that is made again is %v with %+v: %v", w.claim, w.pv.Spec.ClaimRef, w.did)
	}
	w.other = `{"state":"Removing"}`
	w.run()
	kept("while west is left")
	w.other = strings.Replace(handedOver, `"west"`, `"north"`, 1)
	w.run()
	kept("with another one")
	w.entry = `{}`
	w.run()
	kept("by one that got it from elsewhere")
	w.entry, w.other = `{}`, `{"state":"Waiting"}`
	w.run()
	kept("while another one waits")
	// A server that was restored from a backup of before knows nobody else, and not that it was kept: the others have it.
	for _, deleted := range []bool{false, true} {
		forgot := *w
		forgot.entry, forgot.other, forgot.deleted = "{}", "", deleted
		forgot.pv, forgot.claim, forgot.copy = w.pv.DeepCopy(), w.claim.DeepCopy(), w.copy.DeepCopy()
		forgot.copy.Status.Volume.Retained, forgot.copy.Status.Volume.Source = false, nil // it was not looked at yet
		forgot.run()
		if p := forgot.pv.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimRetain || Retains(forgot.copy) {
			t.Errorf("deleted %t, of a server that has forgotten it: %s, %+v", deleted, p, forgot.copy.Status.Volume)
		}
	}
	w.entry, w.other = `{}`, ""
	w.run()
	if p := w.pv.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimDelete || w.pv.Annotations[ReclaimPolicyAnnotation] != "" {
		t.Errorf("alone: %s, %v", p, w.pv.Annotations)
	}
}

// Pods use a claim that somebody deletes: it is there for as long as they are, and takes its data along when they end.
func TestTheVolumeOfAClaimThatIsDeletedOnTheWayIsKept(t *testing.T) {
	w := settledPlace(t)
	w.claim.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
	w.run()
	if p := w.pv.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("at rest: %s", p)
	}
	w.entry, w.other = "{}", `{"state":"Waiting"}`
	w.run()
	if s := w.copy.Status; w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || s.Reason != "Terminating" || !s.Volume.Retained {
		t.Errorf("on the way: %s, %+v", w.pv.Spec.PersistentVolumeReclaimPolicy, s)
	}
	w.entry, w.claim = `{"state":"Draining"}`, nil
	w.run()
	if w.claim == nil || !w.copy.Status.Volume.Released {
		t.Errorf("claim %v, copy %+v", w.claim, w.copy.Status)
	}
}

// A move is begun and taken back: whenever the syncer ends in between, the next one leaves the volume as it was, or, if
// somebody deleted the claim, gives it to the one that is made again.
func TestAVolumeThatWasToBeKeptIsAsItWasAgain(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for steps, more := 0, true; more; steps++ {
			w := settledPlace(t)
			w.other = `{"state":"Waiting"}`
			more = w.runFor(steps) == steps
			policy := w.pv.Spec.PersistentVolumeReclaimPolicy
			if v := w.copy.Status.Volume; policy == corev1.PersistentVolumeReclaimRetain && !v.Retaining && !v.Retained {
				t.Errorf("after %v the volume is kept, and the copy says %+v", w.did, v)
			}
			kept := policy == corev1.PersistentVolumeReclaimRetain
			if lost && !kept {
				continue // it goes with its claim
			}
			if lost {
				w.claim = nil
			}
			w.other = ""
			w.run()
			if p := w.pv.Spec.PersistentVolumeReclaimPolicy; p != corev1.PersistentVolumeReclaimDelete || w.pv.Annotations[ReclaimPolicyAnnotation] != "" || Retains(w.copy) {
				t.Errorf("%d steps, lost %t: %s, %v, and the copy says %+v: %v", steps, lost, p, w.pv.Annotations, w.copy.Status.Volume, w.did)
			}
			if made := w.claims - 1; w.claim == nil || (made == 1) != lost || w.pv.Spec.ClaimRef.UID != w.claim.GetUID() {
				t.Errorf("%d steps, lost %t: the claim is %v, and the volume has %+v: %v", steps, lost, w.claim, w.pv.Spec.ClaimRef, w.did)
			}
			if slices.ContainsFunc(w.said, func(m string) bool { return strings.Contains(m, "its new volume is empty") }) {
				t.Errorf("%d steps, lost %t: it says %q", steps, lost, w.said)
			}
			if steps > 10 {
				t.Fatalf("no end: %v", w.did)
			}
		}
	}
}

// East was emptied, and west has what east made.
func TestWhoLostAVolumeThatOthersHaveMakesNoOther(t *testing.T) {
	w := settledPlace(t)
	w.entry, w.other = `{}`, handedOver
	w.run()
	w.claim, w.pv = nil, nil
	w.run()
	if w.claim != nil || w.copy.Status.Reason != "ClaimGone" || !strings.Contains(w.copy.Status.Message, "west") {
		t.Errorf("the claim is %v, and the copy says %+v", w.claim, w.copy.Status)
	}
	// It leaves, and comes back.
	w.entry = `{"state":"Removing"}`
	w.run()
	if w.copy.Status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("the copy says %+v", w.copy.Status)
	}
	w.entry, w.other, w.copy = handedOver, handedOver, nil
	w.run()
	if w.claim == nil || w.pv == nil || w.pv.Spec.CSI.VolumeHandle == "" {
		t.Errorf("the claim is %v with %v", w.claim, w.pv)
	}
}

// East made the volume that west has, too, and is restored from a backup of before: the data are not its own alone, and a
// claim that it makes again would have others.
func TestWhoMadeTheVolumeOfSeveralMakesNoEmptyOne(t *testing.T) {
	w := settledPlace(t)
	w.entry, w.other = `{}`, strings.Replace(handedOver, `"west"`, `"east"`, 1)
	w.run()
	w.pv = nil
	w.run() // the claim is seen a moment longer, and says of no volume what it is
	w.claim, w.did = nil, nil
	w.run()
	if s := w.copy.Status; w.claim != nil || s.State != placementv1alpha1.CopyFailed || s.Reason != "ClaimGone" || !strings.Contains(s.Message, "which west has") || !s.Volume.Retained {
		t.Errorf("claim %v, copy %+v: %v", w.claim, s, w.did)
	}
	// It leaves, and comes again.
	w.entry, w.users = `{"state":"Draining"}`, []string{"node far"}
	w.run()
	if v := w.copy.Status.Volume; v.Released || v.Reason != "it is used by node far" {
		t.Errorf("in use: %+v", v)
	}
	w.users = nil
	w.run()
	if v := w.copy.Status.Volume; !v.Released || w.claim != nil {
		t.Errorf("given up: %+v, claim %v", v, w.claim)
	}
	w.entry = `{}`
	w.run()
	if v := w.copy.Status.Volume; v.Released {
		t.Errorf("taken back: %+v", v)
	}
	w.entry = `{"state":"Removing"}`
	w.run()
	if w.copy.Status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("left: copy %+v: %v", w.copy.Status, w.did)
	}
	w.copy, w.entry, w.other = nil, handedOver, handedOver
	w.run()
	if w.claim == nil || w.pv.Spec.CSI.VolumeHandle != sharedHandle || w.copy.Status.State != placementv1alpha1.CopySynced {
		t.Errorf("came again: claim %v, volume %v, copy %+v: %v", w.claim, w.pv, w.copy.Status, w.did)
	}
}

// East has what west made, and goes.
func TestWhoLeavesAVolumeToOthersKeepsTheData(t *testing.T) {
	w := &place{t: t, entry: handedOver, other: `{}`}
	w.run()
	w.entry = strings.TrimSuffix(handedOver, "}") + `,"state":"Removing"}`
	w.run()
	if w.claim != nil || w.pv != nil || w.copy.Status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("left: claim %v, volume %v, copy %+v: %v", w.claim, w.pv, w.copy.Status, w.did)
	}
	// And who made it, for others.
	w = settledPlace(t)
	w.entry, w.other = `{}`, strings.Replace(handedOver, `"west"`, `"east"`, 1)
	w.run()
	w.entry = `{"state":"Removing"}`
	w.run()
	if w.claim != nil || w.pv != nil || w.copy.Status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("left by who made it: claim %v, volume %v, copy %+v: %v", w.claim, w.pv, w.copy.Status, w.did)
	}
}

func TestOfADeletedClaimTheLastCopyTakesTheDataAlong(t *testing.T) {
	// East got the volume: its object goes, and the data stay.
	w := &place{t: t, entry: handedOver, other: `{}`}
	w.run()
	w.deleted = true
	w.run()
	if w.claim != nil || w.pv != nil || w.copy.Status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("the first one: claim %v, volume %v, copy %+v: %v", w.claim, w.pv, w.copy.Status, w.did)
	}
	// East made it: it waits, and then the reclaim policy is the one of before.
	w = settledPlace(t)
	w.entry, w.other = `{}`, strings.Replace(handedOver, `"west"`, `"east"`, 1)
	w.run()
	w.deleted = true
	w.run()
	if s := w.copy.Status; w.claim == nil || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || s.State != placementv1alpha1.CopyRemoving || s.Reason != "VolumeElsewhere" ||
		s.Message != "it goes after its copies on west, which have the same volume" {
		t.Errorf("it does not wait for the other one: claim %v, volume %+v, copy %+v: %v", w.claim, w.pv.Spec, s, w.did)
	}
	w.other = ""
	w.run()
	if w.claim != nil || w.pv == nil || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || w.copy.Status.State != placementv1alpha1.CopyRemoved {
		t.Errorf("the last one: claim %v, volume %+v, copy %+v: %v", w.claim, w.pv, w.copy.Status, w.did)
	}
	// East is left of two that got it elsewhere, and the first by name.
	w = &place{t: t, entry: strings.Replace(handedOver, `"west"`, `"north"`, 1), other: strings.Replace(handedOver, `"west"`, `"north"`, 1)}
	w.run()
	w.deleted = true
	w.run()
	if w.claim == nil {
		t.Error("both go at a time")
	}
	w.other = ""
	w.run()
	if w.claim != nil || w.pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("the last of those that got it: claim %v, volume %+v: %v", w.claim, w.pv.Spec, w.did)
	}
}
