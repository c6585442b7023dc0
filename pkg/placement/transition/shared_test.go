package transition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

const (
	fromEast = `{"volume":{"from":"east","source":{"storageClass":"disks","driver":"d","handle":"h","capacity":"1Gi","accessModes":["ReadWriteMany"],"reclaimPolicy":"Delete"}}}`
	inPlace  = `Synced {"phase":"Bound"}`
)

func sharedFleet(string) *fleetv1alpha1.PhysicalCluster {
	return &fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Volumes: []fleetv1alpha1.ClassVolumes{
		{StorageClass: "disks", Strategy: fleetv1alpha1.VolumesShared, Backend: "san", Driver: "d"}}}}
}

// many is a claim that many mount, with what its Copies say; those named in on have the volume h.
func many(targets, mode string, copies map[string]string, on ...string) Object {
	handles := map[string]string{}
	for _, name := range on {
		handles[name] = "h"
	}
	o := claim(targets, copies, handles)
	for _, name := range on {
		o.Copies[name].Status.Volume = &placementv1alpha1.CopyVolume{Name: "pv", Retained: true, Source: &placementv1alpha1.VolumeSource{
			StorageClass: "disks", Driver: "d", Handle: "h", Capacity: resource.MustParse("1Gi"), ReclaimPolicy: corev1.PersistentVolumeReclaimDelete}}
	}
	o.Logical.Object["spec"] = map[string]any{"accessModes": []any{mode}, "storageClassName": "disks"}
	return o
}

func TestWhatOfAClaimGoesToAllTargets(t *testing.T) {
	both := map[string]string{"east": inPlace, "west": inPlace}
	stays, arrives, leaves := stamp.PartStays, stamp.PartArrives, stamp.PartLeaves
	mirrored := many(`{"east":{"state":"Observed"}}`, "ReadWriteMany", both, "east")
	for _, c := range []struct {
		name   string
		object Object
		unit   stamp.Unit
		shared bool
		gets   string
		why    string
	}{
		{"nobody has it", many(``, "ReadWriteMany", nil), stamp.Unit{"east": stays, "west": stays}, true, "", ""},
		{"it is not known yet", many(`{"east":{},"west":{"state":"Waiting"}}`, "ReadWriteMany", both), stamp.Unit{"east": stays, "west": stays}, true, "", "its volume is not known yet"},
		{"it is", many(`{"east":{},"west":{"state":"Waiting"}}`, "ReadOnlyMany", both, "east"), stamp.Unit{"east": stays, "west": stays}, true, "west from east", ""},
		{"it moves", many(`{"east":{},"west":{"state":"Waiting"}}`, "ReadWriteMany", both, "east"), stamp.Unit{"east": leaves, "west": arrives}, true, "west from east", ""},
		{"it is everywhere", many(`{"east":{},"west":`+fromEast+`}`, "ReadWriteMany", both, "east", "west"), stamp.Unit{"east": stays, "west": stays}, true, "", ""},
		{"a third one comes while the first is silent", many(`{"east":{},"west":`+fromEast+`}`, "ReadWriteMany", both, "west"), stamp.Unit{"east": stays, "north": arrives, "west": stays}, true, "north from west", ""},
		{"one target", many(`{"east":{}}`, "ReadWriteMany", both, "east"), stamp.Unit{"east": stays}, false, "", ""},
		{"one mounts it", many(`{"east":{}}`, "ReadWriteOnce", both, "east"), stamp.Unit{"east": stays, "west": stays}, false, "", ""},
		{"each has its own", many(`{"east":{},"west":{}}`, "ReadWriteMany", both, "east", "west"), stamp.Unit{"east": stays, "west": stays}, false, "", ""},
		{"a controller made it", mirrored, stamp.Unit{"east": stays, "west": stays}, false, "", ""},
	} {
		c.object.Unit = c.unit
		c.object.HandOver(nil, sharedFleet)
		var gets []string
		for _, name := range c.unit.Names() {
			if v := c.object.Volumes[name]; v != nil {
				gets = append(gets, name+" from "+v.From)
			}
		}
		if got := strings.Join(gets, ", "); c.object.Shared != c.shared || got != c.gets || c.object.NoVolume != c.why {
			t.Errorf("%s: shared %t, %q, %q; want %t, %q, %q", c.name, c.object.Shared, got, c.object.NoVolume, c.shared, c.gets, c.why)
		}
	}
}

// A unit goes from east to west with a claim that many mount.
func TestNothingIsStoppedBeforeAVolumeOfManyIsWhereTheUnitGoes(t *testing.T) {
	unit := stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartArrives}
	with := func(targets string, copies map[string]string, on ...string) Object {
		o := many(targets, "ReadWriteMany", copies, on...)
		o.Unit = unit
		o.HandOver(nil, sharedFleet)
		return o
	}
	east, both := map[string]string{"east": inPlace}, map[string]string{"east": inPlace, "west": inPlace}
	other := with(`{"east":{},"west":`+fromEast+`}`, both, "east", "west")
	other.Copies["west"].Status.Volume.Source.Handle = "x"
	released := with(`{"east":{"state":"Draining"},"west":`+fromEast+`}`, both, "east", "west")
	released.Copies["east"].Status.Volume.Released = true
	for _, c := range []struct {
		name   string
		phase  placementv1alpha1.TransitionPhase
		object Object
		want   placementv1alpha1.TransitionPhase
		waits  string
	}{
		{"it is not known which it is", starting, with(`{"east":{},"west":{"state":"Waiting"}}`, east), starting, "PersistentVolumeClaim data on east: its volume is not known yet"},
		{"it is not there", starting, with(`{"east":{},"west":`+fromEast+`}`, east, "east"), starting,
			"PersistentVolumeClaim data on west: its volume is not bound yet: there is no copy yet; PersistentVolumeClaim data on west: there is no copy yet"},
		{"it is not bound", starting, with(`{"east":{},"west":`+fromEast+`}`, map[string]string{"east": inPlace, "west": `Synced {"phase":"Pending"}`}, "east"), starting,
			"PersistentVolumeClaim data on west: its volume is not bound yet: it is not in place yet"},
		{"it is another one", starting, other, starting, "PersistentVolumeClaim data on west: it is bound to another volume than on east"},
		{"it is", starting, with(`{"east":{},"west":`+fromEast+`}`, both, "east", "west"), draining, ""},
		{"it is released", removing, released, handingOver, ""},
		{"and cleared", handingOver, released, clearing, ""},
	} {
		t.Run(c.name, func(t *testing.T) { expectNext(t, c.phase, []Object{c.object}, c.want, false, c.waits) })
	}
	// Where it was is given up: nobody says there that the volume is released.
	silent := with(`{"east":{"state":"Draining"},"west":`+fromEast+`}`, map[string]string{"west": inPlace}, "west")
	tr := &placementv1alpha1.Transition{Phase: removing, From: []string{"east"}, To: []string{"west"}}
	for given, want := range map[bool]placementv1alpha1.TransitionPhase{false: removing, true: handingOver} {
		s := State{Decided: []string{"west"}, Objects: []Object{silent}, GivenUp: map[string]bool{"east": given}, Now: noon}
		if step := Next(tr, s); step.Phase != want {
			t.Errorf("given up %t: %s, want %s: %v", given, step.Phase, want, step.Waits)
		}
	}
}

func TestNothingIsStoppedWhereAClaimHasAVolumeThatTheOtherPlaceHasNot(t *testing.T) {
	both := map[string]string{"east": inPlace, "west": inPlace}
	own := func(west string) Object {
		o := many(`{"east":{},"west":`+west+`}`, "ReadWriteOnce", both, "east", "west")
		o.Copies["west"].Status.Volume.Source.Handle = "x"
		o.Unit = stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartStays}
		o.HandOver(nil, sharedFleet)
		return o
	}
	expectNext(t, starting, []Object{own(`{}`)}, starting, false,
		"PersistentVolumeClaim data on east: it has a volume and data of its own on west; delete the claim once its data are safe elsewhere")
	for _, c := range []struct {
		object Object
		a, b   string
		want   bool
	}{
		{own(`{}`), "east", "west", true},
		{own(`{}`), "east", "north", false},
		{own(fromEast), "east", "west", false},
		{own(`{"volume":{"from":"east","copied":true}}`), "east", "west", false},
		{own(`{"state":"Waiting"}`), "east", "west", false},
	} {
		if got := c.object.Differs(c.a, c.b); got != c.want {
			t.Errorf("%v on %s and %s: %t", c.object.targets(), c.a, c.b, got)
		}
	}
}

func mounting(kind schema.GroupKind, claims ...string) Object {
	o := object(kind, "web", `{"east":{}}`, nil)
	var volumes []any
	for _, name := range claims {
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name}})
	}
	o.Logical.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": volumes}}}
	return o
}

// A Deployment that has pods on both, or a part of them, is changed to mount a claim, whose volume comes only once it is
// given up on east.
func TestPodsThatAwaitAClaimAreNotWaitedFor(t *testing.T) {
	const both, waiting = `{"east":{},"west":{}}`, `{"east":{},"west":{"state":"Waiting"}}`
	web := func(mounts ...string) Object {
		o := object(deployments, "web", both, map[string]any{"replicas": int64(3)}, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":1}`)
		var volumes []any
		for _, name := range mounts {
			volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name}})
		}
		labels := map[string]any{"app": "web"}
		o.Logical.Object["spec"].(map[string]any)["template"] = map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"volumes": volumes}}
		return o
	}
	data := object(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "data", waiting, nil, "east: Synced")
	front := serviceOf("web", both, "east: Synced", "west: Synced")
	for name, test := range map[string]struct {
		objects []Object
		lacks   []string // of web, and of front
	}{
		"it mounts the claim":               {[]Object{web("data"), front, data}, []string{"", ""}},
		"it mounts no claim":                {[]Object{web(), front, data}, []string{"1 of 3 pods are available", "0 of 1 endpoints are ready"}},
		"it mounts one that is there":       {[]Object{web("other"), front, data}, []string{"1 of 3 pods are available", "0 of 1 endpoints are ready"}},
		"others that it leads to are there": {[]Object{web("data"), front, data, some("web", both, "east: Synced", "west: Synced")}, []string{"", "0 of 1 endpoints are ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Objects: test.objects, Endpoints: map[string]map[string]int{"front": {"east": 1}}}
			got := make([]string, 2)
			for i := range got {
				got[i], _ = s.lacks(test.objects[i], "west", []string{"east"})
			}
			if diff := cmp.Diff(test.lacks, got); diff != "" {
				t.Error(diff)
			}
			divided := test.objects[0]
			divided.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"replicas":3},"west":{"replicas":3}}`})
			s = State{Decided: []string{"west"}, Objects: append([]Object{divided}, test.objects[1:]...)}
			if short := s.short(divided, &placementv1alpha1.Transition{From: []string{"east"}, To: []string{"west"}}); short != test.lacks[0] {
				t.Errorf("divided it lacks %q, want %q", short, test.lacks[0])
			}
		})
	}
}

func TestWhatMountsVolumesOfManyBeginsBeforeItEnds(t *testing.T) {
	deployments := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	unit := stamp.Unit{"east": stamp.PartLeaves, "west": stamp.PartArrives}
	of := func(targets, mode string) Object {
		o := many(targets, mode, map[string]string{"east": inPlace, "west": inPlace}, "east")
		o.Unit = unit
		o.HandOver(nil, sharedFleet)
		return o
	}
	there := of(`{"east":{},"west":`+fromEast+`}`, "ReadWriteMany")
	own := mounting(sets, "data")
	_ = unstructured.SetNestedSlice(own.Logical.Object, []any{map[string]any{"metadata": map[string]any{"name": "own"}}}, "spec", "volumeClaimTemplates")
	for _, c := range []struct {
		name   string
		object Object
		claims []Object
		want   bool
	}{
		{"its claim is there", mounting(deployments, "data"), []Object{there}, true},
		{"twice", mounting(deployments, "data", "data"), []Object{there}, true},
		{"it waits", mounting(deployments, "data"), []Object{of(`{"east":{},"west":{"state":"Waiting"}}`, "ReadWriteMany")}, false},
		{"one mounts it", mounting(deployments, "data"), []Object{of(`{"east":{},"west":`+fromEast+`}`, "ReadWriteOnce")}, false},
		{"another claim is not there", mounting(deployments, "data", "more"), []Object{there}, false},
		{"no claim", mounting(deployments), []Object{there}, false},
		{"it makes claims, too", own, []Object{there}, false},
	} {
		if got := Opens(c.object.Kind, c.object.Logical.Object, unit, c.claims); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
	objects := []Object{there, mounting(deployments, "data"), mounting(sets, "data")}
	objects[1].Logical.SetName("first")
	shared := func(o Object) bool { return o.Apart([]string{"east", "west"}, sharedFleet) == "" }
	if diff := cmp.Diff([]string{"StatefulSet web"}, StopsFirst(objects, []string{"east"}, shared)); diff != "" {
		t.Errorf("stop first (-want +got):\n%s", diff)
	}
}

func TestAClaimWhoseVolumeStaysElsewhereIsNoObstacle(t *testing.T) {
	refuses := func(Object, string) string { return "no" }
	lost := func(names ...string) func(string) bool {
		return func(name string) bool { return strings.Contains(strings.Join(names, " "), name) }
	}
	for _, c := range []struct {
		name, targets string
		from          []string
		lost          func(string) bool
		stays         bool
	}{
		{"it stays on west", `{"east":{},"west":` + fromEast + `}`, []string{"east"}, lost(), false},
		{"also if east was lost", `{"east":{},"west":` + fromEast + `}`, []string{"east"}, lost("east"), false},
		{"also the other way round", `{"east":{},"west":` + fromEast + `}`, []string{"west"}, lost("west"), false},
		{"not if both are left", `{"east":{},"west":` + fromEast + `}`, []string{"east", "west"}, lost(), true},
		{"not if west was lost", `{"east":{},"west":` + fromEast + `}`, []string{"east"}, lost("west"), true},
		{"lost before it said which it is", `{"east":{},"west":{"state":"Waiting"}}`, []string{"east"}, lost("east"), true},
		{"each has its own", `{"east":{},"west":{}}`, []string{"east"}, lost(), true},
	} {
		got := Obstacles([]Object{many(c.targets, "ReadWriteMany", nil)}, c.from, refuses, c.lost)
		if (len(got) > 0) != c.stays {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAClaimLeavesNoTwoPlacesWhereItHasVolumesOfItsOwn(t *testing.T) {
	const own = "PersistentVolumeClaim data: its volume is on east, west and does not move (it has a volume and data of its own on west); delete the claim once its data are safe elsewhere"
	moves := func(Object, string) string { return "" }
	for _, c := range []struct {
		name, targets string
		from          []string
		want          []string
	}{
		{"both leave", `{"east":{},"west":{}}`, []string{"east", "west"}, []string{own}},
		{"one leaves, of which handed knows", `{"east":{},"west":{}}`, []string{"east"}, nil},
		{"both have the same", `{"east":{},"west":` + fromEast + `}`, []string{"east", "west"}, nil},
		{"one has it", `{"east":{},"west":{"state":"Waiting"}}`, []string{"east", "west"}, nil},
	} {
		o := many(c.targets, "ReadWriteOnce", nil)
		if diff := cmp.Diff(c.want, Obstacles([]Object{o}, c.from, moves, func(string) bool { return false })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}

	// It came to be there on both after the move had begun.
	o := many(`{"east":{},"north":{"state":"Waiting"},"west":{}}`, "ReadWriteOnce", map[string]string{"east": inPlace, "west": inPlace}, "east", "west")
	s := State{Decided: []string{"north"}, Objects: []Object{o}, Now: noon}
	step := Next(&placementv1alpha1.Transition{Phase: starting, From: []string{"east", "west"}, To: []string{"north"}}, s)
	if got := strings.Join(step.Waits, "; "); step.Phase != starting || !strings.Contains(got, "data on east: "+HasItsOwn("west")) {
		t.Errorf("%s: %s", step.Phase, got)
	}
}
