package transition

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// A new address may lead to nothing although the pods behind it are available: who passes on what comes there learns
// of them later.
func TestANewAddressIsPublishedOnceAllHasBeenAvailableForAWhile(t *testing.T) {
	const (
		starts = `{"east":{},"west":{"state":"Starting"}}`
		old    = `east: Synced {"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`
		new    = `west: Synced {"loadBalancer":{"ingress":[{"ip":"192.0.2.2"}]}}`
		waits  = "Service front: 192.0.2.2 of west is published once all has been available there for 5 s"
	)
	front := func(kind, targets string, copies ...string) Object {
		return object(services, "front", targets, map[string]any{"type": kind, "selector": map[string]any{"app": "web"}}, copies...)
	}
	lb := func(targets string, copies ...string) Object { return front("LoadBalancer", targets, copies...) }
	move := func() *placementv1alpha1.Transition {
		return &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), From: []string{"east"}, To: []string{"west"}, MoveTimes: TimesOf(placementv1alpha1.MoveRules{})}
	}
	for name, c := range map[string]struct {
		object Object
		change func(*placementv1alpha1.Transition, *State)
		waits  string
		again  time.Duration
	}{
		"nobody has known of it until now": {object: lb(starts, old, new), waits: waits, again: 5 * time.Second},
		"known for three seconds": {lb(starts, old, new), func(_ *placementv1alpha1.Transition, s *State) {
			s.AvailableSince = s.Now.Add(-3 * time.Second)
		}, waits, 2 * time.Second},
		"known for long enough": {object: lb(starts, old, new), change: func(_ *placementv1alpha1.Transition, s *State) {
			s.AvailableSince = s.Now.Add(-5 * time.Second)
		}},
		"a policy says longer": {lb(starts, old, new), func(t *placementv1alpha1.Transition, _ *State) { t.MinReadySeconds = 60 },
			"Service front: 192.0.2.2 of west is published once all has been available there for 60 s", time.Minute},
		"a policy says at once": {object: lb(starts, old, new), change: func(t *placementv1alpha1.Transition, _ *State) { t.MinReadySeconds = 0 }},
		"one that comes beside another, which stays": {lb(starts, old, new), func(t *placementv1alpha1.Transition, s *State) { t.From, s.Decided = nil, []string{"east", "west"} },
			waits, 5 * time.Second},
		"of an object that changes its unit, which is there already": {lb(starts, old, new), func(t *placementv1alpha1.Transition, _ *State) {
			t.Cause, t.To = placementv1alpha1.CauseLeftover, nil
		}, waits, 5 * time.Second},
		"what it leaves is lost: it serves nobody who could lose that": {object: lb(starts, old, new), change: func(_ *placementv1alpha1.Transition, s *State) {
			s.NotReady = map[string]string{"east": "silent"}
		}},
		"both places share it": {object: lb(starts, old, strings.Replace(old, "east", "west", 1))},
		"it was in use already, where a move went back to its beginning": {object: lb(`{"east":{},"west":{}}`, old, new)},
		"there was none before":        {object: lb(starts, "east: Synced", new)},
		"the Service has none":         {object: front("ClusterIP", starts, old, new)},
		"the Service is being deleted": {object: going(lb(starts, old, new))},
		"an Ingress": {object(ingresses, "front", starts, nil, old, new), nil,
			strings.Replace(waits, "Service", "Ingress", 1), 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := move(), State{Decided: []string{"west"}, Objects: []Object{c.object}, Now: noon}
			if c.change != nil {
				c.change(m, &s)
			}
			step := Next(m, s)
			if got := strings.Join(step.Waits, "; "); got != c.waits || step.Again != c.again || step.Missing {
				t.Errorf("waits %q, again in %s, missing %v; want %q, %s", got, step.Again, step.Missing, c.waits, c.again)
			}
			if wait := c.waits != ""; wait != (step.Phase == starting && !step.Done) {
				t.Errorf("%s, done %v", step.Phase, step.Done)
			}
		})
	}
}
