package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// lacksManifests says that the syncer of a physical cluster does not see Manifests.
func (s *Controller) lacksManifests(name string) bool {
	if s.PhysicalClusters == nil {
		return false
	}
	pc, ok := s.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	return ok && syncer.LacksManifests(pc.Status)
}

// followFeatures has the Manifests on a physical cluster looked at when its syncer comes to know of them, or
// is one from before them.
func (s *Controller) followFeatures() {
	if s.PhysicalClusters == nil || s.Metadata == nil {
		return
	}
	s.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		if old == nil || new == nil || syncer.LacksManifests(old.Status) == syncer.LacksManifests(new.Status) {
			return
		}
		for _, kind := range s.Kinds.Current().Kinds() {
			informer := placed.Of(s.Metadata, kind)
			if !kind.Carries || informer == nil {
				continue
			}
			for _, m := range informer.List() {
				if onTarget(m, new.Name) {
					s.queue.Enqueue(key{Resource: kind.GroupResource(), Object: controller.RequestFor(m)})
				}
			}
		}
	})
}

func onTarget(m *metav1.PartialObjectMetadata, name string) bool {
	t, ok := stamp.TargetsOf(m.Annotations)[name]
	return ok && t.Keeps()
}
