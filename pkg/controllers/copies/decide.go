package copies

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// verdict is what to do about one object and its Copies.
type verdict struct {
	// Finalizer says to remove our finalizer from the object.
	Finalizer bool
	// Targets, if Drop, is what remains of the targets annotation.
	Drop    bool
	Targets placementv1alpha1.Targets
	// Delete are the Copies to delete, after the object was written.
	Delete []*placementv1alpha1.Copy
}

// decide looks at an object, nil if it is known to be gone, and at its Copies.
// gone tells of a target that an admin gave up or that is not registered.
//
//	object            entry     Copy of the target       do
//	gone, other UID             Removed                  delete the Copy
//	gone, other UID             other                    nothing: its syncer removes what is below first
//	deleting          each      all Removed, or none     remove the finalizer
//	                            and the target given up
//	live              Removing  Removed, or none         drop the entry, delete the Copy
//	                            and the target given up
//	live              Sync      Removed                  delete the Copy: the syncer begins anew
//	live              none      Removed                  delete the Copy
//	any               Observed                           nothing
func decide(obj metav1.Object, copies []*placementv1alpha1.Copy, gone func(target string) bool) verdict {
	var v verdict
	current := map[string]*placementv1alpha1.Copy{}
	for _, c := range copies {
		if obj != nil && c.Spec.Object.UID == obj.GetUID() {
			current[c.Spec.Cluster] = c
		} else if removed(c) {
			v.Delete = append(v.Delete, c)
		}
	}
	if obj == nil {
		return v
	}
	targets := placementv1alpha1.TargetsOf(obj.GetAnnotations())
	done := func(target string) bool {
		c, ok := current[target]
		return ok && removed(c) || !ok && gone(target)
	}
	if obj.GetDeletionTimestamp() != nil {
		v.Finalizer = hasFinalizer(obj) && !slices.ContainsFunc(targets.Names(), func(name string) bool {
			return targets[name].State != placementv1alpha1.TargetObserved && !done(name)
		})
		return v
	}
	v.Targets = maps.Clone(targets)
	for _, name := range targets.Names() {
		if targets[name].State == placementv1alpha1.TargetStateRemoving && done(name) {
			delete(v.Targets, name)
			v.Drop = true
		}
	}
	v.Finalizer = v.Drop && hasFinalizer(obj) && !slices.ContainsFunc(v.Targets.Names(), func(name string) bool {
		return v.Targets[name].State != placementv1alpha1.TargetObserved
	})
	for _, c := range current {
		if removed(c) {
			v.Delete = append(v.Delete, c)
		}
	}
	return v
}

func removed(c *placementv1alpha1.Copy) bool {
	return c.Status.State == placementv1alpha1.CopyRemoved
}

func hasFinalizer(obj metav1.Object) bool {
	return slices.Contains(obj.GetFinalizers(), placementv1alpha1.CopiesFinalizer)
}
