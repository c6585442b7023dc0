package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// pins checks the key of our domain by which users say where: on a Namespace, or a
// PlacementPolicy that selects objects, the physical cluster that its unit must be placed
// on, or moved to.
type pins struct {
	client           versioned.Interface
	physicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	decider          *decider
}

func (p pins) validate(ctx context.Context, r *request) error {
	if r.GetOperation() == admission.Delete {
		return nil
	}
	pin := r.obj.GetAnnotations()[placementv1alpha1.PhysicalClusterAnnotation]
	if pin == "" || r.old != nil && pin == r.old.GetAnnotations()[placementv1alpha1.PhysicalClusterAnnotation] {
		return nil
	}
	if !r.isNamespace() && r.groupResource() != namespacePoliciesResource {
		if r.user() && r.GetSubresource() == "" {
			warning.AddWarning(ctx, "", pinned(r, pin))
		}
		return nil
	}
	if policy, ok := r.GetObject().(*placementv1alpha1.PlacementPolicy); ok && policy.Spec.Objects == nil {
		return admission.NewForbidden(r.Attributes, fmt.Errorf("annotation %s: the policy makes no unit of its own, as it has no spec.objects; annotate the namespace",
			placementv1alpha1.PhysicalClusterAnnotation))
	}
	if problem := scope.ValidateName(pin); problem != "" {
		return admission.NewForbidden(r.Attributes, fmt.Errorf("annotation %s: %q: %s", placementv1alpha1.PhysicalClusterAnnotation, pin, problem))
	}
	if err := p.exists(ctx, r, pin); err != nil {
		return err
	}
	if r.old == nil || !r.user() {
		return nil
	}
	return p.foretell(ctx, r, pin)
}

// pinned says what to do instead of a pin on an object that is not placed by itself.
func pinned(r *request, pin string) string {
	says := fmt.Sprintf("annotation %s does nothing on a %s: it counts on a Namespace, and on a PlacementPolicy with spec.objects",
		placementv1alpha1.PhysicalClusterAnnotation, r.GetKind().Kind)
	kind, ok := r.kinds.ByResource(r.groupResource())
	if !ok || kind.Role != workload.Placed {
		return says
	}
	says += fmt.Sprintf(`. "kubectl atoll move %s --to %s" moves all of the namespace; `, r.GetNamespace(), pin)
	if kind.Follows() {
		return says + "it goes where what it is about goes"
	}
	return says + "to move it alone, have such a policy select it"
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

// foretell says in warnings what a pin does to a unit that is placed: where it moves,
// what stops meanwhile, what keeps it. A dry run tells the same.
func (p pins) foretell(ctx context.Context, r *request, pin string) error {
	in, unit := r.GetNamespace(), r.GetName()
	if r.isNamespace() {
		in, unit = r.GetName(), placementv1alpha1.NamespaceUnit
	}
	name := unitName(in, unit)
	stored, err := p.client.PlacementV1alpha1().Placements(in).Get(at(ctx, r.cluster), unit, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading the placement of %s: %w", name, err))
	}
	if stored.Spec.Decision == nil {
		return nil
	}
	namespace, err := r.lookup.liveNamespace(ctx, r.cluster, in)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", in, err))
	}
	q := question{cluster: r.cluster, kinds: r.kinds, namespace: namespace, unit: unit, pin: &pin, dryRun: true}
	status, err := p.decider.answer(ctx, q, &placementv1alpha1.PlacementReviewSpec{}, placement.Needs{})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reviewing the move of %s: %w", name, err))
	}
	for _, sentence := range foretold(name, status) {
		warning.AddWarning(ctx, "", sentence)
	}
	return nil
}

// foretold are the sentences about a move, the gravest first.
func foretold(unit string, status placementv1alpha1.PlacementReviewStatus) []string {
	at := strings.Join(status.Decided, ", ")
	switch {
	case len(status.PhysicalClusters) == 0:
		return []string{fmt.Sprintf("%s stays on %s: %s", unit, at, status.Message)}
	case slices.Equal(status.Decided, status.PhysicalClusters):
		return nil
	case len(status.Obstacles) > 0:
		return []string{fmt.Sprintf("%s stays on %s until nothing keeps it: %s", unit, at, strings.Join(status.Obstacles, "; "))}
	}
	out := []string{fmt.Sprintf("%s moves from %s to %s", unit, at, strings.Join(status.PhysicalClusters, ", "))}
	if len(status.StopsFirst) > 0 {
		out = append(out, fmt.Sprintf("these must not run twice and are stopped before they are started there: %s", strings.Join(status.StopsFirst, ", ")))
	}
	return out
}
