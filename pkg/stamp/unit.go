package stamp

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Decided are the targets of the unit of a placement; nil if it is undecided.
func Decided(p *placementv1alpha1.Placement) placementv1alpha1.Targets {
	if p.Spec.Decision == nil {
		return nil
	}
	names := make([]string, 0, len(p.Spec.Decision.PhysicalClusters))
	for _, c := range p.Spec.Decision.PhysicalClusters {
		names = append(names, c.Name)
	}
	return On(names)
}

// On are targets that keep a copy on each of the physical clusters.
func On(physicalClusters []string) placementv1alpha1.Targets {
	targets := placementv1alpha1.Targets{}
	for _, name := range physicalClusters {
		targets[name] = placementv1alpha1.Target{}
	}
	return targets
}

// BelongsTo reports whether a placement is about the Namespace with that UID, and not
// about one of the same name before it.
func BelongsTo(p *placementv1alpha1.Placement, namespace types.UID) bool {
	uid := UnitUID(p)
	return uid == "" || uid == namespace
}

// UnitUID is the UID of the Namespace that a placement was made for; empty if it does
// not say.
func UnitUID(p *placementv1alpha1.Placement) types.UID {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		return owner.UID
	}
	return ""
}
