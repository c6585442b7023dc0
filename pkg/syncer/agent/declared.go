package agent

import (
	"context"

	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload/declared"
)

// followDeclared keeps the kinds that are declared for the physical cluster, until ctx is
// done. A declaration that is not seen any more takes its informers along, and nothing
// that was made for it.
func (a *Agent) followDeclared(ctx context.Context) {
	declarations := controller.NewInformer("placed kinds for "+a.PhysicalCluster, &fleetv1alpha1.PlacedKind{},
		controller.Lists(a.up.Atoll.FleetV1alpha1().PlacedKinds()), controller.InformerOptions[*fleetv1alpha1.PlacedKind]{Server: a.up.Server})
	declarations.Handle(func(_, _ *fleetv1alpha1.PlacedKind) {
		next, _ := declared.Catalog(a.Kinds.Current().Undeclared(), declarations.List())
		if came, gone := next.Since(a.kinds.Current()); len(came)+len(gone) > 0 {
			klog.FromContext(ctx).Info("Other kinds are declared", "declared", len(next.Declared()))
			a.kinds.Set(next)
		}
	})
	declarations.Run(ctx)
}
