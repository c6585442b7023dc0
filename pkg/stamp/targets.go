package stamp

import (
	"maps"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Source is what the targets of an object follow from.
type Source struct {
	// Unit is the unit that the object belongs to, see UnitOf. nil says that nothing is
	// decided. It counts for all kinds but referenced ones.
	Unit Unit
	// Runs says how the object runs; it counts for placed kinds in a transition.
	Runs workload.Runs
	// Mounts says that its pods mount claims of which one place at a time has the volume; it counts
	// as Runs does.
	Mounts bool
	// Volume is, for a claim, the one that it is handed over where its unit goes; nil: none as
	// yet.
	Volume *placementv1alpha1.TargetVolume
	// Shared says that a claim may have one volume on all physical clusters of its unit, and Volumes
	// are what it gets on those that have no copy; none of those that have to wait.
	Shared  bool
	Volumes map[string]*placementv1alpha1.TargetVolume
	// Division says how replicas are divided; nil: not at all. Wish is that of the object,
	// nil if that is not known: its replicas stay as they are. They count for
	// divisible kinds only.
	Division *placementv1alpha1.DecidedDivision
	Wish     *Wish
	// Scaling says how an autoscaler scales the object; nil: that is not known, and what its
	// copies begin with stays as it is. It counts where replicas are not divided.
	Scaling *Scaling
	// Overrides are what changes of copies by target, and what is permitted there. They count for
	// placed kinds; for Namespaces what is permitted does.
	Overrides []placementv1alpha1.DecidedOverride
	// Referrers are the targets of everything that refers to the object: all of
	// it, as what nobody needs is removed. It counts for referenced kinds only.
	Referrers []placementv1alpha1.Targets
}

// Targets are the targets that an object should have, given those that it has. They
// are those that it has if it is being deleted, or was mirrored from a physical
// cluster.
func Targets(kind workload.Kind, cluster logicalcluster.Name, obj metav1.Object, from Source) placementv1alpha1.Targets {
	current := TargetsOf(obj.GetAnnotations())
	if kind.IsClaim() && obj.GetDeletionTimestamp() == nil {
		current = copied(current, from.Unit)
	}
	if obj.GetDeletionTimestamp() != nil || mirrored(current) {
		return current
	}
	want := underWay(current, wanted(kind, cluster, obj, current, from))
	if kind.Role == workload.Container {
		current = takenBack(current, want)
	}
	return Next(current, want)
}

// takenBack are the targets of a Namespace without the removals that are not wanted any
// more. It is removed after everything in it, which may have come back already: it would
// wait for that for ever.
func takenBack(current, wanted placementv1alpha1.Targets) placementv1alpha1.Targets {
	out := maps.Clone(current)
	for name, target := range wanted {
		if has, ok := current[name]; ok && has.State == placementv1alpha1.TargetStateRemoving && target.Keeps() {
			out[name] = target
		}
	}
	return out
}

// wanted is what the placement says about an object, by the role of its kind.
//
//	role        object                       wanted
//	Placed      is a claim                   by where its volume is, see claimed
//	Placed      goes down                    by how it runs, see part; what an autoscaler made of
//	                                         it goes along, and that comes later, see start, heldBack
//	Placed      stays up, see GoesDown       nothing
//	Container   any                          as what may run anywhere; in root that is for what is in
//	                                         it, and nothing is made of itself
//	Ruling      holds on so many targets,    copy wherever the unit has a part but Removes;
//	            see workload.Rules           there Removing
//	Ruling      does not                     Removing wherever the unit has a part
//	Referenced  goes down                    copy wherever a referrer has one, or waits to; nothing
//	                                         said (it stays) where a referrer is being removed or
//	                                         adopted, what it uses goes after it; else Removing
//	Referenced  stays up                     Removing
func wanted(kind workload.Kind, cluster logicalcluster.Name, obj metav1.Object, current placementv1alpha1.Targets, from Source) placementv1alpha1.Targets {
	down := GoesDown(kind, cluster, obj)
	switch kind.Role {
	case workload.Placed, workload.Container:
		if down && from.Unit != nil {
			out := placed(kind, current, from)
			switch {
			case kind.IsClaim():
				out = claimed(current, from)
			case !kind.Divisible():
			case kind.Semantics == workload.StatefulSetSemantics:
				ranged(from.Division, from.Wish, from.Unit, current, out)
			case from.Division != nil && isAlone(kind, from.Wish):
				alone(from.Division, from.Wish, from.Unit, current, out)
			case from.Division != nil:
				divided(from.Division, from.Wish, from.Unit, current, out)
			case kind.Semantics == workload.JobSemantics:
				keepParts(current, out) // what is left of it is done where it was begun
			default:
				keepLeft(from.Unit, from.Wish, current, out)
			}
			if IsAutoscaler(kind) {
				heldBack(from.Unit, current, out)
			}
			if from.Division == nil && kind.Role == workload.Placed && len(kind.Replicas) > 0 {
				started(from.Scaling, from.Unit, current, out)
			}
			if kind.Role == workload.Placed {
				overridden(from.Overrides, from.Unit, kind, obj, current, out)
			} else {
				permitted(from.Overrides, out)
			}
			return out
		}
	case workload.Ruling:
		if down && from.Unit != nil {
			return ruling(kind, from.Unit)
		}
	case workload.Referenced:
		if !down {
			return referenced(current, nil)
		}
		return referenced(current, from.Referrers)
	}
	return nil
}

func placed(kind workload.Kind, current placementv1alpha1.Targets, from Source) placementv1alpha1.Targets {
	// begun: it has, or had until just now, a copy somewhere. held: one of these is
	// where the unit leaves, or is not at all. serves: there it has the traffic.
	begun, held, serves := false, false, false
	for name, target := range current {
		copied := target.Keeps() || target.State == placementv1alpha1.TargetStateRemoving
		p, ok := from.Unit[name]
		begun = begun || copied
		held = held || copied && (!ok || p.Left() || target.State == placementv1alpha1.TargetStateRemoving)
		serves = serves || (!ok || p == PartEmpties) && target.Receives()
	}
	waits := from.Mounts && from.Unit.handsVolumes()
	out := placementv1alpha1.Targets{}
	for name, p := range from.Unit {
		has := current[name].Keeps() && hasEntry(current, name)
		target := placementv1alpha1.Target{State: part(p, from.Runs, has, begun, held)}
		if waits && target.Keeps() && !has {
			target.State = waitsForVolumes(p)
		}
		if serves && target.Receives() && p == PartStays && !(has && current[name].Receives()) {
			target.State = placementv1alpha1.TargetStateStarting // it comes from another unit
		}
		if !kind.Addressed() && target.Keeps() {
			target.State = placementv1alpha1.TargetSync // no traffic comes by it
		}
		out[name] = target
	}
	for name, target := range current {
		if _, ok := from.Unit[name]; !ok && target.NoCopy() {
			out[name] = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving} // it is not expected there any more
		}
	}
	return out
}

func hasEntry[T any](targets map[string]T, name string) bool {
	_, ok := targets[name]
	return ok
}

// part is what one physical cluster shall do with a placed object.
//
//	how it runs   part             has a copy here  else                   then
//	any           Stays, Arrives   yes              any                    copy (Arrives: Starting)
//	any           Removes          yes              not ToEnd              Removing
//	any           Leaves, Empties, yes              any                    copy (Drains: Draining)
//	              Drains
//	Anywhere      Stays, Arrives   no               any                    copy (Arrives: Starting)
//	Anywhere      Leaves           no               any                    copy: it serves there as yet
//	Once          Stays, Arrives   no               a copy where it left   Waiting
//	Once          Stays, Arrives   no               none                   copy
//	ToEnd         Stays, Arrives   no               begun elsewhere        Finished: it ends there
//	ToEnd         Stays, Arrives   no               not begun              copy
//	ToEnd         Removes          yes              any                    copy: it ends where it began
//	Ended         Stays, Arrives   no               any                    Finished
//	any           any other        no               any                    Removing: none is made
//
// What has the traffic where its unit is not, or which that one empties, gets its addresses
// elsewhere published when that ends: Starting until then.
func part(p Part, runs workload.Runs, has, begun, held bool) placementv1alpha1.TargetState {
	here := placementv1alpha1.TargetSync
	switch p {
	case PartArrives:
		here = placementv1alpha1.TargetStateStarting
	case PartDrains:
		here = placementv1alpha1.TargetStateDraining
	}
	if has {
		if p.Removes() && runs != workload.RunsToEnd {
			return placementv1alpha1.TargetStateRemoving
		}
		return here
	}
	if p.Left() {
		if p == PartLeaves && runs == workload.RunsAnywhere {
			return here
		}
		return placementv1alpha1.TargetStateRemoving
	}
	switch {
	case runs == workload.RunsEnded, runs == workload.RunsToEnd && begun:
		return placementv1alpha1.TargetStateFinished
	case runs == workload.RunsOnce && held:
		return placementv1alpha1.TargetStateWaiting
	}
	return here
}

// ruling: how many limit a sum is how many there will be; those that are left count
// only as long as there are no others.
func ruling(kind workload.Kind, unit Unit) placementv1alpha1.Targets {
	staying := 0
	for _, p := range unit {
		if !p.Left() {
			staying++
		}
	}
	holds := workload.Rules(kind, staying)
	out := placementv1alpha1.Targets{}
	for name, p := range unit {
		out[name] = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		if holds && !p.Removes() {
			out[name] = placementv1alpha1.Target{}
		}
	}
	return out
}

func referenced(current placementv1alpha1.Targets, referrers []placementv1alpha1.Targets) placementv1alpha1.Targets {
	out, kept := placementv1alpha1.Targets{}, map[string]bool{}
	for _, targets := range referrers {
		for name, target := range targets {
			switch {
			case needs(target):
				out[name] = placementv1alpha1.Target{}
			case target.State == placementv1alpha1.TargetStateRemoving, target.Adopted:
				kept[name] = true
			}
		}
	}
	for name := range current {
		if _, needed := out[name]; !needed && !kept[name] {
			out[name] = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		}
	}
	return out
}

// needs says that what an object refers to is needed on a target: also ahead of it.
func needs(target placementv1alpha1.Target) bool {
	return target.Keeps() || target.State == placementv1alpha1.TargetStateWaiting
}

// Next are the targets that follow on current when wanted is wanted.
//
//	has now    wanted               then
//	nothing    Removing             nothing: there is no copy to remove
//	nothing    any other            as wanted
//	copy       copy                 copy, with the settings and the traffic wanted
//	copy       Removing             Removing
//	copy       Waiting, Finished    copy: it is there
//	Waiting    Removing             nothing: there is no copy to remove
//	Waiting    any other            as wanted
//	Finished   Removing             nothing
//	Finished   any other            Finished: it does not run again
//	any        nothing said         as it is: absence is never a removal
//	Removing   any                  Removing: a removal that has begun is finished first; but
//	                                see takenBack
//	Observed   any                  Observed: nothing is sent down
func Next(current, wanted placementv1alpha1.Targets) placementv1alpha1.Targets {
	next := maps.Clone(current)
	for name, target := range wanted {
		has, ok := current[name]
		removing := target.State == placementv1alpha1.TargetStateRemoving
		switch {
		case ok && has.NoCopy() && removing:
			delete(next, name)
		case !ok && !removing,
			ok && has.State == placementv1alpha1.TargetStateWaiting,
			ok && has.Keeps() && (target.Keeps() || removing):
			if next == nil {
				next = placementv1alpha1.Targets{}
			}
			next[name] = target
		}
	}
	return next
}

// Adds reports whether referrers with these targets want a copy of an object where
// it has none yet.
func Adds(current placementv1alpha1.Targets, referrers ...placementv1alpha1.Targets) bool {
	for _, targets := range referrers {
		for name, target := range targets {
			if _, ok := current[name]; !ok && needs(target) {
				return true
			}
		}
	}
	return false
}

// Removes reports whether a copy of an object would be removed because no referrer
// with these targets needs it.
func Removes(current placementv1alpha1.Targets, referrers ...placementv1alpha1.Targets) bool {
	for name, target := range Next(current, referenced(current, referrers)) {
		if target.State == placementv1alpha1.TargetStateRemoving && current[name].State != target.State {
			return true
		}
	}
	return false
}

// Refers reports whether an object with these targets has a say in where what it
// refers to goes.
func Refers(targets placementv1alpha1.Targets) bool {
	for _, target := range targets {
		if target.State != placementv1alpha1.TargetObserved || target.Adopted {
			return true
		}
	}
	return false
}

// Users are the targets where something with one of these targets needs what it refers
// to, or has not ended yet.
func Users(referrers ...placementv1alpha1.Targets) placementv1alpha1.Targets {
	var users placementv1alpha1.Targets
	for _, targets := range referrers {
		for name, target := range targets {
			if needs(target) || target.State == placementv1alpha1.TargetStateRemoving || target.Adopted {
				if users == nil {
					users = placementv1alpha1.Targets{}
				}
				users[name] = placementv1alpha1.Target{}
			}
		}
	}
	return users
}

// Without are the targets without those whose removal is acknowledged.
func Without(current placementv1alpha1.Targets, acknowledged func(target string) bool) placementv1alpha1.Targets {
	next := maps.Clone(current)
	maps.DeleteFunc(next, func(name string, target placementv1alpha1.Target) bool {
		return target.State == placementv1alpha1.TargetStateRemoving && acknowledged(name)
	})
	return next
}

// Equal reports whether two sets of targets say the same.
func Equal(a, b placementv1alpha1.Targets) bool {
	return maps.EqualFunc(a, b, func(a, b placementv1alpha1.Target) bool {
		return a.State == b.State && a.Former == b.Former && a.UID == b.UID && a.Adopted == b.Adopted && equality.Semantic.DeepEqual(a.Volume, b.Volume) && ptr.Equal(a.Replicas, b.Replicas) && ptr.Equal(a.Share, b.Share) &&
			ptr.Equal(a.Max, b.Max) && ptr.Equal(a.Completions, b.Completions) && ptr.Equal(a.Start, b.Start) && equality.Semantic.DeepEqual(a.Ordinals, b.Ordinals) && sameOverrides(a.Overrides, b.Overrides)
	})
}

// rootCA is the ConfigMap with the certificate authority of the logical cluster; each
// physical cluster has one of that name itself.
const rootCA = "kube-root-ca.crt"

// GoesDown reports whether an object of a kind may have copies at all: what carries another object
// in root only, and there nothing else; no Service by which clients find the API server; no root certificate, of which
// each cluster has its own.
// The namespace kube-system is as good as any: what a physical cluster runs in its
// own is out of sight.
func GoesDown(kind workload.Kind, cluster logicalcluster.Name, obj metav1.Object) bool {
	switch {
	case kind.Carries || cluster == scope.Root:
		return cluster == scope.Root && (kind.Carries || kind.Role == workload.Container)
	case kind.Role == workload.Container:
		return true
	case obj.GetNamespace() == "":
		return false
	}
	switch kind.GroupResource() {
	case services:
		return !OfServer(kind.GroupResource(), obj.GetNamespace(), obj.GetName())
	case workload.ConfigMaps:
		return obj.GetName() != rootCA
	}
	return true
}

var services = corev1.Resource("services")

// OfServer reports whether an object is the Service "kubernetes", by which clients in
// a cluster find its API server. The one of a logical cluster leads to this server; a
// physical cluster has its own.
func OfServer(resource schema.GroupResource, namespace, name string) bool {
	return resource == services && namespace == metav1.NamespaceDefault && name == "kubernetes"
}

// Mirrored reports whether an object was mirrored from a physical cluster.
func Mirrored(obj metav1.Object) bool { return mirrored(TargetsOf(obj.GetAnnotations())) }

func mirrored(targets placementv1alpha1.Targets) bool {
	for _, target := range targets {
		if target.State == placementv1alpha1.TargetObserved {
			return true
		}
	}
	return false
}
