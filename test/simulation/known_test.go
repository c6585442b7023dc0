package simulation

import (
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
)

// known are worlds that once failed, by their seeds in a simulation that re-enacted the
// shells, and what they taught. Each is a script for the present one, which has to hold
// however requests interleave.
var known = []struct {
	seed, lesson string
	script       func(seed int) []Happening
}{
	{"4984", "a backup from before a Deployment adopted a ReplicaSet makes the Deployment below an orphan, whose controller and the syncer " +
		"each want another number of pods: that is called Failed, ControlledByOther, and not reverted for ever",
		func(int) []Happening {
			return []Happening{
				on("create", 10, "one", "web", Happening{Resource: replicaSets, Name: "a", N: 35}),
				on("back up", 40, "one", "web", Happening{}),
				on("create", 45, "one", "web", Happening{Resource: deployments, Name: "a", N: 0}),
				on("restore", 200, "one", "web", Happening{N: 1}),
			}
		}},
	{"5241", "the same while the ReplicaSet has pods that come and go: the syncer lets them be, and the world comes to rest",
		func(int) []Happening {
			return []Happening{
				on("create", 10, "one", "web", Happening{Resource: replicaSets, Name: "a", N: 26}),
				on("back up", 60, "one", "web", Happening{}),
				on("create", 65, "one", "web", Happening{Resource: deployments, Name: "a", N: 57}),
				on("restore", 250, "one", "web", Happening{N: 1}),
			}
		}},
	{"6038", "a backup that is restored between the server's word that a namespace is gone and the deletion below brings the content back: " +
		"what was said is carried out, and the content is made anew",
		func(seed int) []Happening { return leavingNamespace(150 + 11*seed) }},
	{"11761", "the same with a restore that comes while the namespace is being emptied: nothing of what was brought back is lost above",
		func(seed int) []Happening { return leavingNamespace(105 + 5*seed) }},
	{"11391", "people may take our mark off between the look and the request: a syncer that names the UID has written what it knew to be ours, " +
		"and the next look finds somebody else's object",
		func(seed int) []Happening {
			return []Happening{
				on("create", 10, "one", "db", Happening{Resource: services, Name: "a", N: 86}),
				on("restore below", 100, "one", "db", Happening{Resource: services, Name: "a", Physical: "east", N: 3}),
				on("restore below", 101, "one", "db", Happening{Resource: services, Name: "a", Physical: "west", N: 3}),
				on("strip below", 102+seed, "one", "db", Happening{Resource: services, Name: "a", Physical: "east", N: 30}),
				on("strip below", 102+seed, "one", "db", Happening{Resource: services, Name: "a", Physical: "west", N: 30}),
			}
		}},
	{"189716680737731", "after a backup was restored the syncer saw the object of before in the Namespace of after, made its copy where that pointed, " +
		"and acknowledged its removal where the Copy said: copies are made where their Copy says, and removals ask there",
		func(seed int) []Happening { return namespaceBroughtBack(28 + seed) }},
	{"116376612831719", "a quota that was admitted before a namespace was decided, and stored after who decided had looked for quotas, had no targets until " +
		"the controller looked, and a Job that was made meanwhile went down before it: what rules is stamped before the first thing that it rules is recorded",
		lateRule},
	{"511", "a PodImport was made while its network was left, by who had decided before, and nobody looked at it again: when the network changed it " +
		"was not known yet; so it is looked at once it is",
		partedAtOnce},
	{"162472434442664", "what belongs to no unit of its own stays where objects of other units run, and was taken for left over there: a move for it began, " +
		"ended at once, as it stays, and began again, for ever",
		heldElsewhere},
	{"25, provoked", "a physical cluster that had made the volume of a claim was emptied, and made another one, while others had the first: it is said, and none is made",
		func(seed int) []Happening { return emptiedMaker(40 + 7*seed) }},
	{"claims deleted in moves", "a claim that people of the physical cluster deleted while its volume was kept for a move came back with no other one, " +
		"and the move, or what was to go on where it was, waited for ever: it comes back to the volume that is kept",
		claimLostInMove},
	{"12, provoked", "a namespace left a physical cluster on which a claim had a volume of its own for one on which it had another: what mounted the first was stopped, " +
		"and the move never ended; it does not begin",
		func(seed int) []Happening {
			return []Happening{
				on("claim", 10, "two", "web", Happening{Name: "a", N: 4}),
				on("mount", 11, "two", "web", Happening{Name: "a", N: 1}),
				on("wait", 12, "two", "web", Happening{N: seed * 10}),
				on("pin", 13, "two", "web", Happening{Physical: "west", N: 1}),
				on("wait", 14, "two", "web", Happening{N: 60}),
			}
		}},
	{"880014", "a divided namespace that was scaled to nothing while it moved kept what it left: pods ran on that nobody wanted, and the move waited for as many elsewhere, for ever",
		scaledWhileItMoves},
	{"one for two", "of one replica for two places one has none, and its Service nothing to lead to there: a move from a third place waited for that, for ever, and a drain with it",
		drainedToTwo},
	{"one is enough", "an autoscaler wanted fewer than a part of what is divided, and a move waited for the rest, for ever",
		pinnedWhereOneIsEnough},
	{"330006", "an autoscaler got other bounds while its unit was divided no more and moved: admission stamped other targets than the controller wanted, and the move waited for these, for ever",
		boundedWhileItMoves},
}

// emptiedMaker has one physical cluster of several with the same volume lose all that it has, and come back.
func emptiedMaker(n int) []Happening {
	return []Happening{
		on("claim", 10, "two", "web", Happening{Name: "a", N: 0}),
		on("mount", 11, "two", "web", Happening{Name: "a", N: 1}),
		on("wait", 12, "two", "web", Happening{N: n}),
		on("rewind below", 13, "two", "web", Happening{Physical: "east", N: 4}),
		on("wait", 14, "two", "web", Happening{N: 60}),
	}
}

// heldElsewhere moves a namespace while a Job of it, which has begun, comes into another unit and stays where
// it was, with a ConfigMap.
func heldElsewhere(int) []Happening {
	return []Happening{
		on("create", 81, "one", "web", Happening{Resource: jobs, Name: "a", N: 74}),
		on("create", 596, "one", "web", Happening{Resource: configMaps, Name: "a", N: 50}),
		on("relabel", 616, "one", "web", Happening{Resource: jobs, Name: "a", N: 29}),
		on("pin", 809, "one", "web", Happening{Resource: deployments, Name: "a", Physical: "west", N: 91}),
		on("select", 828, "one", "web", Happening{Resource: services, Name: "b", Physical: "west", N: 67}),
		on("create", 836, "one", "web", Happening{Resource: pods, Name: "a", N: 9}),
		on("wait", 970, "one", "web", Happening{N: 71}),
		on("relabel", 985, "one", "web", Happening{Resource: pods, Name: "a", N: 29}),
	}
}

// partedAtOnce has a physical cluster be in the network for a moment, again and again.
func partedAtOnce(seed int) []Happening {
	script := []Happening{
		on("create", 10, "two", "web", Happening{Resource: deployments, Name: "a", N: 2}),
		on("wait", 11, "two", "web", Happening{N: 60}),
		on("part", 12, "two", "web", Happening{Physical: "west"}),
	}
	for i := range 12 { // the import is made 200 ms after the network changed
		script = append(script,
			on("join", 12, "two", "web", Happening{Physical: "west"}),
			on("wait", 12, "two", "web", Happening{N: 7}),
			on("wait", 12, "two", "web", Happening{N: 1 + (seed+i)%6}),
			on("part", 12, "two", "web", Happening{Physical: "west"}),
			on("wait", 12, "two", "web", Happening{N: 20}))
	}
	return script
}

// lateRule makes quotas while namespaces are decided, and then something that they rule.
func lateRule(seed int) []Happening {
	var script []Happening
	for i, namespace := range []string{"web", "db"} {
		at, quota, job := 10+40*i, seed%8, seed/8%8
		script = append(script,
			on("create", at, "one", namespace, Happening{Resource: replicaSets, Name: "a", N: 1}),
			on("limit", at+quota, "one", namespace, Happening{N: 1}),
			on("create", at+quota+job, "one", namespace, Happening{Resource: jobs, Name: "a", N: 1}))
	}
	return script
}

// leavingNamespace deletes a namespace with something in it, and restores a backup of
// before at a later step.
func leavingNamespace(restored int) []Happening {
	return []Happening{
		on("create", 10, "two", "web", Happening{Resource: replicaSets, Name: "a", N: 35}),
		on("create", 12, "two", "web", Happening{Resource: configMaps, Name: "a", N: 1}),
		on("back up", 90, "two", "web", Happening{}),
		on("delete namespace", 91, "two", "web", Happening{}),
		on("restore", restored, "two", "web", Happening{N: 1}),
	}
}

// namespaceBroughtBack makes a namespace with its objects again, restores a backup from
// before, and deletes what that brought back.
func namespaceBroughtBack(seed int) []Happening {
	var script []Happening
	all := func(verb string, at int) {
		for _, name := range []string{"a", "b", "c"} {
			script = append(script, on(verb, at, "one", "web", Happening{Resource: services, Name: name, N: 1}))
		}
	}
	one := func(verb string, at, n int) {
		script = append(script, on(verb, at, "one", "web", Happening{Resource: services, Name: "d", N: n}))
	}
	all("create", 10)
	one("wait", 11, 40)
	one("back up", 12, 0)
	one("replace namespace", 13, 2)
	one("wait", 14, 60)
	all("create", 15)
	one("wait", 16, 40)
	one("restore", 17, seed)
	one("wait", 18, 5+seed%16)
	all("delete", 19)
	return script
}

// broughtBackBelow has people bring copies of deleted objects back below, while objects
// of their names are made above.
func broughtBackBelow(seed int) []Happening {
	var script []Happening
	for _, name := range []string{"a", "b", "c", "d"} {
		script = append(script, on("create", 10, "one", "web", Happening{Resource: services, Name: name, N: 1}))
	}
	script = append(script, on("wait", 11, "one", "web", Happening{N: 60}))
	for i, name := range []string{"a", "b", "c"} {
		script = append(script,
			on("delete", 12, "one", "web", Happening{Resource: services, Name: name, N: 1}),
			on("wait", 13, "one", "web", Happening{N: 60}),
			on("create", 14, "one", "web", Happening{Resource: services, Name: name, N: 1}))
		for _, physical := range []string{"east", "west"} {
			script = append(script, on("resurrect below", 15+(seed+7*i)%25, "one", "web", Happening{Physical: physical, N: i}))
		}
		script = append(script, on("wait", 45, "one", "web", Happening{N: 60}))
	}
	return script
}

// scaledWhileItMoves scales to nothing what leaves one of two physical clusters.
func scaledWhileItMoves(seed int) []Happening {
	const seven = 7 // replicas are a number modulo that
	return []Happening{
		on("divide", 10, "one", "web", Happening{N: 84}),
		on("front", 12, "one", "web", Happening{N: 27}), // two replicas of b
		on("wait", 14, "one", "web", Happening{N: 30}),
		on("move front", 16, "one", "web", Happening{N: 70}),
		on("wait", 18, "one", "web", Happening{N: 10 + 3*seed}),
		on("scale", 20, "one", "web", Happening{Resource: deployments, Name: "b", N: seven * seed}),
	}
}

// drainedToTwo drains one of two physical clusters for something of one replica, which goes to a third one, or not.
func drainedToTwo(seed int) []Happening {
	return []Happening{
		on("divide", 10, "one", "web", Happening{N: 84}),
		on("front", 12, "one", "web", Happening{N: 24}),
		on("register", 14, "one", "web", Happening{}),
		on("wait", 16, "one", "web", Happening{N: 30 + seed}),
		on("drain", 18, "one", "web", Happening{Physical: []string{"east", "west"}[seed%2]}),
	}
}

// pinnedWhereOneIsEnough pins to one of two physical clusters what has a part on both, of which an autoscaler wants fewer.
func pinnedWhereOneIsEnough(seed int) []Happening {
	return []Happening{
		on("create", 10, "two", "db", Happening{Resource: deployments, Name: "a", N: 62}), // two replicas
		on("autoscale", 12, "two", "db", Happening{Name: "a", N: 18}),                     // one at least
		on("divide", 14, "two", "db", Happening{Physical: "west", N: 77}),
		on("wait", 16, "two", "db", Happening{N: 40 + 10*seed}),
		on("pin", 18, "two", "db", Happening{Physical: "west", N: 64}),
	}
}

// boundedWhileItMoves has an autoscaler want fewer while its unit, which is not divided any more, leaves a place.
func boundedWhileItMoves(seed int) []Happening {
	return []Happening{
		on("autoscale", 10, "one", "web", Happening{Name: "a", N: 75}),
		on("divide", 12, "one", "web", Happening{Physical: "west", N: 42}), // packed
		on("register", 14, "one", "web", Happening{Physical: "north"}),
		on("wait", 16, "one", "web", Happening{N: 40 + seed}),
		on("drain", 18, "one", "web", Happening{Physical: "east"}),
		on("wait", 20, "one", "web", Happening{N: 8 * seed}),
		on("undivide", 22, "one", "web", Happening{}),
		on("wait", 24, "one", "web", Happening{N: 6 * seed}),
		on("autoscale", 26, "one", "web", Happening{Name: "a", N: 50}),
	}
}

func on(verb string, step int, cluster, namespace string, h Happening) Happening {
	h.Verb, h.At, h.Namespace = verb, step, namespace
	h.Cluster = logicalcluster.Name(cluster)
	return h
}

func TestWorldsThatOnceFailed(t *testing.T) {
	for _, k := range known {
		t.Run(k.seed, func(t *testing.T) {
			copies := 0
			for seed := 1; seed <= 6; seed++ {
				o := Run(t, Options{Seed: uint64(seed), Script: k.script(seed)})
				copies += o.Copies
				if o.Broken != nil {
					t.Errorf("interleaved by %d: %s: %s (%s)", seed, o.Broken.Invariant, o.Broken.Detail, k.lesson)
				}
			}
			if copies == 0 {
				t.Error("nothing was copied in these worlds")
			}
		})
	}
}
