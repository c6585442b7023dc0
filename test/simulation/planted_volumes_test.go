package simulation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

var plantedVolumes = []plant{
	{"a volume that was handed over has its policy at once", Bugs{plan: makesDeletable}, KeptWhileShared, 20, []string{"claim"}},
	{"a claim that is deleted goes first where its volume was made", Bugs{plan: goesFirst}, KeptWhileShared, 20, nil},
	{"what was kept is removed by whatever class", Bugs{plan: settlesAsDelete}, DataStay, 20, nil},
	{"a claim that waits for a volume makes one", Bugs{plan: makesItsOwn}, OneVolume, 20, []string{"claim"}},
	{"a volume is handed over while it is used", Bugs{plan: releasesUsed}, OneMount, 20, nil},
	{"what was kept stays so", Bugs{plan: neverSettles}, AsTheyWere, 20, nil},
	{"a volume is kept before that is recorded", Bugs{plan: keepsUnrecorded}, AsTheyWere, 100, nil},
}

// withVolume changes what a plan does about a volume.
func withVolume(in syncer.Input, verb syncer.Verb, why string, change func(*unstructured.Unstructured)) []syncer.Action {
	actions := syncer.Plan(in)
	for i, a := range actions {
		if a.Verb == verb && a.Why == why {
			actions[i].Object = a.Object.DeepCopy()
			change(actions[i].Object)
		}
	}
	return actions
}

func setPolicy(policy string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, policy, "spec", "persistentVolumeReclaimPolicy") // a path of maps
	}
}

func makesDeletable(in syncer.Input) []syncer.Action {
	return withVolume(in, syncer.MakeVolume, "HandedOver", setPolicy(string(corev1.PersistentVolumeReclaimDelete)))
}

func settlesAsDelete(in syncer.Input) []syncer.Action {
	return withVolume(in, syncer.UpdateVolume, "Settled", setPolicy(string(corev1.PersistentVolumeReclaimDelete)))
}

// goesFirst sees no other target of a claim that is deleted.
func goesFirst(in syncer.Input) []syncer.Action {
	if !in.Ref.Kind.IsClaim() || in.Logical == nil || in.Logical.GetDeletionTimestamp() == nil {
		return syncer.Plan(in)
	}
	own := targetsOf(in.Logical)[in.Target]
	if own.Volume != nil {
		return syncer.Plan(in)
	}
	in.Logical = withTargets(in.Logical, placementv1alpha1.Targets{in.Target: own})
	return syncer.Plan(in)
}

// makesItsOwn does not wait.
func makesItsOwn(in syncer.Input) []syncer.Action {
	if !in.Ref.Kind.IsClaim() || in.Logical == nil || targetsOf(in.Logical)[in.Target].State != placementv1alpha1.TargetStateWaiting {
		return syncer.Plan(in)
	}
	in.Logical = withTargets(in.Logical, placementv1alpha1.Targets{in.Target: {}})
	return syncer.Plan(in)
}

// neverSettles takes a volume for one that was not kept when it is to be as it was.
func neverSettles(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 0 || actions[0].Verb != syncer.UpdateVolume || actions[0].Why != "Settled" {
		return actions
	}
	in.Volume.Object = in.Volume.Object.DeepCopy()
	delete(in.Volume.Object.Annotations, syncer.ReclaimPolicyAnnotation)
	return syncer.Plan(in)
}

// keepsUnrecorded keeps a volume, and records it then.
func keepsUnrecorded(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 0 || actions[0].Verb != syncer.WriteCopy || syncer.Retains(in.Copy) {
		return actions
	}
	v := actions[0].Copy.Status.Volume
	if v == nil || !v.Retaining {
		return actions
	}
	in.Copy = in.Copy.DeepCopy()
	in.Copy.Status.Volume = v
	return syncer.Plan(in)
}

func withTargets(obj *unstructured.Unstructured, targets placementv1alpha1.Targets) *unstructured.Unstructured {
	out := obj.DeepCopy()
	annotations := out.GetAnnotations()
	annotations[placementv1alpha1.TargetsAnnotation] = targets.String()
	out.SetAnnotations(annotations)
	return out
}

// releasesUsed says that a volume is released, whoever uses it.
func releasesUsed(in syncer.Input) []syncer.Action {
	in.Volume.Users = nil
	return syncer.Plan(in)
}

// movedWithVolume moves what mounts a claim of one place, there and back.
func movedWithVolume(seed int) []Happening {
	const once = 5 // see claimVariants
	script := []Happening{
		on("pin", 10, "one", "web", Happening{Physical: "west", N: 1}),
		on("wait", 20, "one", "web", Happening{N: 40}),
		on("claim", 30, "one", "web", Happening{Name: "a", N: once}),
		on("mount", 31, "one", "web", Happening{Name: "a", N: 1}),
	}
	for i, to := range []string{"east", "west"} {
		script = append(script,
			on("wait", 40+i, "one", "web", Happening{N: 60 + seed}),
			on("pin", 40+i, "one", "web", Happening{Physical: to, N: 1}),
			on("wait", 40+i, "one", "web", Happening{N: 60}))
	}
	return script
}

// beganInVain begins a move of a volume, parts the syncer from the server, and takes the move back.
func beganInVain(seed int) []Happening {
	return []Happening{
		on("pin", 10, "one", "web", Happening{Physical: "west", N: 1}),
		on("wait", 20, "one", "web", Happening{N: 40}),
		on("claim", 30, "one", "web", Happening{Name: "a", N: 5}), // see claimVariants
		on("wait", 31, "one", "web", Happening{N: 60}),
		on("pin", 40, "one", "web", Happening{Physical: "east", N: 1}),
		on("wait", 40, "one", "web", Happening{N: 8}),
		on("wait", 40, "one", "web", Happening{N: seed % 12}),
		on("wait", 40, "one", "web", Happening{N: 5 * seed % 7}),
		on("cut up", 40, "one", "web", Happening{Physical: "west", N: 14}),
		on("pin", 40, "one", "web", Happening{Physical: "west", N: 1}),
		on("wait", 40, "one", "web", Happening{N: 110}),
	}
}

// claimedAndGivenUp has claims of several classes on two physical clusters, and gives them up.
func claimedAndGivenUp(seed int) []Happening {
	var script []Happening
	all := func(verb string, at int) {
		for i, namespace := range []string{"web", "db"} {
			script = append(script, on(verb, at, "two", namespace, Happening{Name: "a", N: i}))
		}
	}
	all("claim", 10)
	script = append(script, on("wait", 11, "two", "web", Happening{N: 40 + 5*(seed%8)}))
	all("unclaim", 12)
	return append(script, on("wait", 13, "two", "web", Happening{N: 60}))
}
