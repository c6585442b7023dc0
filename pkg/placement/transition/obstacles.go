package transition

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// maxNamed is how many objects are named at most.
const maxNamed = 20

// Obstacles are what keeps a unit from leaving physical clusters, as sentences with the
// way out; the first ones, sorted.
//
//	object                              on a physical cluster that works     on one that was given up
//	a claim whose volume stays, as it   goes                                 the same
//	is on another one that works, too
//	a claim with a volume there         stays if its volume is not handed    stays: it is lost with its data, and
//	                                    over: it would be lost               who deletes it says so
//	a claim with a volume of its own    stays: where it goes it gets one     the same
//	on several that are left
//	what runs to its end with a claim   the claim stays until then           stays: it has no end there, and is
//	what runs to its end                ends there                           not begun twice
//	a StatefulSet that takes its claims stays: they are to outlive it        goes: nothing deletes there
//	along
//	a Pod that nothing makes again and  stays: it could not go on elsewhere  the same
//	that does not end by itself
//	what a controller made there and    stays: nothing makes it elsewhere    goes: it is gone with that
//	let go, see letGo
//	any other                           goes: see workload.RunsOf            the same
//
// handed is why the volume of a claim is not handed over from a physical cluster to where the
// unit goes; empty: it is. lost says that a physical cluster was given up: nobody says there that
// a volume is released, or that something has ended.
func Obstacles(objects []Object, from []string, handed func(claim Object, from string) string, lost func(name string) bool) []string {
	var out []string
	for _, o := range objects {
		at := o.at(from)
		if len(at) == 0 || o.Logical.GetDeletionTimestamp() != nil {
			continue
		}
		where := strings.Join(at, ", ")
		gone := slices.DeleteFunc(slices.Clone(at), func(name string) bool { return !lost(name) })
		switch {
		case o.Kind.IsClaim() && o.keptBut(at, lost):
		case len(gone) > 0 && o.Kind.IsClaim():
			out = append(out, fmt.Sprintf("%s: its volume is on %s, which was given up; delete the claim to go on without its data", o, strings.Join(gone, ", ")))
		case len(gone) > 0 && !stamp.Mirrored(o.Logical) && workload.RunsOf(o.Kind, o.Logical.Object) == workload.RunsToEnd && (!o.Kind.IsPod() || ends(o)):
			out = append(out, fmt.Sprintf("%s: it was to run to its end on %s, which was given up; delete it, and make it again to have it run elsewhere", o, strings.Join(gone, ", ")))
		case o.Kind.IsClaim():
			for _, name := range at {
				why := handed(o, name)
				if other := o.differing(name, at); other != "" {
					why = HasItsOwn(other)
				}
				if why != "" {
					out = append(out, fmt.Sprintf("%s: its volume is on %s and does not move (%s); delete the claim once its data are safe elsewhere", o, where, why))
					break
				}
			}
		case workload.TakesClaims(o.Kind, o.Logical.Object) && len(gone) < len(at):
			out = append(out, fmt.Sprintf("%s on %s: it deletes its claims when it is removed there; set spec.persistentVolumeClaimRetentionPolicy.whenDeleted to Retain", o, where))
		case !stamp.Mirrored(o.Logical) && runsWithClaim(o):
			out = append(out, fmt.Sprintf("%s on %s: it runs to its end with a claim; wait for that, or delete it", o, where))
		case o.Kind.IsPod() && !stamp.Mirrored(o.Logical) && !ends(o):
			out = append(out, fmt.Sprintf("%s on %s: no controller makes it again elsewhere; delete it, or make it by a Deployment", o, where))
		case o.letGo() && len(gone) < len(at):
			out = append(out, letGo(o, where))
		}
	}
	return bounded(out)
}

// keptBut says that the volume which a claim has on some physical clusters is on another one, too, that was not
// given up.
func (o Object) keptBut(on []string, lost func(name string) bool) bool {
	return o.kept(append(slices.DeleteFunc(o.targets().Names(), func(name string) bool { return !lost(name) }), on...), on)
}

// StopsFirst names the objects that are stopped on the physical clusters that are left
// before they are started elsewhere; the first ones, sorted. shared says that a claim has one
// volume where the unit is and goes: what mounts only such claims is started first.
func StopsFirst(objects []Object, from []string, shared func(claim Object) bool) []string {
	var out []string
	open := map[string]bool{}
	for _, o := range objects {
		if o.Kind.IsClaim() && shared(o) {
			open[o.Logical.GetName()] = true
		}
	}
	for _, o := range objects {
		if len(o.at(from)) > 0 && !stamp.Mirrored(o.Logical) && workload.StopsFirst(o.Kind, o.Logical.Object) && !startsFirst(o, open) {
			out = append(out, o.String())
		}
	}
	return bounded(out)
}

// startsFirst says that an object would be stopped first only for the sake of claims of which each is open.
func startsFirst(o Object, open map[string]bool) bool {
	mounted, own := workload.ClaimsOf(o.Kind, o.Logical.Object)
	return workload.RunsOf(o.Kind, o.Logical.Object) == workload.RunsAnywhere && !own &&
		!slices.ContainsFunc(mounted, func(name string) bool { return !open[name] })
}

// at are the targets among some that an object is on.
func (o Object) at(some []string) []string {
	targets := o.targets()
	return slices.DeleteFunc(targets.Names(), func(name string) bool {
		return !slices.Contains(some, name) || targets[name].NoCopy()
	})
}

// letGo says that an object has pods where a controller made it, and that nothing above controls it any more: who deleted
// its controller had it stay (--cascade=orphan), or its labels do not match any more. It would end with its namespace
// there. A claim is another matter: its volume may move.
func (o Object) letGo() bool {
	if !o.Kind.Copied() || o.Kind.IsClaim() || !stamp.Mirrored(o.Logical) || o.Logical.GetDeletionTimestamp() != nil {
		return false
	}
	if metav1.GetControllerOfNoCopy(o.Logical) != nil || workload.Ended(o.Kind, o.Logical.Object) {
		return false
	}
	return !o.Kind.Replicated() || workload.Replicas(o.Kind, o.Logical.Object) > 0
}

func letGo(o Object, where string) string {
	return fmt.Sprintf("%s on %s: nothing controls it any more, and nothing makes it elsewhere; delete it, or make again what controlled it", o, where)
}

// letGo are the objects on physical clusters which a unit leaves that would end there: a user may have let them go
// since the move began.
func (s State) letGo(from []string) []string {
	var out []string
	for _, o := range s.Objects {
		on := slices.DeleteFunc(o.at(from), func(name string) bool { return s.GivenUp[name] })
		if len(on) > 0 && o.letGo() {
			out = append(out, letGo(o, strings.Join(on, ", ")))
		}
	}
	return out
}

// ends says that a pod ends by itself, or did.
func ends(o Object) bool {
	if workload.Ended(o.Kind, o.Logical.Object) {
		return true
	}
	policy, _, _ := unstructured.NestedString(o.Logical.Object, "spec", "restartPolicy")
	return policy == "Never" || policy == "OnFailure"
}

func bounded(list []string) []string {
	slices.Sort(list)
	if len(list) > maxNamed {
		list = append(list[:maxNamed:maxNamed], fmt.Sprintf("and %d more", len(list)-maxNamed))
	}
	return list
}
