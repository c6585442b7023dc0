package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/atoll-dev/atoll/pkg/admission/syncerguard"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

var (
	copiesResource          = placementv1alpha1.Resource("copies")
	importsResource         = placementv1alpha1.Resource("serviceimports")
	podImportsResource      = placementv1alpha1.Resource("podimports")
	placementsResource      = placementv1alpha1.Resource("placements")
	reviewsResource         = placementv1alpha1.Resource("placementreviews")
	podReviewsResource      = placementv1alpha1.Resource("podreviews")
	orphansResource         = fleetv1alpha1.Resource("orphans")
	logicalClustersResource = tenancyv1alpha1.Resource("logicalclusters")
)

// bindingSubresource of placements is for schedulers.
const bindingSubresource = "binding"

// guard says who may write what, where roles cannot: syncers by object, users
// not the records of the system, nobody the reserved names.
func guard(ctx context.Context, r *request) error {
	switch {
	case r.system || r.virtual():
		return nil
	case r.syncer != "":
		return guardSyncer(ctx, r)
	}
	name := r.GetName()
	switch r.groupResource() {
	case copiesResource:
		return admission.NewForbidden(r.Attributes, errors.New("only the syncer of a physical cluster writes the records of its copies"))
	case podImportsResource:
		return admission.NewForbidden(r.Attributes, errors.New("only the server writes which pods NetworkPolicies on other physical clusters mean; all that have an address are, if their physical cluster shares a network with others (spec.pods.network of PhysicalClusters)"))
	case importsResource:
		return admission.NewForbidden(r.Attributes, errors.New("only the server writes what is imported; a Service is, if its physical cluster shares a network with others (spec.pods.network of PhysicalClusters)"))
	case podReviewsResource:
		return admission.NewForbidden(r.Attributes, errOnlySyncersAsk)
	case orphansResource:
		if r.GetOperation() == admission.Create || r.GetSubresource() != "" {
			return admission.NewForbidden(r.Attributes, errors.New("only the syncer of a physical cluster lists what it finds there; write an order to spec.order"))
		}
	case placementsResource:
		if r.GetSubresource() == bindingSubresource {
			return nil // Bind says what is permitted
		}
		return admission.NewForbidden(r.Attributes, errors.New("only the scheduler writes placements; use a PlacementPolicy in the namespace, a ClusterPlacementPolicy, or the annotation "+placementv1alpha1.PhysicalClusterAnnotation+" of the namespace"))
	case logicalClustersResource:
		if r.GetOperation() == admission.Create && name == scope.Root.String() {
			return admission.NewForbidden(r.Attributes, fmt.Errorf("the name %s is reserved", name))
		}
	}
	return nil
}

// guardSyncer asks for the content of a namespace, too, whether the namespace
// is placed on the syncer's physical cluster.
func guardSyncer(ctx context.Context, r *request) error {
	w := syncerguard.Write{
		Kinds: r.kinds, Target: r.syncer, Forgotten: r.lookup.forgotten(r.syncer), Cluster: r.cluster, Verb: verb(r.GetOperation()),
		Resource: r.groupResource(), Subresource: r.GetSubresource(),
		Namespace: r.GetNamespace(), Name: r.GetName(), Object: r.obj, Old: r.old,
	}
	if err := syncerguard.Check(w); err != nil {
		return admission.NewForbidden(r.Attributes, err)
	}
	switch {
	case w.Resource == podReviewsResource:
		return guardPlace(ctx, r)
	case w.Verb == syncerguard.Create && syncerguard.InNamespace(w):
		if err := guardPlace(ctx, r); err != nil {
			return err
		}
		return guardMirror(ctx, r)
	case w.Verb == syncerguard.Update && syncerguard.NamesPlace(w):
		return guardRecord(ctx, r)
	}
	return nil
}

// guardRecord refuses a Copy that gets another physical namespace than the one that the
// Namespace names, or is acknowledged without one: see elsewhere. A Namespace that is gone
// names none.
func guardRecord(ctx context.Context, r *request) error {
	c, ok := r.obj.(*placementv1alpha1.Copy)
	if !ok {
		return nil
	}
	namespace, err := r.getNamespace(ctx)
	if err == nil && placedOn(namespace, r.syncer) && elsewhere(r, namespace, c) != nil {
		namespace, err = r.getLiveNamespace(ctx)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	case !placedOn(namespace, r.syncer):
		return nil
	}
	return elsewhere(r, namespace, c)
}

// guardPlace refuses what a syncer makes in a namespace that is not placed on its
// physical cluster, with the words for one that does not exist: which others there are,
// and in which logical clusters, is nothing for it.
//
// It refuses the record of a copy that would go to another physical namespace than the
// one that the Namespace names: the syncer has not seen yet that the Namespace was made
// again, and with the old physical namespace its copy would go.
//
// What rules a namespace is stamped before the Namespace itself is: if that is deleted in
// between, the record of a rule is the only way in which the rule can go.
func guardPlace(ctx context.Context, r *request) error {
	namespace, err := r.getNamespace(ctx)
	if err == nil && misplaced(r, namespace) != nil {
		namespace, err = r.getLiveNamespace(ctx)
	}
	switch {
	case apierrors.IsNotFound(err):
		return apierrors.NewNotFound(namespacesResource, r.GetNamespace())
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	}
	if c, ok := r.obj.(*placementv1alpha1.Copy); ok && !placedOn(namespace, r.syncer) {
		known, err := r.lookup.known(ctx, r, c, "")
		switch {
		case err != nil:
			return apierrors.NewInternalError(fmt.Errorf("looking for the object of a Copy: %w", err))
		case known:
			return elsewhere(r, namespace, c)
		}
	}
	return misplaced(r, namespace)
}

func placedOn(namespace *corev1.Namespace, target string) bool {
	_, ok := stamp.TargetsOf(namespace.Annotations)[target]
	return ok
}

// misplaced says what is wrong, as far as that Namespace knows.
func misplaced(r *request, namespace *corev1.Namespace) error {
	if !placedOn(namespace, r.syncer) {
		return apierrors.NewNotFound(namespacesResource, r.GetNamespace())
	}
	if c, ok := r.obj.(*placementv1alpha1.Copy); ok {
		return elsewhere(r, namespace, c)
	}
	return nil
}

// elsewhere says that a Copy is about another physical namespace than that of its
// Namespace. One that does not say which has made nothing: it may be written, but that
// something is gone can only be said of a place.
func elsewhere(r *request, namespace *corev1.Namespace, c *placementv1alpha1.Copy) error {
	recorded, named := c.Status.PhysicalNamespace, namespace.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
	mayBeUnknown := c.Status.State != placementv1alpha1.CopyRemoved || !placedOn(namespace, r.syncer)
	if recorded == named || recorded == "" && mayBeUnknown {
		return nil
	}
	return apierrors.NewConflict(r.groupResource(), r.GetName(), fmt.Errorf("the physical namespace of namespace %s is %q, not %q",
		namespace.Name, named, recorded))
}

func verb(o admission.Operation) syncerguard.Verb {
	switch o {
	case admission.Create:
		return syncerguard.Create
	case admission.Update:
		return syncerguard.Update
	}
	return syncerguard.Delete
}
