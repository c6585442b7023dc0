package transition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Object is an object of a unit.
type Object struct {
	Kind workload.Kind
	// Logical has the metadata; of placed kinds, all.
	Logical *unstructured.Unstructured
	// Copies are its records, by target.
	Copies map[string]*placementv1alpha1.Copy
	// Unit is where it is to be: what the units that it belongs to come to, see stamp.Merge.
	Unit stamp.Unit
	// Division is how its replicas are divided; nil: each physical cluster has all.
	Division *placementv1alpha1.DecidedDivision
	// Wish is what of it is divided, if that follows from others; nil: see stamp.WishOf.
	Wish *stamp.Wish
	// Scalers are the autoscalers of its namespace; nil: not known.
	Scalers stamp.Scalers
	// Overrides are what changes of its copies.
	Overrides []placementv1alpha1.DecidedOverride
	// Volume is the one that a claim is handed over where the unit goes; nil: none as yet, and
	// NoVolume says why.
	Volume   *placementv1alpha1.TargetVolume
	NoVolume string
	// Shared says that a claim may have one volume on all physical clusters of the unit, and Volumes
	// are what it gets where it has no copy.
	Shared  bool
	Volumes map[string]*placementv1alpha1.TargetVolume
	// Opens says that what mounts claims need not wait for their volumes to be given up, see Opens.
	Opens bool
	// Unrecorded says that other units stamped it last.
	Unrecorded bool
}

func (o Object) String() string { return o.Kind.Kind + " " + o.Logical.GetName() }

func (o Object) targets() placementv1alpha1.Targets {
	return stamp.TargetsOf(o.Logical.GetAnnotations())
}

// stays says that an object is to be on a physical cluster also when one of its units has
// left.
func (o Object) stays(name string) bool {
	p, ok := o.Unit[name]
	return ok && !p.Left()
}

// Outside are the physical clusters that keep a copy of an object where it is not to be.
func (s State) Outside(o Object) []string {
	targets := o.targets()
	return slices.DeleteFunc(targets.Names(), func(name string) bool {
		_, wanted := o.Unit[name]
		return wanted || !targets[name].Keeps() || s.holds(o, name)
	})
}

// holds says that what runs there of other units may need an object where its own one is not.
func (s State) holds(o Object, name string) bool {
	return s.Held[name] && o.Kind.Role != workload.Placed
}

// Behind reports whether an object has not got the targets that its unit wants. What is
// going needs none any more, and referenced kinds follow their referrers.
func (o Object) Behind(cluster logicalcluster.Name) bool {
	if o.Kind.Role == workload.Referenced || o.Logical.GetDeletionTimestamp() != nil {
		return false
	}
	source := stamp.Source{Unit: o.Unit, Overrides: o.Overrides}
	if o.Kind.Role == workload.Placed {
		source.Runs, source.Mounts = workload.RunsOf(o.Kind, o.Logical.Object), workload.MountsClaims(o.Kind, o.Logical.Object) && !o.Opens
		source.Division, source.Volume = o.Division, o.Volume
		source.Shared, source.Volumes = o.Shared, o.Volumes
		source.Wish, source.Scaling = o.Wanted(), o.Scaling()
	}
	return o.Unrecorded || !stamp.Equal(o.targets(), stamp.Targets(o.Kind, cluster, o.Logical, source))
}

// State is what is known of a unit in a transition.
type State struct {
	// Decided are the physical clusters of the decision.
	Decided []string
	// Objects are all that have targets.
	Objects []Object
	// Held are the physical clusters on which objects of other units have copies: what
	// belongs to no unit of its own stays there for them.
	Held map[string]bool
	// Unknown are the physical clusters on which something has a copy that is not among Objects.
	Unknown map[string]bool
	// Stale counts the objects that do not have the targets of the phase yet.
	Stale int
	// NotReady says by physical cluster why it is not ready.
	NotReady map[string]string
	// GivenUp are those that were given up: nobody there will say that a volume is released.
	GivenUp map[string]bool
	// Endpoints counts the ready endpoints by Service and target.
	Endpoints map[string]map[string]int
	// AvailableSince is since when this server has known that nothing is missing, in the phase Starting; zero:
	// it does not know, see settles.
	AvailableSince time.Time
	// DrainsSince is since when this server has known that traffic is withdrawn, in the phase
	// Draining, see Published. It is later than the phase if that took its time, or if another
	// server, or process, began it.
	DrainsSince time.Time
	Now         time.Time
	// index is that of Objects, see indexed.
	index *index
}

// Step is what follows.
type Step struct {
	// Phase is the one to be in.
	Phase placementv1alpha1.TransitionPhase
	// Done: the transition is over.
	Done bool
	// Waits are what it waits for, as sentences, sorted; what keeps all of a physical cluster is first.
	Waits []string
	// Missing says that these are what the replacement lacks: it is not available.
	Missing bool
	// Again is when to look again without an event; zero: no time passes.
	Again time.Duration
}

// Next says which phase of a transition follows on what is there.
//
//	phase     the replacement            else                            then
//	Starting  is not there               any                             Starting
//	Starting  is there                   a new address is not used yet,  Starting
//	                                     see settles
//	Starting  is there                   nothing is left                 done
//	Starting  is there                   something is                    Draining
//	Draining  is not there any more      any                             Starting: traffic comes back
//	Draining  is there, and behind what  any                             Draining
//	          was written meanwhile
//	Draining  is there                   nothing has addresses           Removing, see below
//	Draining  is there                   something leads there still,    Draining
//	                                     see Published
//	Draining  is there                   the time has not passed, since  Draining
//	                                     the phase and since DrainsSince
//	Draining  is there                   the time has passed             Removing, see below
//	Removing and what follows it: see removed
//
// Draining comes also where nothing has addresses: what is made while the replacement is
// looked at is stamped to be on what is left, and may have some. Once the phase is Draining nothing comes
// there any more, so that all that does is known before a removal begins.
//
// A CronJob is not removed while a job of it runs: the phase before lasts until then. Its syncer
// lets one that is begun in that very moment run to its end, too.
func Next(t *placementv1alpha1.Transition, s State) Step {
	s = s.indexed()
	if stamp.PhaseRemoves(t.Phase) {
		return s.removed(t)
	}
	if waits, late := s.missing(t); len(waits) > 0 {
		if late && t.Phase == placementv1alpha1.TransitionDraining {
			return Step{Phase: t.Phase, Waits: waits}
		}
		return Step{Phase: placementv1alpha1.TransitionStarting, Waits: waits, Missing: true}
	}
	if t.Phase != placementv1alpha1.TransitionDraining {
		if waits, left := s.settles(t); len(waits) > 0 {
			return Step{Phase: t.Phase, Waits: waits, Again: left}
		}
		if len(t.From) == 0 {
			return Step{Phase: t.Phase, Done: true}
		}
		return Step{Phase: placementv1alpha1.TransitionDraining}
	}
	if s.addressed(t.From) {
		if leads := s.Published(t); len(leads) > 0 {
			return Step{Phase: t.Phase, Waits: leads}
		}
		since := t.Since.Time
		if s.DrainsSince.After(since) {
			since = s.DrainsSince
		}
		left := since.Add(time.Duration(t.DrainSeconds) * time.Second).Sub(s.Now)
		if left > 0 {
			return Step{Phase: t.Phase, Again: left, Waits: []string{fmt.Sprintf("traffic was withdrawn from %s, which has %d s to end", strings.Join(t.From, ", "), t.DrainSeconds)}}
		}
	}
	if runs := s.active(t.From); len(runs) > 0 {
		return Step{Phase: t.Phase, Waits: runs}
	}
	return Step{Phase: placementv1alpha1.TransitionRemoving}
}

// addressed says whether an object publishes addresses of what is left.
func (s State) addressed(from []string) bool {
	return slices.ContainsFunc(s.Objects, func(o Object) bool {
		if !o.Kind.Addressed() || o.Logical.GetDeletionTimestamp() != nil {
			return false
		}
		targets := o.targets()
		return slices.ContainsFunc(from, func(name string) bool { entry, ok := targets[name]; return ok && entry.Keeps() })
	})
}

// active are the CronJobs of which a job runs on what is left.
func (s State) active(from []string) []string {
	var out []string
	for _, o := range s.Objects {
		if o.Kind.Semantics != workload.CronJobSemantics {
			continue
		}
		for _, c := range o.on(from) {
			if jobs, _, _ := unstructured.NestedSlice(observed(c), "active"); len(jobs) > 0 {
				out = append(out, jobRuns(o, c.Spec.PhysicalCluster))
			}
		}
	}
	slices.Sort(out)
	return out
}

// left is what is still on the physical clusters that are left; claims go last.
//
//	the object                                   is left
//	has no copy there, or stays there            no
//	is a claim, or the Namespace of some, or     only in the phase Clearing
//	nobody's in that, see goesAlong
//	runs to its end, or a job of it does         yes, by name
//	is the Namespace, which is Removing, and     no: nothing was in it, nothing comes into it, and its
//	its Copy says Terminating                    entry and its Copy stay until it is known to be gone
//	any other                                    yes
func (s State) left(t *placementv1alpha1.Transition) []string {
	var out []string
	from, claims := t.From, s.claims(t.From)
	if s.Stale > 0 {
		out = append(out, unstamped(s.Stale))
	}
	for _, name := range from {
		count := 0
		for _, o := range s.Objects {
			entry, ok := o.targets()[name]
			switch {
			case !ok || entry.NoCopy() || o.stays(name) || s.holds(o, name):
			case o.terminates(name):
			case t.Phase != placementv1alpha1.TransitionClearing && (o.gives(name) || claims && (o.Kind.Role == workload.Container || s.goesAlong(o, name))):
			case o.jobRuns(name):
				out = append(out, jobRuns(o, name))
			case entry.Keeps() && o.Logical.GetDeletionTimestamp() == nil && workload.RunsOf(o.Kind, o.Logical.Object) == workload.RunsToEnd:
				runs := o.runsOn(name)
				if why := s.NotReady[name]; why != "" {
					runs += ": " + why
				}
				out = append(out, runs)
			default:
				count++
			}
		}
		if count > 0 {
			gone := notGone(count, name)
			if why := s.NotReady[name]; why != "" {
				gone += ": " + why
			}
			out = append(out, gone)
		}
	}
	slices.Sort(out)
	return out
}

// runsOn says that what runs to its end on a target is waited for, or that it has no copy there which could: also then it begins
// nowhere else, as nobody knows whether it had one.
func (o Object) runsOn(name string) string {
	if c := o.Copies[name]; c != nil && c.Status.State == placementv1alpha1.CopyFailed && c.Status.PhysicalUID == "" {
		return fmt.Sprintf("%s on %s has no copy there (%s), and begins nowhere else; delete it, and make it again to have it run elsewhere", o, name, c.Status.Reason)
	}
	return fmt.Sprintf("%s on %s runs to its end", o, name)
}

// terminates says that an object is the Namespace, and nothing of the unit is in the physical one on a target any
// more: it is being deleted, for which the namespace controller there takes seconds, or it stays for what an admin
// decides about.
func (o Object) terminates(name string) bool {
	c := o.Copies[name]
	return o.Kind.Role == workload.Container && o.targets()[name].State == placementv1alpha1.TargetStateRemoving &&
		c != nil && c.Status.State == placementv1alpha1.CopyRemoving &&
		(c.Status.Reason == placementv1alpha1.ReasonTerminating || c.Status.Reason == placementv1alpha1.ReasonOrphansInside)
}

// jobRuns says that an object is a CronJob that leaves, of which a job was begun just before.
func (o Object) jobRuns(name string) bool {
	c := o.Copies[name]
	return c != nil && c.Status.State == placementv1alpha1.CopyRemoving && c.Status.Reason == placementv1alpha1.ReasonJobRuns
}

func jobRuns(o Object, name string) string {
	return fmt.Sprintf("%s on %s: a job of it runs to its end", o, name)
}

func unstamped(n int) string {
	if n == 1 {
		return "1 object has not got its targets"
	}
	return fmt.Sprintf("%d objects have not got their targets", n)
}

func notGone(n int, target string) string {
	if n == 1 {
		return "1 object is not gone from " + target
	}
	return fmt.Sprintf("%d objects are not gone from %s", n, target)
}
