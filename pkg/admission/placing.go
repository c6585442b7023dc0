package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// placing stamps the targets of the namespace on objects of placed kinds; the
// first such object has the namespace decided.
type placing struct {
	placements *controller.Informer[*placementv1alpha1.Placement]
	decider    *decider
}

func newPlacing(config Config, lookup *lookup) *placing {
	return &placing{placements: config.Placements, decider: newDecider(config, lookup)}
}

// admit stamps r.obj.
//
//	decided  operation  requester  outcome
//	yes      any        any        stamped (informer)
//	no       create     any        decided and stamped, or pending, or refused
//	no       update     system     decided and stamped, or still pending: the
//	                               placement controller pokes pending objects
//	no       update     user       still pending
//
// What rules a namespace has none decided: with the decision it is stamped, too.
// What a syncer records has to be placed already.
func (p *placing) admit(ctx context.Context, r *request) error {
	if r.syncer != "" && r.GetOperation() == admission.Create {
		return record(ctx, r)
	}
	kind, ok := workload.ByResource(r.groupResource())
	if !ok || kind.Role != workload.Placed && kind.Role != workload.Ruling || r.GetSubresource() != "" || r.syncer != "" ||
		!stamp.Placeable(r.cluster, r.GetNamespace()) || stamp.OfServer(r.groupResource(), r.GetNamespace(), r.GetName()) ||
		stamp.HasTargets(r.obj) || r.obj.GetDeletionTimestamp() != nil {
		return nil
	}
	clusters, err := p.known(ctx, r)
	if err != nil {
		return err
	}
	if kind.Role == workload.Ruling {
		if workload.Rules(kind, len(clusters)) && len(clusters) > 0 {
			stamp.Targets(r.obj, clusters)
		}
		return nil
	}
	if clusters == nil && (r.GetOperation() == admission.Create || r.system) {
		if clusters, err = p.decide(ctx, r, kind); err != nil {
			return err
		}
	}
	if clusters != nil {
		stamp.Targets(r.obj, clusters)
	}
	return nil
}

// known is the decision that the informers have.
func (p *placing) known(ctx context.Context, r *request) ([]string, error) {
	placement, ok := p.placements.Get(controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace(), Name: placementv1alpha1.NamespaceUnit})
	if !ok {
		return nil, nil
	}
	clusters := decided(placement)
	if clusters == nil {
		return nil, nil
	}
	namespace, err := r.getNamespace(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	}
	if !belongsTo(placement, namespace.UID) {
		return nil, nil
	}
	return clusters, nil
}

// decide asks the decider and says what the user should know.
func (p *placing) decide(ctx context.Context, r *request, kind workload.Kind) ([]string, error) {
	namespace, err := r.getLiveNamespace(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, err
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	case namespace.DeletionTimestamp != nil:
		if r.GetOperation() == admission.Create {
			return nil, terminating(r)
		}
		return nil, nil
	}
	outcome, err := p.decider.decide(ctx, question{
		cluster: r.cluster, namespace: namespace, kind: kind, object: r.GetObject(),
		dryRun: r.IsDryRun(), mayRefuse: r.GetOperation() == admission.Create,
	})
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("placing namespace %s: %w", namespace.Name, err))
	case outcome.clusters != nil:
		return outcome.clusters, nil
	case outcome.refused:
		return nil, admission.NewForbidden(r.Attributes, errors.New("it cannot be placed: "+outcome.message))
	case r.user():
		warning.AddWarning(ctx, "", fmt.Sprintf("namespace %s is not placed yet, the object waits: %s", namespace.Name, outcome.message))
	}
	return nil, nil
}

// decided are the physical clusters of a placement; nil if it is undecided.
func decided(p *placementv1alpha1.Placement) []string {
	if p.Spec.Decision == nil {
		return nil
	}
	var clusters []string
	for _, c := range p.Spec.Decision.Clusters {
		clusters = append(clusters, c.Name)
	}
	return clusters
}

// belongsTo reports whether a placement is about the namespace with that UID,
// and not about one of the same name before it.
func belongsTo(p *placementv1alpha1.Placement, namespace types.UID) bool {
	uid := ownerUID(p)
	return uid == "" || uid == namespace
}

// ownerUID is the UID of the namespace that a placement was made for.
func ownerUID(p *placementv1alpha1.Placement) types.UID {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		return owner.UID
	}
	return ""
}

// owner makes a placement that of a namespace.
func owner(namespace *corev1.Namespace) metav1.OwnerReference {
	isController := true
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID, Controller: &isController}
}
