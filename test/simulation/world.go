package simulation

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// Options are what a world is made from.
type Options struct {
	Seed uint64
	// Script is what happens to the world; nil takes the one of the seed.
	Script []Happening
	// Bugs are planted.
	Bugs Bugs
	// Record keeps a transcript.
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
	// Digest is equal for equal histories.
	Digest uint64
}

// Violation says which invariant did not hold.
type Violation struct{ Invariant, Detail string }

// World is one run.
type World struct {
	rng  *rand.Rand
	now  time.Time
	step int
	bugs Bugs

	api      *kube.Server // of the control plane
	control  *control     // nil while the server is down
	clusters []*physical
	ledger   *ledger
	backup   kube.Backup

	timers timers
	timed  int
	// slow is what the watches of lag behind; hurry, that nothing else happens.
	slow  schema.GroupResource
	hurry bool
	// troubled says that requests and replies get lost.
	troubled bool

	record     bool
	transcript []string
	digest     uint64
	broken     *Violation
}

// controlPlane is the id of the control plane.
const controlPlane = "cp-1"

// maxSettling bounds the steps that a world takes to come to rest, calm is how
// long it has to be at rest: longer than anybody waits before looking again.
const (
	maxSettling   = 20000
	quietInterval = 15 * time.Minute
)

// Run runs a world to its end.
func Run(o Options) Outcome {
	if o.Script == nil {
		o.Script = Script(o.Seed)
	}
	w := newWorld(o)
	w.live(o.Script)
	if w.broken == nil {
		w.settle()
	}
	w.end()
	out := Outcome{
		Seed: o.Seed, Script: o.Script, Broken: w.broken, Transcript: w.transcript,
		Steps: w.step, Writes: w.api.Writes(), Digest: w.digest,
	}
	for _, p := range w.clusters {
		out.Writes += p.api.Writes()
	}
	return out
}

func newWorld(o Options) *World {
	w := &World{
		rng: rand.New(rand.NewPCG(o.Seed, 1)), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		bugs: o.Bugs, record: o.Record, troubled: true, digest: 14695981039346656037,
	}
	if w.rng.IntN(2) == 0 {
		w.slow = content[w.rng.IntN(len(content))]
	}
	w.api = kube.New("up", func() time.Time { return w.now })
	w.api.Logical = true
	w.api.MayEnter = func(by string) bool { return isSyncer(by) || by == system }
	w.ledger = newLedger(w)
	w.api.Audit = w.audit
	for _, name := range []string{"east", "west", "north"} {
		w.clusters = append(w.clusters, newPhysical(w, name))
	}
	w.makeLogicalClusters()
	w.startServer()
	for _, p := range w.clusters[:2] {
		p.register()
		p.startSyncer()
	}
	return w
}

// live lets the script happen while everybody works.
func (w *World) live(script []Happening) {
	for i := 0; w.broken == nil && i < len(script); {
		if w.step >= script[i].At || !w.advance() {
			w.step = max(w.step, script[i].At)
			w.happen(script[i])
			i++
		}
	}
	for range 50 {
		if w.broken == nil {
			w.advance()
		}
	}
}

// settle repairs everything, waits until nothing changes any more, and checks
// what has become of the world.
func (w *World) settle() {
	w.say("--- repairs")
	w.repair()
	writes, since := w.writes(), w.now
	for range maxSettling {
		if w.broken != nil {
			return
		}
		if n := w.writes(); n != writes {
			writes, since = n, w.now
		}
		if w.advance() {
			continue
		}
		if w.now.Sub(since) > quietInterval || len(w.timers) == 0 {
			w.converged()
			return
		}
		w.pass(w.timers[0].at.Sub(w.now))
	}
	w.fail(ComesToRest, "there are writes after %d steps without any trouble; the last is %s", maxSettling, w.ledger.last)
}

func (w *World) writes() int64 {
	n := w.api.Writes()
	for _, p := range w.clusters {
		n += p.api.Writes()
	}
	return n
}

// advance lets somebody who has something to do take one step; false means that
// nobody has.
func (w *World) advance() bool {
	ready, total := w.ready()
	if total == 0 {
		w.hurry = true
		ready, total = w.ready()
		w.hurry = false
	}
	if total == 0 {
		return false
	}
	w.step++
	w.pass(time.Duration(1+w.rng.IntN(5)) * time.Millisecond)
	n := w.rng.IntN(total)
	for _, a := range ready {
		if n -= a.weight; n < 0 {
			a.step()
			break
		}
	}
	return true
}

// ready are the actors that have something to do, and the sum of their weights.
func (w *World) ready() (ready []actor, total int) {
	for _, a := range w.actors() {
		if a.ready() {
			ready = append(ready, a)
			total += a.weight
		}
	}
	return ready, total
}

// arrives says that a change may be delivered now: what is watched slowly comes when
// nothing else happens, and now and then.
func (w *World) arrives(i *kube.Informer) bool {
	return i.Pending() && (i.Resource() != w.slow || w.hurry || w.rng.IntN(20) == 0)
}

// actor is somebody who may take a step.
type actor struct {
	weight int
	ready  func() bool
	step   func()
}

func (w *World) actors() []actor {
	var all []actor
	if w.control != nil {
		all = append(all, w.control.actors...)
	}
	for _, p := range w.clusters {
		all = append(all, p.actors...)
		if p.session != nil {
			all = append(all, p.session.actors...)
		}
	}
	return all
}

func (w *World) end() {
	w.stopServer()
	for _, p := range w.clusters {
		p.stopSyncer()
		p.work.stop()
	}
}

// say adds a line to the transcript and to the digest.
func (w *World) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for i := range len(line) {
		w.digest = (w.digest ^ uint64(line[i])) * 1099511628211
	}
	if w.record {
		w.transcript = append(w.transcript, fmt.Sprintf("%5d %s %s", w.step, w.now.Format("15:04:05.000"), line))
	}
}

// fail notes that an invariant does not hold. The first one counts.
func (w *World) fail(invariant, format string, args ...any) {
	if w.broken == nil {
		w.broken = &Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...)}
		w.say("BROKEN: %s: %s", invariant, w.broken.Detail)
	}
}

// timers is a heap, the next first.
type timers []timer

type timer struct {
	at  time.Time
	seq int
	f   func()
}

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at.Before(t[j].at) || t[i].at.Equal(t[j].at) && t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// after calls f when d has passed.
func (w *World) after(d time.Duration, f func()) {
	w.timed++
	heap.Push(&w.timers, timer{at: w.now.Add(d), seq: w.timed, f: f})
}

// pass lets time pass.
func (w *World) pass(d time.Duration) {
	w.now = w.now.Add(max(d, 0))
	for len(w.timers) > 0 && !w.timers[0].at.After(w.now) {
		heap.Pop(&w.timers).(timer).f()
	}
}
