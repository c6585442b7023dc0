package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/pace"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// How many units move at a time.
const (
	defaultMaxMoves     = 20
	defaultMaxMovesEach = 10
	// maxMovesOfTenant is how many units of one logical cluster move for other causes than
	// a drain.
	maxMovesOfTenant = 5
)

// moves counts the transitions that the informer knows: what is in etcd, a little later.
// Servers that begin some at the same moment may be over the bounds by as many.
type moves struct {
	mu sync.Mutex
	// units have their transitions with the times of this server, see times.
	units map[controller.Request]*placementv1alpha1.Transition
	known map[controller.Request]times
	// healthy are the times from which on rollouts soak, likewise.
	healthy map[controller.Request]moment
	// namespaces counts them, without a name.
	namespaces map[controller.Request]int
	// queue has the units that said that they wait for room when they were looked at last.
	queue pace.Queue
	// kept are the units that were found to be kept from moving, or returning, when they were looked at last, and
	// are tried again by and by, see tryAgain.
	kept map[controller.Request]bool
	// available is since when this server has known of units that all is available where they go, and draining
	// that their traffic is withdrawn.
	available, draining map[controller.Request]lasting
	// standstill has for how long this process stood still; stood is what of that is in the times above.
	standstill *controller.Standstill
	stood      time.Duration
}

// lasting is what has been known since a time of a phase that began at another one.
type lasting struct{ phase, known time.Time }

func newMoves() *moves {
	return &moves{units: map[controller.Request]*placementv1alpha1.Transition{}, known: map[controller.Request]times{}, healthy: map[controller.Request]moment{}, namespaces: map[controller.Request]int{}, available: map[controller.Request]lasting{}, draining: map[controller.Request]lasting{}, kept: map[controller.Request]bool{}}
}

// drainsSince is since when this server has known that the traffic of a unit is withdrawn: that its transition
// is Draining, all objects say so, and so does what is published of them. The server that began the phase may have ended at once, so that until then
// nobody could see where traffic is to go; and who follows that has to connect to this one first.
func (m *moves) drainsSince(key controller.Request, t *placementv1alpha1.Transition, isWithdrawn bool, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goOn()
	return last(m.draining, key, t, t != nil && t.Phase == placementv1alpha1.TransitionDraining && isWithdrawn, now)
}

// availableSince is since when this server has known that all is available where a unit goes, in the phase Starting; zero
// if it was not when it looked last.
func (m *moves) availableSince(key controller.Request, t *placementv1alpha1.Transition) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goOn()
	if l := m.available[key]; l.phase.Equal(t.Since.Time) {
		return l.known
	}
	return time.Time{}
}

// noteAvailable notes whether it is.
func (m *moves) noteAvailable(key controller.Request, t *placementv1alpha1.Transition, is bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last(m.available, key, t, is && t.Phase == placementv1alpha1.TransitionStarting, now)
}

// last is since when something has been so in a phase without a break; now if it is not.
func last(all map[controller.Request]lasting, key controller.Request, t *placementv1alpha1.Transition, is bool, now time.Time) time.Time {
	if !is {
		delete(all, key)
		return now
	}
	l, ok := all[key]
	if !ok || !l.phase.Equal(t.Since.Time) {
		l = lasting{phase: t.Since.Time, known: now}
		all[key] = l
	}
	return l.known
}

// observe takes note of a Placement, and reports whether that made room for others. live says that a watch
// showed it, see times.
func (m *moves) observe(old, new *placementv1alpha1.Placement, now time.Time, live bool) (room bool) {
	key := controller.RequestFor(cmp.Or(new, old))
	var t *placementv1alpha1.Transition
	if new != nil {
		t = new.Spec.Transition
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goOn()
	if new == nil {
		m.queue.Remove(pace.Unit(key))
		delete(m.kept, key)
	}
	_, moved := m.units[key]
	m.put(key, m.byOwnClock(key, t, now, live))
	m.soaks(key, new, now, live)
	return moved && t == nil
}

// set notes the transition of a unit; nil is none.
func (m *moves) set(key controller.Request, t *placementv1alpha1.Transition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, t)
}

// put is set with the lock held.
func (m *moves) put(key controller.Request, t *placementv1alpha1.Transition) {
	if t == nil {
		delete(m.available, key)
		delete(m.draining, key)
		delete(m.known, key)
	}
	_, moved := m.units[key]
	namespace := controller.Request{Cluster: key.Cluster, Namespace: key.Namespace}
	switch {
	case t == nil && moved:
		delete(m.units, key)
		if m.namespaces[namespace]--; m.namespaces[namespace] == 0 {
			delete(m.namespaces, namespace)
		}
	case t != nil:
		m.queue.Remove(pace.Unit(key))
		if m.units[key] = t; !moved {
			m.namespaces[namespace]++
		}
	}
}

// keep notes that a unit is kept from moving, and says how many are.
func (m *moves) keep(key controller.Request) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[key] = true
	return len(m.kept)
}

// release takes that back.
func (m *moves) release(key controller.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, key)
}

// moving says that a unit moves.
func (m *moves) moving(key controller.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.units[key] != nil
}

// in says that a unit of the namespace of an object moves.
func (m *moves) in(object controller.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.namespaces[controller.Request{Cluster: object.Cluster, Namespace: object.Namespace}] > 0
}

// wait puts a unit into the queue, and says how many are ahead of it, see pace.Ahead.
func (m *moves) wait(key controller.Request, move pace.Move, since time.Time) (ahead int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue.Put(pace.Waiting{Unit: pace.Unit(key), Move: move, Since: since})
	return m.queue.Ahead(pace.Unit(key))
}

// waits says that a unit is in the queue.
func (m *moves) waits(key controller.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.Has(pace.Unit(key))
}

// stopWaiting takes a unit out of the queue, and reports whether it was in it.
func (m *moves) stopWaiting(key controller.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.Remove(pace.Unit(key))
}

// take counts a transition that is about to begin, ahead of the informer, unless there is no
// room for it: full says why. What moves already may go elsewhere, or back.
func (c *Controller) take(key controller.Request, t *placementv1alpha1.Transition) (full string) {
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	return c.takeLocked(key, t)
}

// takeLocked is take with the lock held.
func (c *Controller) takeLocked(key controller.Request, t *placementv1alpha1.Transition) (full string) {
	if _, moves := c.moves.units[key]; !moves {
		if full = c.load().Full(c.moveOf(key, t)); full != "" {
			return full
		}
	}
	c.moves.put(key, t)
	return ""
}

// others are the other units that move.
func (c *Controller) others(key controller.Request) map[controller.Request]*placementv1alpha1.Transition {
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	others := maps.Clone(c.moves.units)
	delete(others, key)
	return others
}

// takeBeside is take for who was told where to go beside others; ok is false if one moves now
// that goes there, too, and was none of these: it may have taken the room.
func (c *Controller) takeBeside(key controller.Request, t *placementv1alpha1.Transition, others map[controller.Request]*placementv1alpha1.Transition) (full string, ok bool) {
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	for other, moves := range c.moves.units {
		if _, known := others[other]; !known && other != key && slices.ContainsFunc(moves.To, func(name string) bool { return slices.Contains(t.To, name) }) {
			return "", false
		}
	}
	return c.takeLocked(key, t), true
}

// full says what keeps a unit from beginning to move, as far as it is known before it is asked
// where it goes: that costs a review, and many may wait.
func (c *Controller) full(key controller.Request, t *placementv1alpha1.Transition) string {
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	if _, moves := c.moves.units[key]; moves {
		return ""
	}
	return c.load().Full(c.moveOf(key, t))
}

// load counts what moves; the lock is held.
func (c *Controller) load() *pace.Load {
	l := pace.NewLoad(pace.Bounds{Most: c.MaxMoves, Each: c.MaxMovesEach, Tenant: maxMovesOfTenant})
	for key, t := range c.moves.units {
		l.Add(c.moveOf(key, t))
	}
	return l
}

// moveOf is what counts of a transition.
func (c *Controller) moveOf(key controller.Request, t *placementv1alpha1.Transition) pace.Move {
	now := c.Clock.Now()
	m := pace.Move{Cluster: key.Cluster, Cause: t.Cause, From: t.From, To: t.To, NotArrived: pace.NotArrived(t, now), NotGone: pace.NotGone(t, now)}
	if t.Cause == placementv1alpha1.CauseDrain {
		for _, name := range t.From {
			if pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name}); ok && pc.Spec.Drain.Requested && pc.Spec.Drain.MaxMoving > 0 && m.Rate == 0 {
				m.Drained, m.Rate = name, int(pc.Spec.Drain.MaxMoving)
			}
		}
	}
	if t.Cause == placementv1alpha1.CausePolicy || t.Cause == placementv1alpha1.CauseReturn {
		m.Budgets = c.budgets(key)
	}
	return m
}

// budgets are those of the policies that a unit hears: of now, so that whoever lowers one stops
// what has not begun.
func (c *Controller) budgets(key controller.Request) []pace.Budget {
	policies := slices.DeleteFunc(c.policiesOf(key), func(p placement.Policy) bool { return p.MaxMoving == nil })
	if len(policies) == 0 {
		return nil
	}
	u := placement.Unit{Name: key.Name, LogicalCluster: key.Cluster, Namespace: key.Namespace}
	if n, ok := c.Namespaces.Get(controller.Request{Cluster: key.Cluster, Name: key.Namespace}); ok {
		u.NamespaceLabels = n.Labels
	}
	if lc, ok := c.LogicalClusters.Get(controller.Request{Cluster: scope.Root, Name: key.Cluster.String()}); ok {
		u.LogicalClusterLabels = lc.Labels
	}
	var budgets []pace.Budget
	for _, p := range placement.Bounding(policies, u) {
		b := pace.Budget{Policy: p.String(), Key: p.Name, Most: int(*p.MaxMoving)}
		if p.Level != placementv1alpha1.PolicyGlobal {
			b.Key = key.Cluster.String() + "/" + p.Name
		}
		budgets = append(budgets, b)
	}
	return budgets
}

// wake looks at those of the queue for which there is room now.
func (c *Controller) wake() {
	c.moves.mu.Lock()
	next := c.load().Next(&c.moves.queue)
	c.moves.mu.Unlock()
	for _, unit := range next {
		c.queue.Enqueue(controller.Request(unit))
	}
}

// queued is that a unit waits for room to move. Since when it waits to move is in its status:
// several servers have one order, and it survives them.
func (c *Controller) queued(u *unit, t *placementv1alpha1.Transition, full string) (*metav1.Condition, controller.Result, error) {
	since := c.Clock.Now()
	if said := meta.FindStatusCondition(u.placement.Status.Conditions, placementv1alpha1.ConditionMoving); said != nil && said.Status == metav1.ConditionFalse {
		since = said.LastTransitionTime.Time
	}
	ahead := c.moves.wait(u.key, c.moveOf(u.key, t), since)
	if ahead > 0 {
		full += fmt.Sprintf("; at most %d of the logical cluster wait for longer", ahead)
	}
	return stays(placementv1alpha1.ReasonQueued, full, queuedInterval*time.Duration(1+ahead/queuedEach))
}
