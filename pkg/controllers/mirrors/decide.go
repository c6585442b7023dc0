package mirrors

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// source is the physical cluster that an object was mirrored from; none if a user wrote it.
func source(obj metav1.Object) (target string, ok bool) {
	for name, entry := range stamp.TargetsOf(obj.GetAnnotations()) {
		if entry.State == placementv1alpha1.TargetObserved {
			return name, true
		}
	}
	return "", false
}

// Ends says that an object of a kind, mirrored from target, goes, as its syncer will say no more about it. physicalCluster
// and namespace are nil if they are known to be gone.
//
//	physical cluster  its Namespace         the object         it
//	given up          any                   any                goes: its syncer may not write
//	registered        gone                  any                stays: its Namespace takes it along
//	registered        has target            any                stays: the syncer says when it ends
//	registered        does not have target  a claim            stays: it has data, and goes with its volume,
//	                                                           see stamp.Targets
//	registered        does not have target  any other          goes: it ended with the Namespace there
//
// A PhysicalCluster is given up if an admin ordered to forget it, or if there is none of the name.
func Ends(kind workload.Kind, target string, physicalCluster *fleetv1alpha1.PhysicalCluster, namespace metav1.Object) bool {
	switch {
	case physicalCluster == nil || physicalCluster.Spec.Forget:
		return true
	case namespace == nil || kind.IsClaim():
		return false
	}
	return !names(namespace, target)
}

// names says that a Namespace has a copy on a target, whatever is to become of it.
func names(namespace metav1.Object, target string) bool {
	_, ok := stamp.TargetsOf(namespace.GetAnnotations())[target]
	return ok
}
