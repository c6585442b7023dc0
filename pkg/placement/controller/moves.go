package controller

import (
	"slices"
	"sync"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// How many units move at a time. Each move makes copies, pulls images and takes room
// twice: a fleet that moves at once would stand still.
const (
	defaultMaxMoves     = 20
	defaultMaxMovesEach = 10
	// maxMovesOfTenant is how many units of one logical cluster move for other causes than
	// a drain.
	maxMovesOfTenant = 5
	// slotTime is how long a move that does not come on counts: what never becomes
	// available where it goes, or is never removed where it was as that is lost, keeps
	// nobody else from moving.
	slotTime = 5 * time.Minute
)

// moves counts the transitions that the informer knows: what is in etcd, a little later.
// Servers that begin some at the same moment may be over the bounds by as many.
type moves struct {
	mu    sync.Mutex
	units map[controller.Request]*placementv1alpha1.Transition
	// namespaces counts them, without a name.
	namespaces map[controller.Request]int
}

func newMoves() *moves {
	return &moves{units: map[controller.Request]*placementv1alpha1.Transition{}, namespaces: map[controller.Request]int{}}
}

func (m *moves) observe(old, new *placementv1alpha1.Placement) {
	if new == nil {
		m.set(controller.RequestFor(old), nil)
	} else {
		m.set(controller.RequestFor(new), new.Spec.Transition)
	}
}

// set notes the transition of a unit; nil is none.
func (m *moves) set(key controller.Request, t *placementv1alpha1.Transition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, t)
}

// put is set with the lock held.
func (m *moves) put(key controller.Request, t *placementv1alpha1.Transition) {
	_, moved := m.units[key]
	namespace := controller.Request{Cluster: key.Cluster, Namespace: key.Namespace}
	switch {
	case t == nil && moved:
		delete(m.units, key)
		if m.namespaces[namespace]--; m.namespaces[namespace] == 0 {
			delete(m.namespaces, namespace)
		}
	case t != nil:
		if m.units[key] = t; !moved {
			m.namespaces[namespace]++
		}
	}
}

// in says that a unit of the namespace of an object moves.
func (m *moves) in(object controller.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.namespaces[controller.Request{Cluster: object.Cluster, Namespace: object.Namespace}] > 0
}

// bounds are how many units move at a time: in all, and to or from one physical cluster.
type bounds struct{ most, each int }

// take counts a transition that is about to begin, ahead of the informer, unless there is
// no room for it. What moves already may go elsewhere, or back.
//
// Drains are counted apart from what tenants can cause, and of the latter each logical
// cluster has a share. A unit returns to a physical cluster to which none is on its way:
// what it reports as free is to be what is left by those before, and one that says that
// there is room where there is none keeps one unit waiting.
func (m *moves) take(key controller.Request, t *placementv1alpha1.Transition, b bounds, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, moves := m.units[key]; !moves && !m.room(key, t, b, now) {
		return false
	}
	m.put(key, t)
	return true
}

func (m *moves) room(key controller.Request, t *placementv1alpha1.Transition, b bounds, now time.Time) bool {
	drain := t.Cause == placementv1alpha1.CauseDrain
	all, tenant, each, comes := 0, 0, map[string]int{}, map[string]bool{}
	for k, other := range m.units {
		stuck := other.Phase == placementv1alpha1.TransitionStarting && now.Sub(other.Started.Time) > slotTime ||
			stamp.PhaseRemoves(other.Phase) && now.Sub(other.Since.Time) > slotTime
		if stuck {
			continue
		}
		for _, name := range other.To {
			comes[name] = true
		}
		if drain != (other.Cause == placementv1alpha1.CauseDrain) {
			continue
		}
		all++
		if k.Cluster == key.Cluster {
			tenant++
		}
		for _, name := range slices.Concat(other.To, other.From) {
			each[name]++
		}
	}
	if t.Cause == placementv1alpha1.CauseReturn && slices.ContainsFunc(t.To, func(name string) bool { return comes[name] }) {
		return false
	}
	full := func(name string) bool { return each[name] >= b.each }
	return all < b.most && (drain || tenant < maxMovesOfTenant) && !slices.ContainsFunc(slices.Concat(t.To, t.From), full)
}
