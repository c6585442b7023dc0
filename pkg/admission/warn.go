package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// warn tells a user what is wrong with where the object goes: the decision stands, but
// the policies do not permit it any more, or a target lacks what a new object needs. It
// looks at informers only; what they do not know yet is said by the Placement and the
// Copies.
func (p *placing) warn(ctx context.Context, r *request, kind workload.Kind, unit stamp.Unit) error {
	if !r.user() || unit == nil || kind.Role != workload.Placed {
		return nil
	}
	if stands, ok := p.placements.Get(unitKey(r)); ok {
		c := meta.FindStatusCondition(stands.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied)
		if c != nil && c.Status == metav1.ConditionFalse {
			warning.AddWarning(ctx, "", fmt.Sprintf("namespace %s: %s", r.GetNamespace(), c.Message))
		}
	}
	if r.GetOperation() != admission.Create {
		return nil
	}
	var needs placement.Unit
	if err := includeObject(&needs, kind, r.GetObject()); err != nil {
		return nil // the validation of the kind says it better
	}
	for _, name := range unit.Names() {
		c, ok := p.decider.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		if !ok || unit[name] != stamp.PartStays && unit[name] != stamp.PartArrives {
			continue
		}
		if lacks := placement.Lacks(placement.PhysicalCluster{PhysicalCluster: c}, needs); lacks != "" {
			warning.AddWarning(ctx, "", fmt.Sprintf("namespace %s is placed on %s, which does not have what this needs: %s", r.GetNamespace(), name, lacks))
		}
	}
	return nil
}

// unitKey is that of the Placement of the namespace of a request.
func unitKey(r *request) controller.Request {
	return controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace(), Name: placementv1alpha1.NamespaceUnit}
}
