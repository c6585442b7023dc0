package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// Options are what a world is made from.
type Options struct {
	Seed uint64
	// Script is what happens to the world; nil takes the one of the seed.
	Script []Happening
	// Bugs are planted.
	Bugs Bugs
	// Record keeps a transcript, and the digest of it.
	Record bool
}

// Outcome is how a world ended.
type Outcome struct {
	Seed   uint64
	Script []Happening
	// Broken is the first invariant that did not hold; nil if all did.
	Broken *Violation
	// Transcript has a line for each step, if recorded.
	Transcript []string
	Steps      int
	// Writes counts what changed in all API servers.
	Writes int64
	// Copies counts what syncers made on physical clusters.
	Copies int
	// Digest is equal for equal histories, if they are recorded.
	Digest uint64
}

// Violation says which invariant did not hold.
type Violation struct{ Invariant, Detail string }

// World is one run, inside a bubble of testing/synctest.
type World struct {
	ctx context.Context
	rng *rand.Rand
	// steps is also read where shells work, for the transcript.
	steps atomic.Int64
	// plans counts what syncers planned.
	plans atomic.Uint64
	bugs  Bugs

	api      *kube.Server // the database of the control plane
	servers  []*server
	started  int
	clusters []*physical
	ledger   *ledger
	backup   *kube.Backup
	// withdraws says that people take objects off targets one by one.
	withdraws bool
	// divides says that replicas are divided.
	divides bool
	// doubles: another scheduler has units on two physical clusters, where a claim has other data on each.
	doubles bool
	// flat says that pods of several physical clusters reach each other.
	flat bool
	// imports says that Services are imported: it is flat, or users lead Services somewhere.
	imports bool
	// volumes says that users claim volumes, stored what their backend has by handle.
	volumes bool
	stored  map[string]*stored
	// data says that data move: StatefulSets claim volumes, and classes have them copied or restored, from what snapshots
	// has by handle.
	data      bool
	snapshots map[string]int
	// manifests says that an admin makes Manifests.
	manifests bool
	// gadgets says that Manifests carry objects of a kind which physical clusters may stop to serve.
	gadgets bool
	// fronts says that Services lead to pods on several physical clusters.
	fronts bool
	// scales says that users have autoscalers; loads are what these follow, by Deployment.
	scales bool
	loads  map[kube.Key]int64
	// crons says that users have CronJobs; losesRuns that these may run where nobody can stop them.
	crons, losesRuns bool
	// budgets says that users have disruption budgets.
	budgets bool
	// entries says that Ingresses lead to these Services.
	entries bool
	// content is what logical clusters serve in namespaces.
	content []*metav1.APIResourceList
	// people is the line of users, movers that of what moves objects between targets.
	people, movers *line

	net     network
	waiting []*call
	replies []*call
	streams []*stream
	// possible is what options returned last.
	possible []option

	// progress is how far the script is: a process that starts asks for so much that
	// a read counts less than anything else.
	progress int

	// probing: what does not hold yet is missing, and nothing more.
	probing, missing bool

	timers timers
	// restores counts how often the control plane's database was restored.
	restores int
	timed    int
	// slow is what the watches of lag behind.
	slow string
	// troubled says that requests and replies get lost.
	troubled bool

	encodingsMu sync.Mutex
	encodings   map[encoding][]byte

	sayMu      sync.Mutex
	record     bool
	transcript []string
	digest     uint64
	broken     atomic.Pointer[Violation]
}

// controlPlane is the id of the control plane: the UID of the first object.
const controlPlane = "up-1"

const (
	// maxSettling bounds the steps that a world takes to come to rest.
	maxSettling = 40000
	// pause without anything to do brings the next happening.
	pause = 500 * time.Millisecond
	// readsPerStep is how many reads are as much as one other step of the script.
	readsPerStep = 6
	// restTime is how long it has to be at rest: longer than anybody waits before looking
	// again.
	restTime = 150 * time.Second
	// shortRest is enough for most of those worlds that are as they should be by then.
	shortRest = 40 * time.Second
)

// run lives through a world in the bubble of the caller.
func run(o Options) Outcome {
	if o.Script == nil {
		o.Script = Script(o.Seed)
	}
	w := newWorld(o)
	w.divides = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "divide" })
	w.doubles = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "bind" && len(boundOn(h)) > 1 })
	w.withdraws = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "withdraw" })
	w.flat = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "join" || h.Verb == "part" })
	w.volumes = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "claim" })
	ordinals := slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "front set" })
	w.data = ordinals || slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "make set" || h.Verb == "claim data" })
	w.volumes = w.volumes || w.data
	w.gadgets = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "carry gadget" })
	w.entries = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "enter" })
	w.fronts = w.entries || ordinals || slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "front" })
	w.scales = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "autoscale" })
	w.crons = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "schedule" })
	w.losesRuns = slices.ContainsFunc(o.Script, func(h Happening) bool { return slices.Contains(losing, h.Verb) })
	w.budgets = slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "budget" })
	w.manifests = w.gadgets || slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "carry" })
	w.imports = w.flat || slices.ContainsFunc(o.Script, func(h Happening) bool { return h.Verb == "lead" })
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	w.ctx = ctx
	w.build()
	w.live(o.Script)
	if !w.isBroken() {
		w.settle()
	}
	w.end(cancel)
	out := Outcome{
		Seed: o.Seed, Script: o.Script, Broken: w.broken.Load(), Transcript: w.transcript,
		Steps: w.step(), Writes: w.writes(), Copies: len(w.ledger.made), Digest: w.digest,
	}
	return out
}

func newWorld(o Options) *World {
	w := &World{
		rng: rand.New(rand.NewPCG(o.Seed, 1)), bugs: o.Bugs, record: o.Record, troubled: true,
		digest: 14695981039346656037, encodings: map[encoding][]byte{}, stored: map[string]*stored{}, snapshots: map[string]int{}, loads: map[kube.Key]int64{},
	}
	w.net.wake = make(chan struct{}, 1)
	if w.rng.IntN(2) == 0 {
		w.slow = common[w.rng.IntN(len(common))].Resource
	}
	w.api = kube.New("up", w.now)
	w.api.Logical, w.api.Unruled = true, true
	w.ledger = newLedger(w)
	w.api.Audit = w.audit
	return w
}

func (w *World) now() time.Time { return time.Now() }

func (w *World) step() int { return int(w.steps.Load()) }

// build makes what is there from the beginning.
func (w *World) build() {
	for _, name := range []string{"root", "one", "two"} {
		c := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"name": name}, Annotations: map[string]string{"kcp.io/cluster": "root"},
		}}
		w.must(w.api.Create(admin, logicalClusters, c))
	}
	// Namespaces of the logical cluster "two" run on two physical clusters.
	two := int32(2)
	policy := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "twice", Annotations: map[string]string{"kcp.io/cluster": "root"}}}
	policy.Spec.LogicalClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "two"}}
	policy.Spec.Count = &two
	w.must(w.api.Create(admin, policies, policy))
	w.makeNamespaces()
	w.makeAddons()
	for _, name := range []string{"east", "west", "north"} {
		w.clusters = append(w.clusters, newPhysical(w, name))
	}
	w.makeRuntimeClasses()
	w.people = newLine(w, "people", person, func() *front { return w.frontFor(w.step())() })
	w.movers = newLine(w, "movers", system, func() *front { return w.frontFor(w.step())() })
	w.startAnotherServer()
	for _, p := range w.clusters[:2] {
		p.register()
		p.startSyncer()
	}
	w.begin()
}

// begin lets everybody start without trouble, as far as the seed wants it.
func (w *World) begin() {
	w.troubled = false
	for range 3000 {
		if w.clusters[0].syncing() && w.clusters[1].syncing() {
			break
		}
		w.advance(time.Second)
	}
	w.troubled = true
}

func (w *World) startAnotherServer() {
	w.started++
	w.startServer(fmt.Sprintf("server.%d", w.started))
}

func (w *World) must(_ object, err error) {
	if err != nil {
		panic(err)
	}
}

// wait lets everybody do what can be done without an answer.
func (w *World) wait() {
	synctest.Wait()
}

// live lets the script happen while everybody works.
func (w *World) live(script []Happening) {
	w.progress = 0
	for i := 0; !w.isBroken() && i < len(script); {
		if w.progress >= script[i].At*readsPerStep || w.advance(pause) == quiet {
			w.progress = max(w.progress, script[i].At*readsPerStep)
			w.happen(script[i])
			i++
		}
	}
	for range 50 {
		if !w.isBroken() {
			w.advance(100 * time.Millisecond)
		}
	}
}

// settle repairs everything, waits until nothing changes any more, and checks what
// has become of the world.
func (w *World) settle() {
	w.say("--- repairs")
	w.repair()
	changes, since := w.changes(), w.now()
	patient, probed := w.rng.IntN(4) == 0, int64(-1)
	for range maxSettling {
		if w.isBroken() {
			return
		}
		if n := w.changes(); n != changes {
			changes, since = n, w.now()
		}
		if w.advance(10*time.Second) == acted {
			continue
		}
		switch rest := w.now().Sub(since); {
		case rest > restTime:
			w.converged()
			return
		case rest > shortRest && !patient && probed != changes:
			if probed = changes; w.hasConverged() {
				return
			}
		}
	}
	w.fail(ComesToRest, "there are writes after %d steps without any trouble; the last is %s", maxSettling, w.ledger.last)
}

// hasConverged says whether all is as it should be already.
func (w *World) hasConverged() bool {
	w.wait()
	w.probing, w.missing = true, false
	defer func() { w.probing = false }()
	w.converged()
	return !w.missing
}

// writes counts all changes, changes those that are no sign of life.
func (w *World) writes() int64 {
	n := w.api.Writes()
	for _, p := range w.clusters {
		n += p.api.Writes()
	}
	return n
}

func (w *World) changes() int64 {
	n := w.writes() - int64(len(w.api.Log(leases)))
	if w.volumes || w.crons { // where a claim or a Job keeps a drain from its end, how long that goes is written every minute
		n -= int64(len(w.api.Log(physicalClusters)))
	}
	return n
}

// end ends everybody.
func (w *World) end(cancel context.CancelFunc) {
	w.troubled = false
	w.people.die()
	w.movers.die()
	for _, p := range w.clusters {
		for _, s := range p.syncers {
			s.up.die()
			s.down.die()
		}
	}
	for _, s := range w.servers {
		s.line.die()
	}
	cancel()
	for _, t := range w.streams {
		t.end(errUnreachable)
	}
	time.Sleep(time.Minute)
	w.wait()
}

// say adds a line to the transcript and to the digest.
func (w *World) say(format string, args ...any) {
	if !w.record {
		return
	}
	w.sayMu.Lock()
	defer w.sayMu.Unlock()
	line := fmt.Sprintf("%5d %s ", w.step(), w.now().Format("15:04:05.000")) + fmt.Sprintf(format, args...)
	for i := range len(line) {
		w.digest = (w.digest ^ uint64(line[i])) * 1099511628211
	}
	w.transcript = append(w.transcript, line)
}

func (w *World) isBroken() bool { return w.broken.Load() != nil }

// fail notes that an invariant does not hold. The first one counts.
func (w *World) fail(invariant, format string, args ...any) {
	if w.probing {
		w.missing = true
		return
	}
	v := &Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...)}
	if w.broken.CompareAndSwap(nil, v) {
		w.say("BROKEN: %s: %s", v.Invariant, v.Detail)
	}
}
