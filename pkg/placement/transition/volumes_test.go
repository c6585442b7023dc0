package transition

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

const (
	handingOver = placementv1alpha1.TransitionHandingOver
	clearing    = placementv1alpha1.TransitionClearing
)

// claim is one with what its Copies say of its volume: "east: Synced {...}", and then a handle,
// "released" with "!", or nothing.
func claim(targets string, copies map[string]string, handles map[string]string) Object {
	var texts []string
	for name, text := range copies {
		texts = append(texts, name+": "+text)
	}
	o := object(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "data", targets, nil, texts...)
	for name, handle := range handles {
		handle, released := strings.CutSuffix(handle, "!")
		o.Copies[name].Status.Volume = &placementv1alpha1.CopyVolume{Released: released, Reason: "it is used by pod db-0", Source: &placementv1alpha1.VolumeSource{Handle: handle}}
	}
	return o
}

// A unit goes from east to west.
func TestAVolumeIsHandedOverWhenNothingUsesItAndClearedWhenItIsThere(t *testing.T) {
	const bound = `Synced {"phase":"Bound"}`
	on := func(east, west string) string {
		return `{"east":{"state":"` + east + `"},"west":{"state":"` + west + `"}}`
	}
	db := func(targets string) Object { return object(sets, "db", targets, nil) }
	held := claim(on("Draining", "Waiting"), map[string]string{"east": bound}, map[string]string{"east": "h"})
	free := claim(on("Draining", "Waiting"), map[string]string{"east": bound}, map[string]string{"east": "h!"})
	both := func(west, handle string) Object {
		return claim(on("Draining", ""), map[string]string{"east": bound, "west": west}, map[string]string{"east": "h!", "west": handle})
	}
	refused := free
	refused.NoVolume = "another claim has the same volume"
	known := claim(`{"east":{},"west":{"state":"Waiting"}}`, map[string]string{"east": bound}, map[string]string{"east": "h"})
	stale := claim(`{"east":{},"west":{"state":"Waiting"}}`, map[string]string{"east": bound}, map[string]string{"east": "h!"})
	unknown := known
	unknown.NoVolume = "its volume is not known yet"
	for _, c := range []struct {
		name    string
		phase   placementv1alpha1.TransitionPhase
		objects []Object
		want    placementv1alpha1.TransitionPhase
		done    bool
		waits   string
	}{
		{"nothing is stopped before the volume is known", starting, []Object{unknown}, starting, false, "PersistentVolumeClaim data on east: its volume is not known yet"},
		{"what an earlier move said is no answer", starting, []Object{stale}, starting, false, "PersistentVolumeClaim data on east: what was said of its volume in an earlier move has to be taken back first"},
		{"then it is", starting, []Object{known}, draining, false, ""},
		{"what mounts it is there", removing, []Object{free, db(on("Removing", "Waiting"))}, removing, false, "1 object is not gone from east"},
		{"it is used", removing, []Object{held, db(`{"west":{"state":"Waiting"}}`)}, removing, false, "PersistentVolumeClaim data on east: its volume is not released yet: it is used by pod db-0"},
		{"nothing uses it, and the namespace holds it", removing, []Object{free, db(`{"west":{"state":"Waiting"}}`),
			object(schema.GroupKind{Kind: "Namespace"}, "shop", on("Removing", ""), nil)}, handingOver, false, ""},
		{"a pod that nobody controls goes with the namespace", removing, []Object{free, object(schema.GroupKind{Kind: "Pod"}, "left", `{"east":{"state":"Observed"}}`, nil),
			object(schema.GroupKind{Kind: "Namespace"}, "shop", on("Removing", ""), nil)}, handingOver, false, ""},
		{"a claim does not", removing, []Object{free, object(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "late", `{"east":{"state":"Observed"}}`, nil)}, removing, false, "1 object is not gone from east"},
		{"it is left as long as that is there", clearing, []Object{object(schema.GroupKind{Kind: "Pod"}, "left", `{"east":{"state":"Observed"}}`, nil),
			object(schema.GroupKind{Kind: "Namespace"}, "shop", on("Removing", ""), nil)}, clearing, false, "2 objects are not gone from east"},
		{"no claims", removing, []Object{db(`{"west":{}}`)}, removing, true, ""},
		{"it is not given", handingOver, []Object{refused}, handingOver, false, "PersistentVolumeClaim data on west: another claim has the same volume"},
		{"there is no copy yet", handingOver, []Object{claim(on("Draining", ""), map[string]string{"east": bound}, nil)}, handingOver, false, "PersistentVolumeClaim data on west: its volume is not bound yet: there is no copy yet"},
		{"it is not bound", handingOver, []Object{both(`Synced {"phase":"Pending"}`, "h")}, handingOver, false, "PersistentVolumeClaim data on west: its volume is not bound yet: it is not in place yet"},
		{"it is bound to another one", handingOver, []Object{both(bound, "other")}, handingOver, false, "PersistentVolumeClaim data on west: it is bound to another volume than on east"},
		{"it is bound", handingOver, []Object{both(bound, "h")}, clearing, false, ""},
		{"its user deleted it", handingOver, []Object{db(`{"west":{"state":"Waiting"}}`)}, clearing, false, ""},
		{"what is left goes", clearing, []Object{claim(on("Removing", ""), nil, nil)}, clearing, false, "1 object is not gone from east"},
		{"only the namespace is left, and its deletion has begun", clearing, []Object{claim(`{"west":{}}`, nil, nil), terminating(on("Removing", ""))}, clearing, true, ""},
		{"nothing is left", clearing, []Object{claim(`{"west":{}}`, nil, nil)}, clearing, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) { expectNext(t, c.phase, c.objects, c.want, c.done, c.waits) })
	}
}

// expectNext expects what follows on a phase of a move from east to west, and what it waits for.
func expectNext(t *testing.T, phase placementv1alpha1.TransitionPhase, objects []Object, want placementv1alpha1.TransitionPhase, done bool, waits string) {
	t.Helper()
	transition := &placementv1alpha1.Transition{Phase: phase, Since: metav1.NewTime(noon), From: []string{"east"}, To: []string{"west"}}
	step := Next(transition, State{Decided: []string{"west"}, Objects: objects, Now: noon})
	if step.Phase != want || step.Done != done {
		t.Errorf("%s, done %v; want %s, %v", step.Phase, step.Done, want, done)
	}
	if diff := cmp.Diff(waits, strings.Join(step.Waits, "; ")); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// A claim is restored on west from a snapshot that was made on east.
func TestWhatIsRestoredCountsWhenItIsTheSnapshotThatIsThereAndWasMounted(t *testing.T) {
	const bound = `Synced {"phase":"Bound"}`
	const restoring = `{"east":{"state":"Draining"},"west":{"volume":{"from":"east","copied":true,"snapshot":{"storageClass":"disks","driver":"d","handle":"s"}}}}`
	made := func(handle string) *placementv1alpha1.CopyVolume {
		v := &placementv1alpha1.CopyVolume{Released: true, Content: &placementv1alpha1.VolumeContent{Driver: "d"}, Snapshot: &placementv1alpha1.VolumeSnapshot{Name: "snap", Message: "the disk is full"}}
		if handle != "" {
			v.Content.Snapshot, v.Snapshot.Message = &placementv1alpha1.SnapshotSource{Handle: handle}, ""
		}
		return v
	}
	filled := func(handle string) *placementv1alpha1.CopyVolume {
		return &placementv1alpha1.CopyVolume{Filled: &placementv1alpha1.VolumeFilled{From: "east", Snapshot: handle}}
	}
	with := func(targets, state string, east, west *placementv1alpha1.CopyVolume) Object {
		o := claim(targets, map[string]string{"east": bound, "west": state}, nil)
		o.Copies["east"].Status.Volume, o.Copies["west"].Status.Volume = east, west
		return o
	}
	remains := filled("s")
	remains.Snapshot = &placementv1alpha1.VolumeSnapshot{Name: "snap"}
	used := made("s")
	used.Released, used.Reason = false, "it is used by pod x"
	const on = "PersistentVolumeClaim data on "
	for _, c := range []struct {
		name   string
		phase  placementv1alpha1.TransitionPhase
		object Object
		want   placementv1alpha1.TransitionPhase
		waits  string
	}{
		{"what an earlier move made goes first", starting, with(`{"east":{},"west":{"state":"Waiting"}}`, bound, &placementv1alpha1.CopyVolume{Snapshot: &placementv1alpha1.VolumeSnapshot{Name: "snap"}}, nil), starting,
			on + "east: what was said of its volume in an earlier move has to be taken back first"},
		{"it is not made", removing, with(`{"east":{"state":"Draining"},"west":{"state":"Waiting"}}`, bound, made(""), nil), removing, on + "east: its snapshot is not there yet: VolumeSnapshot snap: the disk is full"},
		{"it is made", removing, with(`{"east":{"state":"Draining"},"west":{"state":"Waiting"}}`, bound, made("s"), nil), handingOver, ""},
		{"it is not ready there", handingOver, with(restoring, "Pending", made("s"), &placementv1alpha1.CopyVolume{Snapshot: &placementv1alpha1.VolumeSnapshot{Name: "snap", Message: "no such handle"}}), handingOver,
			on + "west: its volume is not bound yet: VolumeSnapshot snap: no such handle"},
		{"no pod mounts it", handingOver, with(restoring, bound, made("s"), &placementv1alpha1.CopyVolume{Helper: &placementv1alpha1.VolumeHelper{Name: "mounts", Message: "ImagePullBackOff"}}), handingOver,
			on + "west: it is not restored yet: the pod mounts: ImagePullBackOff"},
		{"it is bound, and nobody says more", handingOver, with(restoring, bound, made("s"), &placementv1alpha1.CopyVolume{}), handingOver, on + "west: it is not restored yet: it is not in place yet"},
		{"it is filled by a copy", handingOver, with(restoring, bound, made("s"), &placementv1alpha1.CopyVolume{Filled: &placementv1alpha1.VolumeFilled{From: "east", Digest: "d"}}), handingOver,
			on + "west: it is not restored yet: it is not in place yet"},
		{"it is restored from another one", handingOver, with(restoring, bound, made("s"), filled("t")), handingOver, on + "west: it is not restored yet: it is not in place yet"},
		{"the snapshot is still there", handingOver, with(restoring, bound, made("s"), remains), handingOver, on + "west: the pod that mounted its volume, or the snapshot there, is not gone"},
		{"the volume was used since", handingOver, with(restoring, bound, used, filled("s")), handingOver, on + "west: its volume on east is used again, or not known not to be"},
		{"another one was made since", handingOver, with(restoring, bound, made("t"), filled("s")), handingOver,
			on + "west: the snapshot that was handed over is not there any more on east; take the move back to have another one made"},
		{"it is gone", handingOver, with(restoring, bound, made(""), filled("s")), handingOver,
			on + "west: the snapshot that was handed over is not there any more on east; take the move back to have another one made"},
		{"it is restored", handingOver, with(restoring, bound, made("s"), filled("s")), clearing, ""},
		{"half of it does not move on", starting, with(`{"east":{"volume":{"from":"north","copied":true,"snapshot":{"handle":"s"}}},"west":{"state":"Waiting"}}`, bound, &placementv1alpha1.CopyVolume{}, nil), starting,
			on + "east: not all of its data were copied from north"},
	} {
		t.Run(c.name, func(t *testing.T) { expectNext(t, c.phase, []Object{c.object}, c.want, false, c.waits) })
	}
}

// The data of a claim are copied from east to west.
func TestWhatUsesACopyBeginsWhenAllOfItIsThere(t *testing.T) {
	const bound = `Synced {"phase":"Bound"}`
	const filling = `{"east":{"state":"Draining"},"west":{"volume":{"from":"east","copied":true}}}`
	ready := &placementv1alpha1.VolumeHelper{Name: "copier", Ready: true}
	filled := &placementv1alpha1.VolumeFilled{From: "east"}
	with := func(targets string, east, west *placementv1alpha1.CopyVolume, transfer *placementv1alpha1.CopyTransfer) Object {
		o := claim(targets, map[string]string{"east": bound, "west": bound}, nil)
		o.Copies["east"].Status.Volume, o.Copies["west"].Status.Volume, o.Copies["west"].Status.Transfer = east, west, transfer
		return o
	}
	reads := &placementv1alpha1.CopyVolume{Released: true, Helper: ready}
	for _, c := range []struct {
		name   string
		phase  placementv1alpha1.TransitionPhase
		object Object
		want   placementv1alpha1.TransitionPhase
		waits  string
	}{
		{"nothing is known", handingOver, with(filling, reads, nil, nil), handingOver, "PersistentVolumeClaim data on west: its data are not copied yet: it is not in place yet"},
		{"its pod cannot begin", handingOver, with(filling, reads, &placementv1alpha1.CopyVolume{Helper: &placementv1alpha1.VolumeHelper{Name: "copier", Message: "ImagePullBackOff"}}, nil), handingOver,
			"PersistentVolumeClaim data on west: its data are not copied yet: the pod copier: ImagePullBackOff"},
		{"nor that where they are", handingOver, with(filling, &placementv1alpha1.CopyVolume{Released: true, Helper: &placementv1alpha1.VolumeHelper{Name: "copier"}}, &placementv1alpha1.CopyVolume{Helper: ready}, nil), handingOver,
			"PersistentVolumeClaim data on west: its data are not copied yet: on east, the pod copier is not ready yet"},
		{"they come", handingOver, with(filling, reads, &placementv1alpha1.CopyVolume{Helper: ready}, &placementv1alpha1.CopyTransfer{From: "east", Bytes: 7, Attempts: 2, Message: "no space"}), handingOver,
			"PersistentVolumeClaim data on west: its data are being copied: 7 bytes in attempt 2; before it, no space"},
		{"the pod is still there", handingOver, with(filling, reads, &placementv1alpha1.CopyVolume{Helper: ready, Filled: filled}, nil), handingOver, "PersistentVolumeClaim data on west: the pod that filled its volume has not ended"},
		{"from elsewhere", handingOver, with(filling, reads, &placementv1alpha1.CopyVolume{Filled: &placementv1alpha1.VolumeFilled{From: "north"}}, nil), handingOver,
			"PersistentVolumeClaim data on west: its data are not copied yet: it is not in place yet"},
		{"it is used where it is read", handingOver, with(filling, &placementv1alpha1.CopyVolume{Reason: "it is used by pod x"}, &placementv1alpha1.CopyVolume{Filled: filled}, nil), handingOver,
			"PersistentVolumeClaim data on west: its volume on east is used again, or not known not to be"},
		{"all came", handingOver, with(filling, reads, &placementv1alpha1.CopyVolume{Filled: filled}, nil), clearing, ""},
		{"where they were was given up before", handingOver, with(`{"west":{"volume":{"from":"east","copied":true}}}`, nil, &placementv1alpha1.CopyVolume{Helper: ready}, nil), handingOver,
			"PersistentVolumeClaim data on west: not all of its data were copied from east, where nothing is left of it; delete the claim to go on without them"},
		{"where they were was given up after it", handingOver, with(`{"west":{"volume":{"from":"east","copied":true}}}`, nil, &placementv1alpha1.CopyVolume{Filled: filled}, nil), clearing, ""},
		{"half a copy does not move on", starting, with(`{"east":{"volume":{"from":"north","copied":true}},"west":{"state":"Waiting"}}`, &placementv1alpha1.CopyVolume{}, nil, nil), starting,
			"PersistentVolumeClaim data on east: not all of its data were copied from north"},
	} {
		t.Run(c.name, func(t *testing.T) { expectNext(t, c.phase, []Object{c.object}, c.want, false, c.waits) })
	}
	if filling := with(filling, reads, nil, nil); !(State{Objects: []Object{filling}}).Filling() || (State{Objects: []Object{with(`{"west":{}}`, nil, nil, nil)}}).Filling() {
		t.Error("it is not known what is being filled")
	}
}

func TestAClaimIsHandedOverToOnePlace(t *testing.T) {
	pc := &fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Volumes: []fleetv1alpha1.ClassVolumes{
		{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesShared, Backend: "san", Driver: "d"}}}}
	fleet := func(string) *fleetv1alpha1.PhysicalCluster { return pc }
	holders := func(placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy { return nil }
	waits := claim(`{"east":{},"west":{"state":"Waiting"}}`, map[string]string{"east": "Synced"}, map[string]string{"east": "h"})
	waits.Copies["east"].Status.Volume.Source.StorageClass, waits.Copies["east"].Status.Volume.Source.Driver = "disks", "d"
	waits.Copies["east"].Status.Volume.Retained = true
	for _, c := range []struct {
		name   string
		object Object
		unit   stamp.Unit
		from   string
		why    string
	}{
		{"it moves", waits, stamp.Unit{"east": stamp.PartHandsOver, "west": stamp.PartStays}, "east", ""},
		{"to two places", waits, stamp.Unit{"east": stamp.PartHandsOver, "west": stamp.PartStays, "north": stamp.PartArrives}, "", "it has one volume, and goes to 2 physical clusters"},
		{"it stays", waits, stamp.Unit{"east": stamp.PartStays}, "", ""},
		{"it is there already", claim(`{"east":{},"west":{}}`, nil, nil), stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartStays}, "", ""},
		{"nobody recorded it", claim(`{"east":{},"west":{"state":"Waiting"}}`, nil, nil), stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartStays}, "", "its volume is not known yet"},
		{"no claim", web(`{"east":{}}`), stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartStays}, "", ""},
	} {
		c.object.Unit = c.unit
		c.object.HandOver(holders, fleet)
		v, why := c.object.Volume, c.object.NoVolume
		from := ""
		if v != nil {
			from = v.From
		}
		if from != c.from || why != c.why {
			t.Errorf("%s: from %q, %q; want %q, %q", c.name, from, why, c.from, c.why)
		}
	}
}
