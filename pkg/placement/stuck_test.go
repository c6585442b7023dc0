package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// goBack has moves go back that have been stuck for a minute.
var goBack = placementv1alpha1.MoveRules{IfStuck: placementv1alpha1.IfStuckGoBack, StuckAfterSeconds: ptr.To[int32](60)}

func heard(generation int64) []placementv1alpha1.PolicyReference {
	return []placementv1alpha1.PolicyReference{{Name: "p", Generation: generation}}
}

// wentBack is from west at noon, for some time.
func wentBack(times int32) *placementv1alpha1.WentBack {
	s := Stuck{Move: goBack, Policies: heard(1), Content: "a", Now: noon}
	w := s.Next([]string{"west"}, "no pods")
	w.Times, w.Until = times, metav1.NewTime(noon.Add(doubled(firstHold, times-1, longestHold)))
	return w
}

func TestWhenAMoveThatIsStuckGoesBack(t *testing.T) {
	t.Parallel()
	const starting = placementv1alpha1.TransitionStarting
	west := []string{"west"}
	for name, c := range map[string]struct {
		move    placementv1alpha1.MoveRules
		phase   placementv1alpha1.TransitionPhase
		to      []string
		cause   placementv1alpha1.TransitionCause
		before  *placementv1alpha1.WentBack
		at      time.Duration // of now, after the phase began at noon
		watched time.Duration
		want    string // how long after noon
	}{
		"no policy says so":                                  {phase: starting, to: west, want: "never"},
		"a policy says that it waits":                        {move: placementv1alpha1.MoveRules{IfStuck: placementv1alpha1.IfStuckWait}, phase: starting, to: west, want: "never"},
		"it has begun to leave":                              {move: goBack, phase: placementv1alpha1.TransitionDraining, to: west, want: "never"},
		"it is removed where it was":                         {move: goBack, phase: placementv1alpha1.TransitionRemoving, to: west, want: "never"},
		"nothing is new: it goes back already":               {move: goBack, phase: starting, want: "never"},
		"after the time":                                     {move: goBack, phase: starting, to: west, cause: placementv1alpha1.CauseReturn, want: "1m0s"},
		"after five minutes, if no policy says":              {move: placementv1alpha1.MoveRules{IfStuck: placementv1alpha1.IfStuckGoBack}, phase: starting, to: west, want: "5m0s"},
		"a server that has just started has seen nothing":    {move: goBack, phase: starting, to: west, watched: time.Hour, want: "1h1m0s"},
		"what policies hold goes back as soon the next time": {move: goBack, phase: starting, to: west, cause: placementv1alpha1.CausePolicy, before: wentBack(3), want: "1m0s"},
		"what they do not hold, later each time":             {move: goBack, phase: starting, to: west, cause: placementv1alpha1.CauseLost, before: wentBack(3), want: "8m0s"},
		"but no later than after a day":                      {move: goBack, phase: starting, to: west, cause: placementv1alpha1.CauseDrain, before: wentBack(30), want: "24h0m0s"},
		"what is long ago counts for nothing":                {move: goBack, phase: starting, to: west, cause: placementv1alpha1.CauseLost, before: wentBack(1), at: stuckMemory + firstHold, want: "1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Stuck{Move: c.move, WentBack: c.before, Policies: heard(1), Content: "a", Now: noon.Add(c.at), Watched: noon.Add(c.watched)}
			got := "never"
			if at, ok := s.GoesBackAt(&placementv1alpha1.Transition{Phase: c.phase, To: c.to, Cause: c.cause, Since: metav1.NewTime(noon)}); ok {
				got = at.Sub(noon).String()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatAUnitWentBackFromIsHeld(t *testing.T) {
	t.Parallel()
	const policy = placementv1alpha1.CausePolicy
	for name, c := range map[string]struct {
		before     *placementv1alpha1.WentBack
		cause      placementv1alpha1.TransitionCause
		generation int64
		content    string
		ready      time.Duration // after noon
		at         time.Duration
		want       string
	}{
		"it never went back":                         {cause: policy, want: ""},
		"for the time":                               {before: wentBack(1), cause: policy, at: firstHold - 1, want: "west until 5m0s"},
		"not after it":                               {before: wentBack(1), cause: policy, at: firstHold, want: ""},
		"the time doubles":                           {before: wentBack(3), cause: placementv1alpha1.CauseReturn, at: 19 * time.Minute, want: "west until 20m0s"},
		"up to a day":                                {before: wentBack(20), cause: policy, at: 23 * time.Hour, want: "west until 24h0m0s"},
		"a pin is asked for by name":                 {before: wentBack(9), cause: placementv1alpha1.CausePinned, want: ""},
		"a drain, too":                               {before: wentBack(9), cause: placementv1alpha1.CauseDrain, want: ""},
		"what another scheduler wants, too":          {before: wentBack(9), cause: placementv1alpha1.CauseBound, want: ""},
		"what is lost does not run where it is":      {before: wentBack(9), cause: placementv1alpha1.CauseLost, want: ""},
		"other policies are worth a try":             {before: wentBack(9), cause: policy, generation: 2, want: ""},
		"other pod templates, too":                   {before: wentBack(9), cause: policy, content: "b", want: ""},
		"it is not known what the templates are":     {before: wentBack(1), cause: policy, content: "?", want: "west until 5m0s"},
		"the physical cluster has become ready anew": {before: wentBack(9), cause: policy, ready: time.Second, want: ""},
		"the physical cluster was ready before":      {before: wentBack(1), cause: policy, ready: -time.Second, want: "west until 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Stuck{Move: goBack, WentBack: c.before, Policies: heard(1), Content: "a", Now: noon.Add(c.at)}
			if c.generation > 0 {
				s.Policies = heard(c.generation)
			}
			if c.content != "" {
				s.Content = strings.Trim(c.content, "?")
			}
			names, until := s.Held(c.cause, func(string) time.Time { return noon.Add(c.ready) })
			got := ""
			if len(names) > 0 {
				got = fmt.Sprintf("%s until %s", strings.Join(names, ","), until.Sub(noon))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsRememberedOfGoingBack(t *testing.T) {
	t.Parallel()
	type next = placementv1alpha1.WentBack
	entry := func(times int32, at, hold time.Duration, names ...string) *next {
		return &next{PhysicalClusters: names, At: metav1.NewTime(noon.Add(at)), Until: metav1.NewTime(noon.Add(at + hold)), Times: times, Policies: heard(1), Content: "a", Message: "why"}
	}
	other := entry(1, time.Minute, firstHold, "north")
	other.Policies = heard(2)
	for name, c := range map[string]struct {
		before     *next
		at         time.Duration
		generation int64
		want       *next
	}{
		"the first time":                           {nil, 0, 1, entry(1, 0, firstHold, "north")},
		"what is held yet is held as long":         {wentBack(1), time.Minute, 1, entry(2, time.Minute, 2*firstHold, "north", "west")},
		"what is held no more is not":              {wentBack(1), firstHold, 1, entry(2, firstHold, 2*firstHold, "north")},
		"the time does not exceed a day":           {wentBack(12), 25 * time.Hour, 1, entry(13, 25*time.Hour, longestHold, "north")},
		"a day after the time was over it is anew": {wentBack(3), 20*time.Minute + stuckMemory, 1, entry(1, 20*time.Minute+stuckMemory, firstHold, "north")},
		"for other policies it is anew, too":       {wentBack(3), time.Minute, 2, other},
	} {
		t.Run(name, func(t *testing.T) {
			s := Stuck{Move: goBack, WentBack: c.before, Policies: heard(c.generation), Content: "a", Now: noon.Add(c.at)}
			if diff := cmp.Diff(c.want, s.Next([]string{"north"}, "why")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	s := Stuck{Now: noon}
	if got := s.Next([]string{"west"}, strings.Repeat("x", 5000)).Message; len(got) != maxWhy || !strings.HasSuffix(got, "x...") {
		t.Errorf("%d bytes of a message are stored: ...%s", len(got), got[len(got)-9:])
	}
	many := wentBack(1)
	for i := range maxTried {
		many.PhysicalClusters = append(many.PhysicalClusters, fmt.Sprint("pc-", i))
	}
	s = Stuck{WentBack: many, Policies: heard(1), Content: "a", Now: noon}
	if got := s.Next([]string{"north"}, "").PhysicalClusters; !slices.Equal(got, []string{"north"}) {
		t.Errorf("%d physical clusters are remembered", len(got))
	}
}

func TestWhatHasArrivedIsHeldNoMore(t *testing.T) {
	t.Parallel()
	w := wentBack(2)
	w.PhysicalClusters = []string{"north", "west"}
	for on, want := range map[string]string{"east": "north,west", "west": "north", "west,north": "<nil>"} {
		got := "<nil>"
		if left := Arrived(w, strings.Split(on, ",")); left != nil {
			got = strings.Join(left.PhysicalClusters, ",")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("on %s (-want +got):\n%s", on, diff)
		}
	}
	if Arrived(nil, []string{"west"}) != nil {
		t.Error("something is held of nothing")
	}
}

// Whatever happens, and in whatever order, a unit is not moved for what policies want to where it
// went back from before the time is over, and the time grows; and what they do not hold it goes
// back from later each time.
func TestAUnitDoesNotGoBackAndForth(t *testing.T) {
	t.Parallel()
	returned := 0
	rapid.Check(t, func(t *rapid.T) {
		places := []string{"north", "south", "west"}
		now, generation, content := noon, int64(1), "a"
		ready := map[string]time.Time{}
		var stored *placementv1alpha1.WentBack
		// attempt is when a unit went last to a place for one reason, and hold how long that held.
		type reason struct {
			place, content string
			generation     int64
			ready          time.Time
		}
		failed := map[reason]time.Time{}
		inARow := 0
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			s := Stuck{Move: goBack, WentBack: stored, Policies: heard(generation), Content: content, Now: now}
			place := rapid.SampledFrom(places).Draw(t, "place")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				generation++
				inARow = 0
			case 1:
				content += "b"
				inARow = 0
			case 2:
				ready[place] = now
			case 3, 4:
				now = now.Add(time.Duration(rapid.IntRange(1, 8*60*60).Draw(t, "seconds")) * time.Second)
			default: // policies want it there; it does not become available, and goes back
				cause := rapid.SampledFrom([]placementv1alpha1.TransitionCause{placementv1alpha1.CausePolicy, placementv1alpha1.CauseReturn, placementv1alpha1.CauseLost}).Draw(t, "cause")
				held, _ := s.Held(cause, func(name string) time.Time { return ready[name] })
				if slices.Contains(held, place) {
					now = now.Add(time.Second)
					continue
				}
				why := reason{place, content, generation, ready[place]}
				if last, ok := failed[why]; ok && isHeld(cause) && now.Before(last.Add(firstHold)) {
					t.Fatalf("tried %s for the same reason %s after it went back", place, now.Sub(last))
				}
				began := now
				at, ok := s.GoesBackAt(&placementv1alpha1.Transition{Phase: placementv1alpha1.TransitionStarting, To: []string{place}, Cause: cause, Since: metav1.NewTime(began)})
				if !ok {
					t.Fatal("it does not go back")
				}
				now = at
				s.Now = now
				was := stored
				stored = s.Next([]string{place}, "")
				failed[why] = now
				returned++
				switch inARow++; {
				case was != nil && stored.Times > 1 && stored.Until.Sub(stored.At.Time) < min(was.Until.Sub(was.At.Time)*2, longestHold):
					t.Fatalf("held for %s after %s", stored.Until.Sub(stored.At.Time), was.Until.Sub(was.At.Time))
				case cause == placementv1alpha1.CauseLost && stored.Times > 1 && now.Sub(began) < doubled(time.Minute, stored.Times-1, longestHold):
					t.Fatalf("went back after %s the time %d", now.Sub(began), stored.Times)
				case int(stored.Times) > inARow:
					t.Fatalf("%d times in a row count as %d", inARow, stored.Times)
				}
			}
		}
	})
	if returned == 0 {
		t.Error("nothing ever went back: this shows nothing")
	}
}

func TestRulesOfMovesAreBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{move: {ifStuck: GoBack, stuckAfterSeconds: 1}}`: "",
		`{move: {ifStuck: Wait}}`:                         "",
		`{move: {ifStuck: Abort}}`:                        "spec.move.ifStuck",
		`{move: {stuckAfterSeconds: 0}}`:                  "spec.move.stuckAfterSeconds",
		`{move: {stuckAfterSeconds: 86401}}`:              "spec.move.stuckAfterSeconds",
		`{move: {minReadySeconds: 0, drainSeconds: 0}}`:   "",
		`{move: {minReadySeconds: 600}}`:                  "",
		`{move: {minReadySeconds: -1}}`:                   "spec.move.minReadySeconds",
		`{move: {minReadySeconds: 601}}`:                  "spec.move.minReadySeconds",
		`{move: {drainSeconds: 86401}}`:                   "spec.move.drainSeconds",
	} {
		p := ruledBy(t, placementv1alpha1.PolicyGlobal, "p", text)
		got := ""
		for _, err := range ValidateRules(p.Rules, field.NewPath("spec")) {
			got += err.Field
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// Of several levels the most specific one that says how units move says all of it.
func TestTheMostSpecificLevelSaysWhatBecomesOfAStuckMove(t *testing.T) {
	t.Parallel()
	global := ruledBy(t, placementv1alpha1.PolicyGlobal, "g", `{move: {ifStuck: GoBack, stuckAfterSeconds: 60}}`)
	own := ruledBy(t, placementv1alpha1.PolicyNamespace, "n", `{move: {ifStuck: Wait}}`)
	for want, policies := range map[placementv1alpha1.IfStuck][]Policy{placementv1alpha1.IfStuckGoBack: {global}, placementv1alpha1.IfStuckWait: {global, own}} {
		if got := Verify(Snapshot{Policies: policies}, Unit{}); got.Move.IfStuck != want || len(got.Policies) != len(policies) {
			t.Errorf("%+v of %v, want %s", got.Move, got.Policies, want)
		}
	}
}
