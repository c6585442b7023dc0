package controller

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// times are since when this server has known of a time that is stored. Another server may have written it, whose clock
// differs by minutes: held against the clock of this one, a phase would be over as it begins, or last for as long as
// the clocks differ.
//
//	the time that is stored          counts as
//	is one that this server knows    when it came to know it
//	a watch showed it just now       now
//	a list did, as after a start     what it says, and now if that is still to come: no other clock is known
type times struct{ started, since moment }

// moment is a time that is stored, and what it counts as.
type moment struct{ stored, counts time.Time }

func (m moment) at(stored metav1.Time, now time.Time, live bool) moment {
	switch {
	case m.stored.Equal(stored.Time) && !m.counts.IsZero():
		return m
	case !live && stored.Time.Before(now):
		return moment{stored.Time, stored.Time}
	}
	return moment{stored.Time, now}
}

// byOwnClock is a transition with the times that count; the lock is held.
func (m *moves) byOwnClock(key controller.Request, t *placementv1alpha1.Transition, now time.Time, live bool) *placementv1alpha1.Transition {
	if t == nil {
		return nil
	}
	k := m.known[key]
	k = times{k.started.at(t.Started, now, live), k.since.at(t.Since, now, live)}
	m.known[key] = k
	t = t.DeepCopy()
	t.Started, t.Since = metav1.NewTime(k.started.counts), metav1.NewTime(k.since.counts)
	return t
}

// goOn takes a standstill out of all times, before anything is compared with them: a drain time that passed while
// nobody could learn where traffic goes has not passed, nor has the time in which a new place could have become
// available. The lock is held.
func (m *moves) goOn() {
	if m.standstill == nil {
		return
	}
	stood, _ := m.standstill.Stood()
	by := stood - m.stood
	if m.stood = stood; by == 0 {
		return
	}
	for key, k := range m.known {
		m.known[key] = times{k.started.later(by), k.since.later(by)}
	}
	for key, h := range m.healthy {
		m.healthy[key] = h.later(by)
	}
	for _, all := range []map[controller.Request]lasting{m.available, m.draining} {
		for key, l := range all {
			all[key] = lasting{l.phase.Add(by), l.known.Add(by)}
		}
	}
}

func (m moment) later(by time.Duration) moment { return moment{m.stored, m.counts.Add(by)} }

// watchedSince is since when silence counts: from a while after the start, and after a standstill, as nobody was heard
// before.
func (c *Controller) watchedSince() time.Time {
	return c.Standstill.Since(c.watched, placement.Silence)
}

// transitionOf is the transition of a unit with the times that count, for decisions; what is written goes by what is
// stored.
func (c *Controller) transitionOf(u *unit) *placementv1alpha1.Transition {
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	c.moves.goOn()
	return c.moves.byOwnClock(u.key, u.placement.Spec.Transition, c.Clock.Now(), true)
}

// soaks is since when this server has known that what is rolled out is healthy; zero if nothing is. The lock is held.
func (m *moves) soaks(key controller.Request, p *placementv1alpha1.Placement, now time.Time, live bool) time.Time {
	if p == nil || p.Status.Rollout == nil || p.Status.Rollout.HealthySince == nil {
		delete(m.healthy, key)
		return time.Time{}
	}
	m.healthy[key] = m.healthy[key].at(*p.Status.Rollout.HealthySince, now, live)
	return m.healthy[key].counts
}

// healthySince is soaks for who decides.
func (c *Controller) healthySince(p *placementv1alpha1.Placement) time.Time {
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	c.moves.goOn()
	return c.moves.soaks(controller.RequestFor(p), p, c.Clock.Now(), true)
}
