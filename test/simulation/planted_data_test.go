package simulation

import (
	corev1 "k8s.io/api/core/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

var plantedData = []plant{
	{"half of a copy is used", Bugs{plan: believesHalf}, DataFollow, 20, nil},
	{"a StatefulSet begins before its claims come", Bugs{plan: beginsEarly}, OneWriter, 20, nil},
	{"what data are copied from goes before the copy is made", Bugs{next: clearsAtOnce}, LastOneStays, 20, nil},
	{"pods that brought data are forgotten", Bugs{plan: forgetsHelpers}, NothingBeside, 20, nil},
	{"a claim that is deleted is not made again", Bugs{plan: leavesReserved}, ClaimComesBack, 20, nil},
}

// believesHalf takes a pod that begins to fill a volume for one that has.
func believesHalf(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if !in.Ref.Kind.IsClaim() || in.Logical == nil {
		return actions
	}
	v := targetsOf(in.Logical)[in.Target].Volume
	for i, a := range actions {
		if a.Verb == syncer.WriteCopy && v != nil && v.Copied && v.Snapshot == nil && a.Copy.Status.Volume != nil && a.Copy.Status.Volume.Helper != nil && a.Copy.Status.Volume.Helper.Ready {
			c := a.Copy.DeepCopy()
			c.Status.Volume.Helper, c.Status.Volume.Filled = nil, &placementv1alpha1.VolumeFilled{From: v.From, Entries: 1}
			actions[i].Copy = c
		}
	}
	return actions
}

// beginsEarly does not wait for the claims of a StatefulSet.
func beginsEarly(in syncer.Input) []syncer.Action {
	if in.Ref.Kind.Resource != statefulSets.Resource || in.Logical == nil || targetsOf(in.Logical)[in.Target].State != placementv1alpha1.TargetStateWaiting {
		return syncer.Plan(in)
	}
	in.Logical = withTargets(in.Logical, placementv1alpha1.Targets{in.Target: {}})
	return syncer.Plan(in)
}

// clearsAtOnce hands nothing over before it removes what is left.
func clearsAtOnce(t *placementv1alpha1.Transition, s transition.State) transition.Step {
	step := transition.Next(t, s)
	if step.Phase == placementv1alpha1.TransitionHandingOver && t.Phase == placementv1alpha1.TransitionHandingOver {
		return transition.Step{Phase: placementv1alpha1.TransitionClearing}
	}
	return step
}

// leavesReserved leaves a volume to the claim that is gone.
func leavesReserved(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) > 0 && actions[0].Verb == syncer.UpdateVolume && actions[0].Why == "ClaimGone" {
		return nil
	}
	return actions
}

// forgetsHelpers does not see a pod any more that has done what it was made for.
func forgetsHelpers(in syncer.Input) []syncer.Action {
	if in.Copy != nil && in.Copy.Status.Volume != nil && in.Copy.Status.Volume.Filled != nil && in.Volume.Helper != nil && in.Volume.Helper.Status.Phase == corev1.PodSucceeded {
		in.Volume.Helper = nil
	}
	return syncer.Plan(in)
}

// movedWithData moves a StatefulSet and a Deployment with their data, there and back.
func movedWithData(seed int) []Happening {
	script := []Happening{
		on("move data", 10, "one", "web", Happening{N: 0}),
		on("wait", 20, "one", "web", Happening{N: 30}),
		on("make set", 30, "one", "web", Happening{Name: "a", N: []int{6, 1, 7, 14, 2}[seed%5]}), // of one to three pods, each of another class
		on("claim data", 31, "one", "web", Happening{Name: "b", N: 3 * (seed % 2)}),
		on("mount data", 32, "one", "web", Happening{Name: "b", N: seed}),
	}
	for i := range 2 {
		script = append(script,
			on("wait", 40+i, "one", "web", Happening{N: 60 + seed}),
			on("move data", 40+i, "one", "web", Happening{N: 1 + i}),
			on("wait", 40+i, "one", "web", Happening{N: 90}))
	}
	return script
}

// claimLostInMove has people of the physical cluster that is left delete a claim while its volume is to be brought
// elsewhere.
func claimLostInMove(seed int) []Happening {
	script := movedWithData(seed)
	return append(script[:7:7],
		on("wait", 41, "one", "web", Happening{N: 5 + 4*seed}),
		on("meddle with data", 41, "one", "web", Happening{Physical: "east", N: 3 * seed}),
		on("wait", 42, "one", "web", Happening{N: 90}))
}
