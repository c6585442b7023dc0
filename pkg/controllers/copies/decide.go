package copies

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Verdict is what to do about one object and its Copies.
type Verdict struct {
	// Finalizer says to remove our finalizer from the object.
	Finalizer bool
	// Finish says that the object, a Pod, has time left to stop in, which ends
	// before its finalizer goes: nothing is left that could stop.
	Finish bool
	// Targets, if Drop, is what remains of the targets annotation.
	Drop    bool
	Targets placementv1alpha1.Targets
	// Delete are the Copies to delete, after the object was written. Of a CronJob nothing is done
	// before its status has the last run that they tell of.
	Delete []*placementv1alpha1.Copy
}

func (v Verdict) isNothing() bool { return !v.Finalizer && !v.Finish && !v.Drop && len(v.Delete) == 0 }

// Decide looks at an object, nil if it is known to be gone, and at its Copies.
// gone tells of a target that was given up, see givenUp.
//
//	object            entry     Copy of the target       do
//	gone, other UID             Removed                  delete the Copy
//	gone, other UID             other                    nothing: its syncer removes what is below first
//	deleting          each      all Removed, or none     remove the finalizer
//	                            and the target given up,
//	                            or none was to be made
//	deleting, a claim some      as above                 drop the entry: the last one sees that it is
//	with one volume
//	live              Removing  Removed, or none         drop the entry, delete the Copy
//	                            and the target given up
//	live              Sync      Removed                  delete the Copy: the syncer begins anew
//	live              none      Removed                  delete the Copy
//	any               Observed  records what the object  delete the Copy: a controller adopted it
//	                            mirrors, or Removed
//	any               Observed  other                    nothing: its syncer removes what is below once
//	                                                     the object is gone
//	deleting          Observed                           nothing: its syncer removes the finalizer, or
//	                                                     pkg/controllers/mirrors where that will not
//
// A Pod that is being deleted gracefully is finished before its finalizer goes; also
// if somebody took that off.
func Decide(obj metav1.Object, copies []*placementv1alpha1.Copy, gone func(target string) bool) Verdict {
	var v Verdict
	current := map[string]*placementv1alpha1.Copy{}
	for _, c := range copies {
		if obj != nil && c.Spec.Object.UID == obj.GetUID() {
			current[c.Spec.PhysicalCluster] = c
		} else if removed(c) {
			v.Delete = append(v.Delete, c)
		}
	}
	if obj == nil {
		return v
	}
	targets := stamp.TargetsOf(obj.GetAnnotations())
	observed := func(target string) bool { return targets[target].State == placementv1alpha1.TargetObserved }
	done := func(target string) bool {
		c, ok := current[target]
		if observed(target) {
			return false
		}
		return ok && removed(c) || !ok && (gone(target) || targets[target].NoCopy())
	}
	for _, target := range slices.Sorted(maps.Keys(current)) {
		c := current[target]
		if observed(target) && (removed(c) || c.Status.PhysicalUID == targets[target].UID) {
			v.Delete = append(v.Delete, c)
			delete(current, target)
		}
	}
	if obj.GetDeletionTimestamp() != nil {
		all := !slices.ContainsFunc(targets.Names(), func(name string) bool { return !done(name) })
		v.Finalizer = all && hasFinalizer(obj)
		v.Finish = all && stopping(obj)
		if !all {
			v.Targets = stamp.Acknowledged(targets, done)
			v.Drop = len(v.Targets) < len(targets)
		}
		return v
	}
	v.Targets = stamp.Without(targets, done)
	v.Drop = len(v.Targets) < len(targets)
	v.Finalizer = v.Drop && hasFinalizer(obj) && !slices.ContainsFunc(v.Targets.Names(), func(name string) bool {
		return v.Targets[name].State != placementv1alpha1.TargetObserved
	})
	for _, target := range slices.Sorted(maps.Keys(current)) {
		if removed(current[target]) {
			v.Delete = append(v.Delete, current[target])
		}
	}
	return v
}

// stopping says that an object that is being deleted has time left to stop in.
func stopping(obj metav1.Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && grace != nil && *grace > 0
}

func removed(c *placementv1alpha1.Copy) bool {
	return c.Status.State == placementv1alpha1.CopyRemoved
}

func hasFinalizer(obj metav1.Object) bool {
	return slices.Contains(obj.GetFinalizers(), placementv1alpha1.CopiesFinalizer)
}
