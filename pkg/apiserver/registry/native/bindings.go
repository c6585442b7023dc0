package native

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Bind takes a binding for the Placement of its name in a namespace of the logical cluster
// of the context, or says why not.
type Bind func(ctx context.Context, namespace string, b *placement.PlacementBinding, dryRun bool) error

// BindingREST serves the subresource binding of Placements. No PlacementBinding is stored.
type BindingREST struct{ bind Bind }

// NewBindingREST has bind say what is permitted, and write it.
func NewBindingREST(bind Bind) *BindingREST { return &BindingREST{bind: bind} }

var (
	_ rest.NamedCreater                   = &BindingREST{}
	_ rest.SubresourceObjectMetaPreserver = &BindingREST{}
)

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate implements
// rest.SubresourceObjectMetaPreserver: the UID is a precondition.
func (*BindingREST) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// New implements rest.Storage.
func (*BindingREST) New() runtime.Object { return &placement.PlacementBinding{} }

// Destroy implements rest.Storage.
func (*BindingREST) Destroy() {}

// Create implements rest.NamedCreater.
func (r *BindingREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*placement.PlacementBinding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a PlacementBinding: %T", obj))
	}
	if b.Name != name {
		return nil, apierrors.NewBadRequest("the name of the PlacementBinding is not that of the Placement in the URL")
	}
	if errs := validateBinding(b); len(errs) > 0 {
		return nil, apierrors.NewInvalid(placement.SchemeGroupVersion.WithKind("PlacementBinding").GroupKind(), name, errs)
	}
	if validate != nil {
		if err := validate(ctx, b.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.bind(ctx, genericapirequest.NamespaceValue(ctx), b, dryrun.IsDryRun(o.DryRun)); err != nil {
		return nil, err
	}
	b.ManagedFields = nil
	return b, nil
}

// maxBound is as many as a policy may want.
const maxBound = 64

func validateBinding(b *placement.PlacementBinding) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(b.SchedulerName) {
		errs = append(errs, field.Invalid(field.NewPath("schedulerName"), b.SchedulerName, problem))
	}
	return append(errs, validateNames(b.PhysicalClusters, field.NewPath("physicalClusters"))...)
}

// validateNames: some physical clusters, each once.
func validateNames(names []string, path *field.Path) field.ErrorList {
	switch {
	case len(names) == 0:
		return field.ErrorList{field.Required(path, "at least one")}
	case len(names) > maxBound:
		return field.ErrorList{field.TooMany(path, len(names), maxBound)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range names {
		if problem := scope.ValidateName(name); problem != "" {
			errs = append(errs, field.Invalid(path.Index(i), name, problem))
		}
		if seen[name] {
			errs = append(errs, field.Duplicate(path.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}
