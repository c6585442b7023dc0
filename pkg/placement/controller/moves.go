package controller

import (
	"slices"
	"sync"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// How many units move at a time. Each move makes copies, pulls images and takes room
// twice: a fleet that moves at once would stand still.
const (
	defaultMaxMoves     = 20
	defaultMaxMovesEach = 10
)

// moves counts the transitions that the informer knows: what is in etcd, a little later.
// Servers that begin some at the same moment may be over the bounds by as many.
type moves struct {
	mu     sync.Mutex
	units  map[controller.Request]*placementv1alpha1.Transition
	counts map[string]int
}

func newMoves() *moves {
	return &moves{units: map[controller.Request]*placementv1alpha1.Transition{}, counts: map[string]int{}}
}

func (m *moves) observe(old, new *placementv1alpha1.Placement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if new == nil {
		m.set(keyOf(old), nil)
	} else {
		m.set(keyOf(new), new.Spec.Transition)
	}
}

// began counts one ahead of the informer.
func (m *moves) began(key controller.Request, t *placementv1alpha1.Transition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(key, t)
}

func (m *moves) set(key controller.Request, t *placementv1alpha1.Transition) {
	if before := m.units[key]; before != nil {
		for _, name := range slices.Concat(before.To, before.From) {
			if m.counts[name]--; m.counts[name] == 0 {
				delete(m.counts, name)
			}
		}
		delete(m.units, key)
	}
	if t == nil {
		return
	}
	m.units[key] = t
	for _, name := range slices.Concat(t.To, t.From) {
		m.counts[name]++
	}
}

func (m *moves) has(key controller.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.units[key]
	return ok
}

// room reports whether a unit that does not move yet may begin to.
func (m *moves) room(key controller.Request, t *placementv1alpha1.Transition, most, each int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, moves := m.units[key]; moves {
		return true
	}
	return len(m.units) < most && !slices.ContainsFunc(slices.Concat(t.To, t.From), func(name string) bool { return m.counts[name] >= each })
}
