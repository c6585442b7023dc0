package status

import (
	"fmt"
	"slices"
	"strings"

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
	if !ok || s.Metadata == nil {
		return false
	}
	informer := placed.Of(s.Metadata, kind)
	if informer == nil {
		return false
	}
	obj, found := informer.Get(k.Object)
	return found && obj.ResourceVersion == last.(outcome).version && s.basis(k, kind, obj.UID, copyindex.Of(s.Copies, k)) == last.(outcome).basis
}
