package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/pace"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// movesSince is a placement whose transition another server wrote, by a clock that differs from that of this one.
func movesSince(phase placementv1alpha1.TransitionPhase, written time.Time) *placementv1alpha1.Placement {
	p := placementOf("west")
	p.Spec.Transition = &placementv1alpha1.Transition{
		Cause: placementv1alpha1.CausePolicy, Phase: phase, Started: metav1.NewTime(written), Since: metav1.NewTime(written),
		From: []string{"east"}, To: []string{"west"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 10},
	}
	return p
}

const skew = 5 * time.Minute

// What another server began has lasted since this one knows of it, whatever the clock of the other one says.
func TestPhasesLastByTheClockOfTheServerThatDecides(t *testing.T) {
	for name, c := range map[string]struct {
		written time.Time
		live    bool
		// counts is since when it has lasted, a second after this server saw it.
		counts time.Time
	}{
		"written by the same clock":                          {start, true, start},
		"the other clock is behind":                          {start.Add(-skew), true, start},
		"the other clock is ahead":                           {start.Add(skew), true, start},
		"found at the start":                                 {start.Add(-skew), false, start.Add(-skew)},
		"found at the start, the other clock is ahead of it": {start.Add(skew), false, start},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			p := movesSince(placementv1alpha1.TransitionDraining, c.written)
			key := controller.RequestFor(p)
			f.moves.observe(nil, p, start, c.live)
			f.clock.SetTime(start.Add(time.Second))
			u := &unit{key: key, placement: p}
			got := f.transitionOf(u)
			if !got.Since.Time.Equal(c.counts) || !got.Started.Time.Equal(c.counts) {
				t.Errorf("it lasts since %s, began %s; want %s", got.Since, got.Started, c.counts)
			}
			if !p.Spec.Transition.Since.Time.Equal(c.written) {
				t.Error("what is stored was changed")
			}
			f.moves.observe(p, p, start.Add(2*time.Second), true) // something else of it changes
			if again := f.transitionOf(u); !again.Since.Equal(&got.Since) {
				t.Errorf("it lasts since %s, and then since %s", got.Since, again.Since)
			}
			next := movesSince(placementv1alpha1.TransitionRemoving, c.written.Add(time.Minute))
			next.Spec.Transition.Started = p.Spec.Transition.Started
			f.moves.observe(p, next, start.Add(time.Minute), true)
			u.placement = next
			if again := f.transitionOf(u); !again.Since.Time.Equal(start.Add(time.Minute)) || !again.Started.Equal(&got.Started) {
				t.Errorf("the next phase lasts since %s, the move began %s", again.Since, again.Started)
			}
			f.moves.observe(next, nil, start, true)
			if len(f.moves.known) > 0 {
				t.Errorf("it remembers %v", f.moves.known)
			}
		})
	}
}

// The promises that such a time is for.
func TestNoPromiseIsBrokenByTheClockOfAnotherServer(t *testing.T) {
	seen := func(phase placementv1alpha1.TransitionPhase, ahead, later time.Duration) (*fixture, *placementv1alpha1.Transition) {
		f := newFixture(t)
		p := movesSince(phase, start.Add(ahead))
		f.moves.observe(nil, p, start, true)
		f.clock.SetTime(start.Add(later))
		return f, f.transitionOf(&unit{key: controller.RequestFor(p), placement: p})
	}
	front := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"selector": map[string]any{"app": "web"}}}}
	front.SetName("front")
	front.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Draining"},"west":{"state":"Waiting"}}`})
	kind, _ := workload.Builtin().ByResource(schema.GroupResource{Resource: "services"})
	state := func(f *fixture) transition.State {
		return transition.State{Decided: []string{"west"}, Objects: []transition.Object{{Kind: kind, Logical: front}}, Now: f.clock.Now(), DrainsSince: start}
	}
	for _, ahead := range []time.Duration{-skew, 0, skew} {
		f, draining := seen(placementv1alpha1.TransitionDraining, ahead, 9*time.Second)
		if step := transition.Next(draining, state(f)); step.Phase != placementv1alpha1.TransitionDraining {
			t.Errorf("a clock %s ahead: %s before the drain time has passed", ahead, step.Phase)
		}
		f, draining = seen(placementv1alpha1.TransitionDraining, ahead, 10*time.Second)
		if step := transition.Next(draining, state(f)); step.Phase != placementv1alpha1.TransitionRemoving {
			t.Errorf("a clock %s ahead: %s, again in %s, when the drain time has passed", ahead, step.Phase, step.Again)
		}

		// Endpoints that are published there yet are waited for for a minute.
		for later, waits := range map[time.Duration]bool{time.Second: true, 59 * time.Second: true, time.Minute: false} {
			f, draining = seen(placementv1alpha1.TransitionDraining, ahead, later)
			published := state(f)
			published.Endpoints = map[string]map[string]int{"front": {"east": 3, "west": 3}}
			if leads := published.Published(draining); (len(leads) > 0) != waits {
				t.Errorf("a clock %s ahead: after %s it waits for %q", ahead, later, leads)
			}
		}

		seconds := int32(60)
		stuck := placement.Stuck{Move: placementv1alpha1.MoveRules{IfStuck: placementv1alpha1.IfStuckGoBack, StuckAfterSeconds: &seconds}}
		_, starting := seen(placementv1alpha1.TransitionStarting, ahead, time.Second)
		if at, ok := stuck.GoesBackAt(starting); !ok || !at.Equal(start.Add(time.Minute)) {
			t.Errorf("a clock %s ahead: it goes back at %s, %v", ahead, at, ok)
		}
		if f, starting = seen(placementv1alpha1.TransitionStarting, ahead, time.Second); pace.NotArrived(starting, f.clock.Now()) {
			t.Errorf("a clock %s ahead: what began a second ago counts as what does not arrive", ahead)
		}
		if f, starting = seen(placementv1alpha1.TransitionStarting, ahead, pace.SlotTime+time.Second); !pace.NotArrived(starting, f.clock.Now()) {
			t.Errorf("a clock %s ahead: it never counts as what does not arrive", ahead)
		}
	}
}

// A wave that is healthy soaks by the clock of the server that opens the next one.
func TestAWaveSoaksByTheClockOfTheServerThatOpensTheNextOne(t *testing.T) {
	for _, ahead := range []time.Duration{-skew, 0, skew} {
		f := newFixture(t)
		p := placementOf("east", "west")
		written := metav1.NewTime(start.Add(ahead))
		p.Status.Rollout = &placementv1alpha1.RolloutStatus{Revision: "r", Wave: 1, HealthySince: &written}
		f.moves.observe(nil, p, start, true)
		f.clock.SetTime(start.Add(time.Second))
		if got := f.healthySince(p); !got.Equal(start) {
			t.Errorf("a clock %s ahead: healthy since %s", ahead, got)
		}
		p.Status.Rollout.HealthySince = nil
		if got := f.healthySince(p); !got.IsZero() || len(f.moves.healthy) > 0 {
			t.Errorf("a clock %s ahead: healthy since %s, although it is not", ahead, got)
		}
	}
}

// What nobody could see has not lasted: a drain time that passed while the server stood still begins where it was.
func TestNoTimePassesWhileTheServerStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocktesting.NewFakePassiveClock(start)
		c := &Controller{Config: Config{Clock: clock, Standstill: controller.NewStandstill(clock)}, moves: newMoves(), watched: start}
		c.moves.standstill = c.Standstill
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Standstill.Run(ctx) }()
		synctest.Wait()

		p := movesSince(placementv1alpha1.TransitionDraining, start)
		p.Status.Rollout = &placementv1alpha1.RolloutStatus{HealthySince: &metav1.Time{Time: start}}
		key := controller.RequestFor(p)
		c.moves.observe(nil, p, start, true)
		u := &unit{key: key, placement: p}
		withdrawn := func() time.Time { return c.moves.drainsSince(key, c.transitionOf(u), true, clock.Now()) }
		clock.SetTime(start.Add(2 * time.Second))
		arrives := movesSince(placementv1alpha1.TransitionStarting, start)
		arrives.Name = "arrives"
		other := &unit{key: controller.RequestFor(arrives), placement: arrives}
		c.moves.observe(nil, arrives, clock.Now(), true)
		c.moves.noteAvailable(other.key, c.transitionOf(other), true, clock.Now())
		if got := withdrawn(); !got.Equal(start.Add(2 * time.Second)) {
			t.Errorf("traffic is withdrawn since %s", got)
		}
		if got := c.watchedSince(); !got.Equal(start) {
			t.Errorf("silence counts since %s", got)
		}
		const stood = time.Minute
		clock.SetTime(start.Add(2*time.Second + stood))
		if got := withdrawn(); !got.Equal(start.Add(2*time.Second + stood)) {
			t.Errorf("after a minute in which nothing ran traffic is withdrawn since %s", got)
		}
		if got := c.moves.availableSince(other.key, c.transitionOf(other)); !got.Equal(clock.Now()) {
			t.Errorf("after a minute in which nothing ran all is available since %s", got)
		}
		if got := c.transitionOf(u); !got.Since.Time.Equal(start.Add(stood)) || !got.Started.Time.Equal(start.Add(stood)) {
			t.Errorf("the phase lasts since %s, the move since %s", got.Since, got.Started)
		}
		if got := c.healthySince(p); !got.Equal(start.Add(stood)) {
			t.Errorf("a wave is healthy since %s", got)
		}
		if got, want := c.watchedSince(), clock.Now().Add(placement.Silence); !got.Equal(want) {
			t.Errorf("silence counts since %s, want %s", got, want)
		}
		clock.SetTime(clock.Now().Add(time.Second))
		if got := withdrawn(); !got.Equal(start.Add(2*time.Second + stood)) {
			t.Errorf("a second later traffic is withdrawn since %s", got)
		}
		stop()
		<-done
	})
}
