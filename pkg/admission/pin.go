package admission

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// pins checks the one key of our domain that users set: on a Namespace, the
// physical cluster that it must be placed on.
type pins struct {
	client           versioned.Interface
	physicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
}

func (p pins) validate(ctx context.Context, r *request) error {
	if !r.isNamespace() || r.GetOperation() == admission.Delete {
		return nil
	}
	pin := r.obj.GetAnnotations()[placementv1alpha1.PhysicalClusterAnnotation]
	if pin == "" || r.old != nil && pin == r.old.GetAnnotations()[placementv1alpha1.PhysicalClusterAnnotation] {
		return nil
	}
	if problem := scope.ValidateName(pin); problem != "" {
		return admission.NewForbidden(r.Attributes, fmt.Errorf("annotation %s: %q: %s", placementv1alpha1.PhysicalClusterAnnotation, pin, problem))
	}
	if err := p.exists(ctx, r, pin); err != nil {
		return err
	}
	if r.old == nil {
		return nil
	}
	return p.unplaced(ctx, r, pin)
}

func (p pins) exists(ctx context.Context, r *request, pin string) error {
	if _, ok := p.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: pin}); ok {
		return nil
	}
	_, err := p.client.FleetV1alpha1().PhysicalClusters().Get(at(ctx, scope.Root), pin, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return admission.NewForbidden(r.Attributes, fmt.Errorf("annotation %s: there is no physical cluster %q", placementv1alpha1.PhysicalClusterAnnotation, pin))
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("reading physical cluster %s: %w", pin, err))
	}
	return nil
}

// unplaced refuses a pin that would move the namespace.
func (p pins) unplaced(ctx context.Context, r *request, pin string) error {
	name := r.obj.GetName()
	placement, err := p.client.PlacementV1alpha1().Placements(name).Get(at(ctx, r.cluster), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("reading the placement of namespace %s: %w", name, err))
	case !stamp.BelongsTo(placement, r.obj.GetUID()):
		return nil
	}
	clusters := stamp.Decided(placement).Names()
	if len(clusters) == 0 || len(clusters) == 1 && clusters[0] == pin {
		return nil
	}
	return admission.NewForbidden(r.Attributes, fmt.Errorf("annotation %s: the namespace is placed on %s already and cannot be moved to %s: moving is not supported yet",
		placementv1alpha1.PhysicalClusterAnnotation, strings.Join(clusters, ", "), pin))
}
