package simulation

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

var plantedCarried = []plant{
	{"what a missing Manifest carried is deleted", Bugs{plan: dropsCarried}, CarriedStays, 50, []string{"carry", "short list"}},
	{"what is to be kept is deleted", Bugs{plan: keepsNothing}, CarriedStays, 50, []string{"carry", "uncarry"}},
	{"a Manifest is acknowledged before what it carried is gone", Bugs{plan: acknowledgesCarried}, CarriedIsGone, 20, []string{"carry", "uncarry"}},
	{"what others have is carried", Bugs{plan: adoptsAll}, OthersStay, 20, nil},
	{"what is of a kind that is not served is taken for gone", Bugs{plan: trustsUnserved}, CarriedIsGone, 50, []string{"carry gadget", "uncarry gadget", "undefine"}},
}

// dropsCarried takes a Manifest that is not seen for one that went.
func dropsCarried(in syncer.Input) []syncer.Action {
	if in.Ref.Kind.Carries && in.Logical == nil && in.Physical != nil && in.Copy != nil && in.Physical.GetDeletionTimestamp() == nil {
		return []syncer.Action{{Verb: syncer.Delete, UID: in.Physical.GetUID(), Why: "Absent"}}
	}
	return syncer.Plan(in)
}

func keepsNothing(in syncer.Input) []syncer.Action {
	return syncer.Plan(withSpec(in, string(fleetv1alpha1.RemovalDelete), "removal"))
}

// trustsUnserved takes a kind that is not served for one of which nothing is there.
func trustsUnserved(in syncer.Input) []syncer.Action {
	if in.Ref.Kind.Carries && in.Failure != nil && in.Physical == nil && syncer.Leaves(in) {
		in.NothingCarried = true
	}
	return syncer.Plan(in)
}

func adoptsAll(in syncer.Input) []syncer.Action { return syncer.Plan(withSpec(in, true, "adopt")) }

// withSpec has a Manifest say something else.
func withSpec(in syncer.Input, value any, field string) syncer.Input {
	if in.Ref.Kind.Carries && in.Logical != nil {
		in.Logical = in.Logical.DeepCopy()
		_ = unstructured.SetNestedField(in.Logical.Object, value, "spec", field) // a path of maps
	}
	return in
}

func acknowledgesCarried(in syncer.Input) []syncer.Action {
	if !in.Ref.Kind.Carries || in.Physical == nil || in.Copy == nil || in.Copy.Status.State != placementv1alpha1.CopyRemoving {
		return syncer.Plan(in)
	}
	return acknowledged(in)
}

// acknowledged is the plan of who says Removed where nothing is removed yet.
func acknowledged(in syncer.Input) []syncer.Action {
	c := in.Copy.DeepCopy()
	c.Status.State = placementv1alpha1.CopyRemoved
	return []syncer.Action{{Verb: syncer.WriteCopy, Copy: c}}
}

// carriedToOthers carries what people have already.
func carriedToOthers(seed int) []Happening {
	var script []Happening
	for _, physical := range []string{"east", "west"} {
		for n := range carriages {
			script = append(script, on("squat carried", 10, "one", "web", Happening{Physical: physical, N: n}))
		}
	}
	for n := range carriages {
		script = append(script, on("carry", 20+seed%5, "one", "web", Happening{N: n}))
	}
	return append(script, on("wait", 40, "one", "web", Happening{N: 60}))
}
