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

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// pins checks the one key of our domain that users set: on a Namespace, the
// physical cluster that it must be placed on, or moved to.
type pins struct {
	client           versioned.Interface
	physicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	decider          *decider
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
	if r.old == nil || !r.user() {
		return nil
	}
	return p.foretell(ctx, r, pin)
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

// foretell says in warnings what a pin does to a namespace that is placed: where it
// moves, what stops meanwhile, what keeps it. A dry run tells the same.
func (p pins) foretell(ctx context.Context, r *request, pin string) error {
	stored, err := p.client.PlacementV1alpha1().Placements(r.GetName()).Get(at(ctx, r.cluster), placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading the placement of namespace %s: %w", r.GetName(), err))
	}
	if stored.Spec.Decision == nil {
		return nil
	}
	namespace, err := r.lookup.liveNamespace(ctx, r.cluster, r.GetName())
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetName(), err))
	}
	namespace = pinned(namespace, pin)
	q := question{cluster: r.cluster, kinds: r.kinds, namespace: namespace, dryRun: true}
	status, err := p.decider.answer(ctx, q, &placementv1alpha1.PlacementReviewSpec{}, placement.Unit{})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reviewing the move of namespace %s: %w", r.GetName(), err))
	}
	for _, sentence := range foretold(r.GetName(), status) {
		warning.AddWarning(ctx, "", sentence)
	}
	return nil
}

func pinned(namespace *corev1.Namespace, pin string) *corev1.Namespace {
	namespace = namespace.DeepCopy()
	metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, placementv1alpha1.PhysicalClusterAnnotation, pin)
	return namespace
}

// foretold are the sentences about a move, the gravest first.
func foretold(namespace string, status placementv1alpha1.PlacementReviewStatus) []string {
	at := strings.Join(status.Decided, ", ")
	switch {
	case len(status.PhysicalClusters) == 0:
		return []string{fmt.Sprintf("namespace %s stays on %s: %s", namespace, at, status.Message)}
	case slices.Equal(status.Decided, status.PhysicalClusters):
		return nil
	case len(status.Obstacles) > 0:
		return []string{fmt.Sprintf("namespace %s stays on %s until nothing keeps it: %s", namespace, at, strings.Join(status.Obstacles, "; "))}
	}
	out := []string{fmt.Sprintf("namespace %s moves from %s to %s", namespace, at, strings.Join(status.PhysicalClusters, ", "))}
	if len(status.StopsFirst) > 0 {
		out = append(out, fmt.Sprintf("these must not run twice and are stopped before they are started there: %s", strings.Join(status.StopsFirst, ", ")))
	}
	return out
}
