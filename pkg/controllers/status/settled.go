package status

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// outcome is what a look at an object ended with.
type outcome struct {
	// version is the resource version that it left.
	version string
	// basis is what it rested on.
	basis string
}

// basis says, beside the object itself, what its status is made of: which versions of
// which Copies, the number of the newest ReplicaSet, and the rules of a declared kind.
func (s *Controller) basis(k key, kind workload.Kind, uid types.UID, copies []*placementv1alpha1.Copy) string {
	parts := make([]string, 0, len(copies)+1)
	for _, c := range copies {
		parts = append(parts, string(c.UID)+"@"+c.ResourceVersion)
	}
	slices.Sort(parts)
	parts = append(parts, "newest "+s.newest(k, uid))
	if kind.Carries && s.PhysicalClusters != nil { // whose syncers may be upgraded
		for _, pc := range s.PhysicalClusters.List() {
			if syncer.LacksManifests(pc.Status) {
				parts = append(parts, "lacks "+pc.Name)
			}
		}
	}
	if kind.Declared { // whose rules may change
		parts = append(parts, fmt.Sprint(kind.Status))
	}
	return strings.Join(parts, " ")
}

// settled says that everything is as the last look at an object left it: most often it
// is the own write that comes back before the reply to it. The object is not read then.
func (s *Controller) settled(k key, kind workload.Kind) bool {
	last, ok := s.outcomes.Get(k)
	if !ok {
		return false
	}
	obj, found, _ := s.known(k, kind)
	return found && obj.ResourceVersion == last.(outcome).version && s.basis(k, kind, obj.UID, copyindex.Of(s.Copies, k)) == last.(outcome).basis
}

// known is what the informer has of an object; watched is false if there is none for its kind.
func (s *Controller) known(k key, kind workload.Kind) (obj *metav1.PartialObjectMetadata, found, watched bool) {
	if s.Metadata == nil {
		return nil, false, false
	}
	informer := placed.Of(s.Metadata, kind)
	if informer == nil {
		return nil, false, false
	}
	obj, found = informer.Get(k.Object)
	return obj, found, true
}

// ended says that nobody will read the status of an object any more: it goes with the last acknowledgement that its
// copies are removed, and a write in between would only make the release of it a conflict.
//
//	the object                                 its Copies     ended
//	is not known                               any            yes: its coming has it looked at
//	is being deleted, held by nothing but us   all Removed    yes
//	is being deleted, held by nothing but us   none           yes
//	is being deleted, held by others, too      any            no: they may wait for what it says
//	is not being deleted                       any            no
func ended(obj *metav1.PartialObjectMetadata, copies []*placementv1alpha1.Copy) bool {
	if obj == nil {
		return true
	}
	return obj.DeletionTimestamp != nil &&
		!slices.ContainsFunc(obj.Finalizers, func(f string) bool { return f != placementv1alpha1.CopiesFinalizer }) &&
		!slices.ContainsFunc(copies, func(c *placementv1alpha1.Copy) bool {
			return c.Spec.Object.UID == obj.UID && c.Status.State != placementv1alpha1.CopyRemoved
		})
}
