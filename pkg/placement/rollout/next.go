package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// State is what is known of a unit in which a change is under way.
type State struct {
	// Rollout has the waves; nil if the policies name none any more.
	Rollout *placementv1alpha1.DecidedRollout
	// Decided are the physical clusters of the unit.
	Decided []string
	// Objects are all of the unit, with what ConfigMaps and Secrets go with it.
	Objects []transition.Object
	// NotReady says by physical cluster why what it reports may be old.
	NotReady map[string]string
	// Status is what was known before; nil: nothing.
	Status *placementv1alpha1.RolloutStatus
	// Healthy is since when this server has known of the time in Status; zero: that itself counts. Another
	// server may have written it, with another clock.
	Healthy time.Time
	// Approved is what a person has approved, REVISION/WAVE.
	Approved string
	Now      time.Time
}

// Step is what follows.
type Step struct {
	// Status is what is known now; nil: nothing is under way.
	Status *placementv1alpha1.RolloutStatus
	// Open are the targets that get the change now.
	Open []string
	// Done: all have it, and work.
	Done bool
	// Reason is one of those of the condition RolledOut, Message the sentence for people.
	Reason, Message string
	// Again is when to look again without an event; zero: no time passes.
	Again time.Duration
}

// maxNamed is how many objects, and reasons, are named.
const maxNamed = 5

// Next says which wave gets what is under way. The next wave is the first in which a target
// has the former content; those before it are open.
//
//	open waves                    soaked  next wave   approved  then
//	none                                  Automatic             it is opened
//	none                                  Manual      no        NeedsApproval
//	all healthy                   yes     Automatic             it is opened
//	all healthy                   no      any         no        Soaking
//	all healthy                   yes     Manual      no        NeedsApproval
//	one is not healthy                    any         no        Unhealthy; it soaks anew
//	one is not known to be                any           no        HealthUnknown; it soaks anew
//	any                                   any         yes       it is opened
//	all, and healthy                      there is none         done
//
// Without waves, as the policy that named them went, the rest is one wave that a person
// approves.
func Next(s State) Step {
	staged := s.staged()
	if len(staged) == 0 {
		return Step{}
	}
	waves := s.waves(staged)
	next := 0
	for next < len(waves) && !slices.ContainsFunc(waves[next].PhysicalClusters, func(name string) bool { return holds(staged, name) }) {
		next++
	}
	status := &placementv1alpha1.RolloutStatus{Revision: revision(staged), Wave: toInt32(next), Waves: toInt32(len(waves)), Objects: names(staged)}
	step := Step{Status: status}
	open, soak := []string{}, int32(0)
	for _, w := range waves[:next] {
		open, soak = append(open, w.PhysicalClusters...), w.SoakSeconds // that of the last
	}
	reason, lacks := s.lacks(staged, open)
	since := time.Time{}
	if reason == "" {
		now := metav1.NewTime(s.Now)
		status.HealthySince, since = &now, s.Now
		if was := s.Status; was != nil && was.HealthySince != nil && was.Revision == status.Revision && was.Wave == status.Wave && !s.known().After(s.Now) {
			status.HealthySince, since = was.HealthySince, s.known()
		}
	}
	if next == len(waves) {
		if step.Done, step.Reason, step.Message = reason == "", reason, lacks; step.Done {
			step.Reason, step.Message = placementv1alpha1.ReasonRolledOut, "all physical clusters have it"
		}
		return step
	}
	about := fmt.Sprintf("wave %d of %d (%s)", next+1, len(waves), strings.Join(waves[next].PhysicalClusters, ", "))
	left := time.Duration(0)
	if status.HealthySince != nil {
		left = since.Add(time.Duration(soak) * time.Second).Sub(s.Now)
	}
	switch {
	case s.approved(status.Revision, next+1):
		step.Open, step.Message = waves[next].PhysicalClusters, about+" begins: it was approved"
	case reason != "":
		step.Reason, step.Message = reason, about+" waits: "+lacks
	case left > 0 && next > 0:
		step.Reason, step.Again = placementv1alpha1.ReasonSoaking, left
		step.Message = fmt.Sprintf("%s waits until %s: what has it is to be healthy for %d s before", about, since.Add(time.Duration(soak)*time.Second).UTC().Format(time.RFC3339), soak)
	case waves[next].Approval == placementv1alpha1.ApprovalManual:
		step.Reason = placementv1alpha1.ReasonNeedsApproval
		step.Message = fmt.Sprintf("%s waits for a person to approve %s/%d", about, status.Revision, next+1)
	default:
		step.Open, step.Message = waves[next].PhysicalClusters, about+" begins: those before are healthy"
		if next == 0 {
			step.Message = about + " begins"
		}
	}
	return step
}

// staged are the objects that are under way.
func (s State) staged() []transition.Object {
	var out []transition.Object
	for _, o := range s.Objects {
		if o.Kind.Staged && stamp.Staged(o.Logical) && o.Logical.GetDeletionTimestamp() == nil {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b transition.Object) int {
		return strings.Compare(string(a.Logical.GetUID()), string(b.Logical.GetUID()))
	})
	return out
}

// waves are those of the rule over what objects have. What is in none of them, as the unit
// leaves it, gets it with the last.
func (s State) waves(staged []transition.Object) []placementv1alpha1.DecidedWave {
	var others []string
	for _, o := range staged {
		for name, target := range stamp.TargetsOf(o.Logical.GetAnnotations()) {
			if target.Keeps() && !slices.Contains(others, name) && !s.rules(name) {
				others = append(others, name)
			}
		}
	}
	slices.Sort(others)
	if s.Rollout == nil || len(s.Rollout.Waves) == 0 {
		has := slices.DeleteFunc(slices.Clone(others), func(name string) bool { return holds(staged, name) })
		rest := slices.DeleteFunc(others, func(name string) bool { return slices.Contains(has, name) })
		var out []placementv1alpha1.DecidedWave
		if len(has) > 0 {
			out = append(out, placementv1alpha1.DecidedWave{PhysicalClusters: has})
		}
		if len(rest) > 0 {
			out = append(out, placementv1alpha1.DecidedWave{PhysicalClusters: rest, Approval: placementv1alpha1.ApprovalManual})
		}
		return out
	}
	out := slices.Clone(s.Rollout.Waves)
	last := &out[len(out)-1]
	last.PhysicalClusters = append(slices.Clone(last.PhysicalClusters), others...)
	return out
}

func (s State) rules(name string) bool {
	return s.Rollout != nil && slices.ContainsFunc(s.Rollout.Waves, func(w placementv1alpha1.DecidedWave) bool { return slices.Contains(w.PhysicalClusters, name) })
}

// holds says that a target has the former content of an object.
func holds(staged []transition.Object, name string) bool {
	return slices.ContainsFunc(staged, func(o transition.Object) bool { return slices.Contains(stamp.Former(o.Logical), name) })
}

// lacks says why what has the change does not work; an empty reason: it does.
func (s State) lacks(staged []transition.Object, open []string) (reason, message string) {
	var unknown, unhealthy []string
	for _, name := range open {
		if why := s.NotReady[name]; why != "" {
			unknown = append(unknown, name+": "+why)
			continue
		}
		for _, o := range staged {
			if why := o.Lacks(name, stamp.Revision(o.Logical)); why != "" {
				unhealthy = append(unhealthy, fmt.Sprintf("%s on %s: %s", o, name, why))
			}
		}
		for _, o := range s.Objects {
			if o.Kind.Staged && !stamp.Staged(o.Logical) {
				if why := o.Short(name); why != "" && s.whole(o, open) {
					unhealthy = append(unhealthy, fmt.Sprintf("%s on %s: %s", o, name, why))
				}
			}
		}
	}
	slices.Sort(unhealthy)
	switch {
	case len(unhealthy) > 0:
		return placementv1alpha1.ReasonUnhealthy, few(unhealthy)
	case len(unknown) > 0:
		return placementv1alpha1.ReasonHealthUnknown, few(unknown)
	}
	return "", ""
}

// whole says that all pods of an object are available somewhere that has the former content:
// it is not broken by itself.
func (s State) whole(o transition.Object, open []string) bool {
	for _, name := range s.Decided {
		if _, known := transition.Available(o.Copies[name]); known && !slices.Contains(open, name) && o.Short(name) == "" {
			return true
		}
	}
	return false
}

// approved says that a person approved a wave, or a later one, for these changes.
func (s State) approved(revision string, wave int) bool {
	of, number, _ := strings.Cut(s.Approved, "/")
	n, err := strconv.Atoi(number)
	return err == nil && of == revision && n >= wave
}

// revision names all that is under way.
func revision(staged []transition.Object) string {
	h := sha256.New()
	for _, o := range staged {
		fmt.Fprintf(h, "%s/%s\n", o.Logical.GetUID(), stamp.Revision(o.Logical))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

func names(staged []transition.Object) []string {
	var out []string
	for _, o := range staged[:min(len(staged), maxNamed)] {
		out = append(out, o.Kind.Kind+"/"+o.Logical.GetName())
	}
	slices.Sort(out)
	return out
}

func few(list []string) string {
	out := strings.Join(list[:min(len(list), maxNamed)], "; ")
	if more := len(list) - maxNamed; more > 0 {
		out += fmt.Sprintf("; and %d more", more)
	}
	return out
}

func toInt32(n int) int32 { return int32(min(n, 1<<20)) } //nolint:gosec // bounded

// known is since when all is healthy, by the clock of this server as far as it knows.
func (s State) known() time.Time {
	if s.Healthy.IsZero() {
		return s.Status.HealthySince.Time
	}
	return s.Healthy
}
