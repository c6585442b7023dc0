package copies

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func aCopy(cluster string, uid types.UID, state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
	return &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: cluster + "-" + string(uid)},
		Spec:       placementv1alpha1.CopySpec{PhysicalCluster: cluster, Object: placementv1alpha1.ObjectReference{UID: uid}},
		Status:     placementv1alpha1.CopyStatus{State: state},
	}
}

func anObject(targets string, deleting bool) metav1.Object {
	obj := &metav1.ObjectMeta{
		UID: "u", Finalizers: []string{"other", placementv1alpha1.CopiesFinalizer},
		Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: targets},
	}
	if deleting {
		now := metav1.Unix(1, 0)
		obj.DeletionTimestamp = &now
	}
	return obj
}

func recording(c *placementv1alpha1.Copy, physical types.UID) *placementv1alpha1.Copy {
	c.Status.PhysicalUID = physical
	return c
}

func inTime(obj metav1.Object, seconds int64) metav1.Object {
	obj.SetDeletionGracePeriodSeconds(&seconds)
	return obj
}

func released(obj metav1.Object) metav1.Object {
	obj.SetFinalizers(nil)
	return obj
}

func TestWhatAcknowledgementsLeadTo(t *testing.T) {
	const (
		removed  = placementv1alpha1.CopyRemoved
		synced   = placementv1alpha1.CopySynced
		removing = placementv1alpha1.CopyRemoving
	)
	type result struct {
		Finalizer bool
		Finish    bool
		Targets   string // what remains, "-" if the annotation stays as it is
		Deleted   []string
	}
	for _, c := range []struct {
		name   string
		obj    metav1.Object
		copies []*placementv1alpha1.Copy
		gone   string
		want   result
	}{
		{"gone, acknowledged", nil, []*placementv1alpha1.Copy{aCopy("east", "u", removed)}, "", result{Targets: "-", Deleted: []string{"east-u"}}},
		{"gone, its syncer is not through", nil, []*placementv1alpha1.Copy{aCopy("east", "u", synced)}, "", result{Targets: "-"}},
		{"made again, the predecessor acknowledged", anObject(`{"east":{}}`, false), []*placementv1alpha1.Copy{aCopy("east", "before", removed)}, "", result{Targets: "-", Deleted: []string{"east-before"}}},
		{"made again, the predecessor not through", anObject(`{"east":{}}`, false), []*placementv1alpha1.Copy{aCopy("east", "before", removing)}, "", result{Targets: "-"}},
		{"deleting, nobody has acknowledged", anObject(`{"east":{}}`, true), []*placementv1alpha1.Copy{aCopy("east", "u", removing)}, "", result{Targets: "-"}},
		{"deleting, no Copy was ever made", anObject(`{"east":{}}`, true), nil, "", result{Targets: "-"}},
		{"deleting, one of two", anObject(`{"east":{},"west":{}}`, true), []*placementv1alpha1.Copy{aCopy("east", "u", removed), aCopy("west", "u", synced)}, "", result{Targets: "-"}},
		{"deleting, both", anObject(`{"east":{},"west":{}}`, true), []*placementv1alpha1.Copy{aCopy("east", "u", removed), aCopy("west", "u", removed)}, "", result{Finalizer: true, Targets: "-"}},
		{"deleting, the Copy is that of the predecessor", anObject(`{"east":{}}`, true), []*placementv1alpha1.Copy{aCopy("east", "before", removed)}, "", result{Targets: "-", Deleted: []string{"east-before"}}},
		{"deleting what was mirrored, its syncer is not through", anObject(`{"east":{"state":"Observed"}}`, true), nil, "", result{Targets: "-"}},
		{"deleting what was mirrored, the target was given up", anObject(`{"east":{"state":"Observed"}}`, true), nil, "east", result{Targets: "-"}},
		{"deleting, a target without a Copy was given up", anObject(`{"east":{}}`, true), nil, "east", result{Finalizer: true, Targets: "-"}},
		{"deleting, a target with a Copy was given up", anObject(`{"east":{}}`, true), []*placementv1alpha1.Copy{aCopy("east", "u", synced)}, "east", result{Targets: "-"}},
		{"moved, not acknowledged", anObject(`{"east":{"state":"Removing"},"west":{}}`, false), []*placementv1alpha1.Copy{aCopy("east", "u", removing)}, "", result{Targets: "-"}},
		{"moved", anObject(`{"east":{"state":"Removing"},"west":{}}`, false), []*placementv1alpha1.Copy{aCopy("east", "u", removed), aCopy("west", "u", synced)}, "", result{Targets: `{"west":{}}`, Deleted: []string{"east-u"}}},
		{"the last target", anObject(`{"east":{"state":"Removing"}}`, false), []*placementv1alpha1.Copy{aCopy("east", "u", removed)}, "", result{Finalizer: true, Deleted: []string{"east-u"}}},
		{"wanted again", anObject(`{"east":{}}`, false), []*placementv1alpha1.Copy{aCopy("east", "u", removed)}, "", result{Targets: "-", Deleted: []string{"east-u"}}},
		{"adopted, the Copy is left", anObject(`{"east":{"state":"Observed","uid":"p"}}`, false), []*placementv1alpha1.Copy{recording(aCopy("east", "u", synced), "p")}, "", result{Targets: "-", Deleted: []string{"east-u"}}},
		{"adopted, and deleted", anObject(`{"east":{"state":"Observed","uid":"p"}}`, true), []*placementv1alpha1.Copy{recording(aCopy("east", "u", synced), "p")}, "", result{Targets: "-", Deleted: []string{"east-u"}}},
		{"adopted, deleted, and taken for removed", anObject(`{"east":{"state":"Observed","uid":"p"}}`, true), []*placementv1alpha1.Copy{recording(aCopy("east", "u", removed), "p")}, "", result{Targets: "-", Deleted: []string{"east-u"}}},
		{"adopted, and made again below meanwhile", anObject(`{"east":{"state":"Observed","uid":"p"}}`, false), []*placementv1alpha1.Copy{recording(aCopy("east", "u", synced), "q")}, "", result{Targets: "-"}},
		{"adopted on a target that was given up", anObject(`{"east":{"state":"Observed","uid":"p"}}`, true), []*placementv1alpha1.Copy{recording(aCopy("east", "u", synced), "q")}, "east", result{Targets: "-"}},
		{"a Pod that stopped in time", inTime(anObject(`{"east":{}}`, true), 30), []*placementv1alpha1.Copy{aCopy("east", "u", removed)}, "", result{Finalizer: true, Finish: true, Targets: "-"}},
		{"a Pod that stopped in time, its finalizer was forced off", released(inTime(anObject(`{"east":{}}`, true), 30)), []*placementv1alpha1.Copy{aCopy("east", "u", removed)}, "", result{Finish: true, Targets: "-"}},
		{"a Pod that never ran", released(inTime(anObject("", true), 30)), nil, "", result{Finish: true, Targets: "-"}},
		{"a Pod that was mirrored and is stopping", released(inTime(anObject(`{"east":{"state":"Observed","uid":"p"}}`, true), 30)), nil, "", result{Targets: "-"}},
		{"a Pod that is stopping", inTime(anObject(`{"east":{}}`, true), 30), []*placementv1alpha1.Copy{aCopy("east", "u", removing)}, "", result{Targets: "-"}},
		{"nothing to do", anObject(`{"east":{}}`, false), []*placementv1alpha1.Copy{aCopy("east", "u", synced)}, "", result{Targets: "-"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Decide(c.obj, c.copies, func(target string) bool { return target == c.gone })
			got := result{Finalizer: v.Finalizer, Finish: v.Finish, Targets: "-"}
			if v.Drop {
				got.Targets = v.Targets.String()
			}
			for _, d := range v.Delete {
				got.Deleted = append(got.Deleted, d.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A claim with one volume on east and west is deleted: west, which made it, is the last.
func TestTheLastCopyOfADeletedClaimSeesThatItIs(t *testing.T) {
	const east = `"east":{"volume":{"from":"west","source":{"storageClass":"disks","driver":"d","handle":"h","capacity":"1Gi","accessModes":["ReadWriteMany"],"reclaimPolicy":"Delete"}}}`
	const removed, synced = placementv1alpha1.CopyRemoved, placementv1alpha1.CopySynced
	for _, c := range []struct {
		name, has  string
		east, west placementv1alpha1.CopyState
		gone       string
		want       string
		finalizer  bool
	}{
		{"nobody has acknowledged", `{` + east + `,"west":{}}`, synced, synced, "", `{` + east + `,"west":{}}`, false},
		{"the other one has", `{` + east + `,"west":{}}`, removed, synced, "", `{"west":{}}`, false},
		{"the other one was given up", `{` + east + `,"west":{}}`, "", synced, "east", `{"west":{}}`, false},
		{"both have", `{` + east + `,"west":{}}`, removed, removed, "", "", true},
		{"the last one has", `{"west":{}}`, removed, removed, "", "", true},
		{"each has its own volume", `{"east":{},"west":{}}`, removed, synced, "", `{"east":{},"west":{}}`, false},
	} {
		var copies []*placementv1alpha1.Copy
		for name, state := range map[string]placementv1alpha1.CopyState{"east": c.east, "west": c.west} {
			if state != "" {
				copies = append(copies, aCopy(name, "u", state))
			}
		}
		v := Decide(anObject(c.has, true), copies, func(target string) bool { return target == c.gone })
		got := v.Targets.String()
		if !v.Drop && !v.Finalizer {
			got = c.has
		}
		if v.Finalizer != c.finalizer || !c.finalizer && got != c.want {
			t.Errorf("%s: %s, finalizer %t; want %s, %t", c.name, got, v.Finalizer, c.want, c.finalizer)
		}
	}
}
