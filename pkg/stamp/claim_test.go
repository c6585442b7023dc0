package stamp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// A claim goes from west to east: each row is what it has, the part of west, and what follows.
func TestAClaimIsInOnePlaceUntilItsVolumeIsHandedOver(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "PersistentVolumeClaim"})
	v := &placementv1alpha1.TargetVolume{From: "west", Source: placementv1alpha1.VolumeSource{Driver: "d", Handle: "h"}}
	const got = `{"east":{"volume":{"from":"west","source":{"storageClass":"","driver":"d","handle":"h","capacity":"0","accessModes":null,"reclaimPolicy":""}}},"west":{"state":"Draining"}}`
	for _, c := range []struct {
		name, has  string
		west, east Part
		volume     *placementv1alpha1.TargetVolume
		want       string
	}{
		{"it waits", `{"west":{}}`, PartLeaves, PartArrives, v, `{"east":{"state":"Waiting"},"west":{}}`},
		{"while traffic leaves", `{"east":{"state":"Waiting"},"west":{}}`, PartDrains, PartStays, v, `{"east":{"state":"Waiting"},"west":{}}`},
		{"what was mirrored becomes a copy", `{"west":{"state":"Observed","uid":"1"}}`, PartLeaves, PartArrives, v, `{"east":{"state":"Waiting"},"west":{"uid":"1"}}`},
		{"and stays mirrored while nothing leaves", `{"west":{"state":"Observed","uid":"1"}}`, PartStays, PartArrives, v, `{"west":{"state":"Observed","uid":"1"}}`},
		{"it gives its volume up, and is not removed", `{"east":{"state":"Waiting"},"west":{}}`, PartRemoves, PartStays, v, `{"east":{"state":"Waiting"},"west":{"state":"Draining"}}`},
		{"it is handed over", `{"east":{"state":"Waiting"},"west":{"state":"Draining"}}`, PartHandsOver, PartStays, v, got},
		{"not without a volume", `{"east":{"state":"Waiting"},"west":{"state":"Draining"}}`, PartHandsOver, PartStays, nil, `{"east":{"state":"Waiting"},"west":{"state":"Draining"}}`},
		{"it keeps what it got", got, PartHandsOver, PartStays, nil, got},
		{"then what is left goes", `{"east":{},"west":{"state":"Draining"}}`, PartClears, PartStays, nil, `{"east":{},"west":{"state":"Removing"}}`},
		{"abandoned before it is handed over", `{"east":{"state":"Waiting"},"west":{"state":"Draining"}}`, PartStays, PartDrains, nil, `{"west":{}}`},
		{"abandoned after that", got, PartArrives, PartLeaves, nil, `{"east":{"volume":{"from":"west","source":{"storageClass":"","driver":"d","handle":"h","capacity":"0","accessModes":null,"reclaimPolicy":""}}},"west":{}}`},
		{"a new one is only where the unit goes", ``, PartLeaves, PartArrives, nil, `{"east":{}}`},
		{"two places, nothing leaves", ``, PartStays, PartStays, nil, `{"east":{},"west":{}}`},
	} {
		obj := &metav1.ObjectMeta{Namespace: "shop", Name: "data"}
		annotate(obj, placementv1alpha1.TargetsAnnotation, c.has)
		out := Targets(kind, "demo", obj, Source{Unit: Unit{"west": c.west, "east": c.east}, Volume: c.volume})
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// The data of a claim are copied from west to east, or restored there: of two copies that differ one counts, in each stamp.
func TestAClaimWhoseDataAreCopiedIsNeverWithoutTheCopyThatCounts(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "PersistentVolumeClaim"})
	const filling = `{"east":{"volume":{"from":"west","copied":true}},"west":{"state":"Draining"}}`
	const abandoned = `{"east":{"volume":{"from":"west","copied":true},"state":"Removing"},"west":{}}`
	for _, c := range []struct {
		name, has  string
		west, east Part
		want       string
	}{
		{"it is filled", `{"east":{"state":"Waiting"},"west":{"state":"Draining"}}`, PartHandsOver, PartStays, filling},
		{"and goes on being filled", filling, PartHandsOver, PartStays, filling},
		{"then it counts, and the other one goes", filling, PartClears, PartStays, `{"east":{},"west":{"state":"Removing"}}`},
		{"abandoned, what was begun goes", filling, PartStays, PartLeaves, abandoned},
		{"also by who is behind", filling, PartLeaves, PartArrives, abandoned},
		{"also if it goes on to the same place", filling, PartRemoves, PartStays, `{"east":{"volume":{"from":"west","copied":true},"state":"Removing"},"west":{"state":"Draining"}}`},
		{"and is finished first", abandoned, PartLeaves, PartArrives, abandoned},
		{"it goes back after it counts", `{"east":{},"west":{"state":"Removing"}}`, PartArrives, PartLeaves, `{"east":{},"west":{"state":"Removing"}}`},
		{"the only copy is not removed", `{"east":{"state":"Removing"},"west":{"state":"Draining"}}`, PartClears, PartStays, `{"east":{"state":"Removing"},"west":{"state":"Draining"}}`},
		{"where it came from was given up", `{"east":{"volume":{"from":"west","copied":true}}}`, PartHandsOver, PartStays, `{"east":{"volume":{"from":"west","copied":true}}}`},
	} {
		for _, snapshot := range []*placementv1alpha1.SnapshotSource{nil, {StorageClass: "disks", Driver: "d", Handle: "s"}} {
			with := func(targets string) string {
				if snapshot == nil {
					return targets
				}
				return strings.ReplaceAll(targets, `"copied":true`, `"copied":true,"snapshot":{"storageClass":"disks","driver":"d","handle":"s"}`)
			}
			v := &placementv1alpha1.TargetVolume{From: "west", Copied: true, Snapshot: snapshot}
			obj := &metav1.ObjectMeta{Namespace: "shop", Name: "data"}
			annotate(obj, placementv1alpha1.TargetsAnnotation, with(c.has))
			out := Targets(kind, "demo", obj, Source{Unit: Unit{"west": c.west, "east": c.east}, Volume: v})
			if diff := cmp.Diff(with(c.want), out.String()); diff != "" {
				t.Errorf("%s, snapshot %v (-want +got):\n%s", c.name, snapshot, diff)
			}
		}
	}
}

// What mounts claims begins where its unit goes once these have their volumes, and not before.
func TestWhatMountsClaimsWaitsForTheirVolumes(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	for _, c := range []struct {
		name, has  string
		west, east Part
		want       string
	}{
		{"it goes on", `{"west":{}}`, PartLeaves, PartArrives, `{"east":{"state":"Waiting"},"west":{}}`},
		{"it is stopped", `{"east":{"state":"Waiting"},"west":{}}`, PartRemoves, PartStays, `{"east":{"state":"Waiting"},"west":{"state":"Removing"}}`},
		{"it waits when it is gone", `{"east":{"state":"Waiting"}}`, PartRemoves, PartStays, `{"east":{"state":"Waiting"}}`},
		{"and while volumes are handed over", `{"east":{"state":"Waiting"}}`, PartHandsOver, PartStays, `{"east":{"state":"Waiting"}}`},
		{"it begins", `{"east":{"state":"Waiting"}}`, PartClears, PartStays, `{"east":{}}`},
		{"a new one waits, too", ``, PartLeaves, PartArrives, `{"east":{"state":"Waiting"}}`},
	} {
		obj := &metav1.ObjectMeta{Namespace: "shop", Name: "db"}
		annotate(obj, placementv1alpha1.TargetsAnnotation, c.has)
		out := Targets(kind, "demo", obj, Source{Unit: Unit{"west": c.west, "east": c.east}, Mounts: true})
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
