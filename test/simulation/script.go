package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Happening is one thing that happens to a world, at a step or later. Which of
// the fields count, and what they are, depends on the verb; whatever does not
// apply when it happens does nothing.
type Happening struct {
	At        int
	Verb      string
	Cluster   logicalcluster.Name
	Namespace string
	Resource  schema.GroupResource
	Name      string
	Physical  string
	N         int
}

// String is for transcripts.
func (h Happening) String() string {
	return fmt.Sprintf("at %d: %s %s|%s %s %s on %s, %d", h.At, h.Verb, h.Cluster, h.Namespace, h.Resource.Resource, h.Name, h.Physical, h.N)
}

// verb is something that may happen.
type verb struct {
	name   string
	weight int
	always bool
	do     func(*World, Happening)
}

// verbs are what may happen, and how often. The first ones happen in all worlds;
// of the rest each world has some, so that worlds differ in kind.
var verbs = []verb{
	{"create", 10, true, (*World).createObject},
	{"edit", 6, true, (*World).editObject},
	{"delete", 6, true, (*World).deleteObject},
	{"replace", 4, false, (*World).replaceObject},
	{"forge", 2, false, (*World).forge},
	{"delete namespace", 2, false, (*World).deleteNamespace},
	{"replace namespace", 2, false, (*World).replaceNamespace},
	{"withdraw", 3, false, (*World).withdraw},
	{"return", 3, false, (*World).giveBack},
	{"limit", 2, false, (*World).limit},
	{"lift limit", 1, false, (*World).liftLimit},
	{"sandbox", 2, false, (*World).sandbox},
	{"delete a mirror", 4, false, (*World).deleteObserved},

	{"edit below", 3, false, (*World).editBelow},
	{"flap below", 3, false, (*World).flapBelow},
	{"strip below", 2, false, (*World).stripBelow},
	{"delete below", 4, false, (*World).deleteBelow},
	{"restore below", 2, false, (*World).restoreBelow},
	{"resurrect below", 2, false, (*World).resurrectBelow},
	{"clone below", 2, false, (*World).cloneBelow},
	{"hold below", 2, false, (*World).holdBelow},
	{"squat", 4, false, (*World).squat},
	{"squat namespace", 2, false, (*World).squatNamespace},
	{"leave", 2, false, (*World).leave},
	{"delete namespace below", 2, false, (*World).deleteNamespaceBelow},

	{"crash syncer", 5, false, (*World).crashSyncer},
	{"crash server", 3, false, (*World).crashServer},
	{"cut up", 3, false, (*World).cutUp},
	{"cut down", 3, false, (*World).cutDown},
	{"break watch", 4, false, (*World).breakWatch},
	{"short list", 4, false, (*World).shortList},
	{"stop syncer", 2, false, (*World).stopSyncer},
	{"second syncer", 2, false, (*World).secondSyncer},
	{"second server", 2, false, (*World).secondServer},
	{"lose lease", 2, false, (*World).loseLease},
	{"wait", 4, true, (*World).pause},

	{"cordon", 1, false, (*World).cordon},
	{"register", 1, false, (*World).registerLate},
	{"forget", 1, false, (*World).forget},
	{"force", 2, false, (*World).force},
	{"back up", 2, false, (*World).backUp},
	{"restore", 1, false, (*World).restore},
	{"order orphans", 2, false, (*World).orderOrphans},

	{"back up below", 1, false, (*World).backUpBelow},
	{"rewind below", 1, false, (*World).rewindBelow},
	{"swap credentials", 1, false, (*World).swapCredentials},
}

// later are verbs that came later, each group in a third of the worlds. Whether a world
// has them is drawn apart, so that the others are what they were before.
var later = [][]verb{
	{ // what moves namespaces
		{"pin", 6, false, (*World).pin},
		{"drain", 2, false, (*World).drain},
	},
	{ // and what has them leave what is silent
		{"lose", 4, false, (*World).lose},
		{"limit silence", 4, false, (*World).limitSilence},
	},
	{ // what users keep from each other
		{"restrict", 5, false, (*World).restrict},
		{"lift restriction", 3, false, (*World).liftRestriction},
	},
	{ // and what divides them
		{"select", 5, false, (*World).selectObjects},
		{"unselect", 2, false, (*World).unselectObjects},
		{"relabel", 8, false, (*World).relabel},
		{"serve", 4, false, (*World).serve},
	},
	{ // and what divides replicas
		{"divide", 6, false, (*World).divide},
		{"undivide", 2, false, (*World).undivide},
		{"scale", 8, false, (*World).scale},
	},
	{ // and what changes of their copies
		{"override", 6, false, (*World).override},
	},
	{ // and who decides
		{"delegate", 3, false, (*World).delegate},
		{"bind", 10, false, (*World).bind},
	},
	{ // and what has them come back
		{"prefer", 4, false, (*World).prefer},
	},
	{ // and which pods reach each other
		{"join", 3, false, (*World).join},
		{"part", 3, false, (*World).part},
	},
	{ // and where Services lead that select none
		{"lead", 4, false, (*World).lead},
	},
}

// latest came after those, each in a fifth of the worlds, and in none in which something else is provoked: these show
// what they did before.
var latest = [][]verb{
	{ // what the data of users are in
		{"claim", 6, false, (*World).claim},
		{"mount", 5, false, (*World).mount},
		{"unclaim", 3, false, (*World).unclaim},
		{"replace claim", 1, false, (*World).replaceClaim},
		{"delete claim below", 1, false, (*World).deleteClaimBelow},
	},
	{ // what admins have everywhere
		{"carry", 6, false, (*World).carry},
		{"uncarry", 3, false, (*World).uncarry},
		{"carry again", 1, false, (*World).recarry},
		{"pin carried", 1, false, (*World).pinCarried},
		{"squat carried", 2, false, (*World).squatCarried},
		{"meddle with carried", 3, false, (*World).meddleCarried},
	},
	{ // and what has their data move with what runs
		{"make set", 6, false, (*World).makeSet},
		{"change set", 4, false, (*World).changeSet},
		{"delete set", 2, false, (*World).deleteSet},
		{"claim data", 4, false, (*World).claimData},
		{"mount data", 4, false, (*World).mountData},
		{"move data", 10, false, (*World).moveData},
		{"meddle with data", 2, false, (*World).meddleWithData},
	},
	{ // and which kinds go
		{"carry gadget", 6, false, (*World).carryGadget},
		{"uncarry gadget", 4, false, (*World).uncarryGadget},
		{"undefine", 4, false, (*World).undefine},
	},
	{ // and whom Services lead to
		{"front", 8, false, (*World).front},
		{"move front", 8, false, (*World).moveFront},
	},
	{ // and what physical clusters refuse
		{"refuse below", 10, false, (*World).refuse},
		{"lose route", 6, false, (*World).loseRoute},
	},
	{ // and by which Ingresses
		{"enter", 6, false, (*World).enter},
	},
	{ // and to what has ordinals
		{"front set", 8, false, (*World).frontSet},
		{"scale set", 6, false, (*World).scaleSet},
	},
	{ // and what follows its load
		{"autoscale", 8, false, (*World).autoscale},
		{"load", 8, false, (*World).load},
	},
	{ // and what runs from time to time
		{"schedule", 10, false, (*World).schedule},
	},
	{ // and how many of it may be disrupted
		{"budget", 10, false, (*World).budget},
	},
}

func allVerbs() []verb {
	return slices.Concat(slices.Concat(later...), verbs, slices.Concat(latest...))
}

// happenings in a world.
const happenings = 60

// Script is what happens in the world of a seed. What is to be provoked happens in
// any case, and often.
func Script(seed uint64, provoked ...string) []Happening {
	rng := rand.New(rand.NewPCG(seed, 2))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	var bag []string
	asked := len(provoked) > 0
	if len(provoked) == 0 && rng.IntN(2) == 0 { // a world with favourites
		provoked = []string{verbs[rng.IntN(len(verbs))].name, verbs[rng.IntN(len(verbs))].name}
	}
	for _, v := range verbs {
		weight := v.weight
		switch chosen := rng.IntN(2) == 0; {
		case slices.Contains(provoked, v.name):
			weight = 30
		case !v.always && !chosen:
			continue
		}
		for range weight {
			bag = append(bag, v.name)
		}
	}
	add := func(group []verb, chosen bool) {
		for _, v := range group {
			weight := v.weight
			switch {
			case slices.Contains(provoked, v.name):
				weight = 30
			case !chosen:
				continue
			}
			for range weight {
				bag = append(bag, v.name)
			}
		}
	}
	drawn := func(i, of int) bool { return rand.New(rand.NewPCG(seed, uint64(3+i))).IntN(of) == 0 }
	for i, group := range later {
		add(group, drawn(i, 3))
	}
	for i, group := range latest {
		elsewhere := asked && !slices.ContainsFunc(group, func(v verb) bool { return slices.Contains(provoked, v.name) })
		add(group, !elsewhere && drawn(len(later)+i, 5))
	}
	clusters := []logicalcluster.Name{"one", "two"}[:1+rng.IntN(2)]
	spacing := 5 + rng.IntN(40)
	var script []Happening
	at := 0
	for range happenings/2 + rng.IntN(happenings) {
		at += rng.IntN(2 * spacing)
		script = append(script, Happening{
			At: at, Verb: pick(bag...), Cluster: clusters[rng.IntN(len(clusters))], Namespace: pick("web", "web", "db"),
			Resource: common[rng.IntN(len(common))], Name: pick("a", "a", "b"), Physical: pick("east", "west", "north"), N: rng.IntN(100),
		})
	}
	return script
}

// happen does one thing.
func (w *World) happen(h Happening) {
	w.wait()
	w.say("=== %s", h)
	for _, v := range allVerbs() {
		if v.name == h.Verb {
			v.do(w, h)
		}
	}
}
