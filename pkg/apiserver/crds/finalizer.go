package crds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	finalizerWorkers = 4
	// Objects may have finalizers of their own; how often we look whether they
	// are gone, less and less often.
	minPollInterval, maxPollInterval = 50 * time.Millisecond, 5 * time.Second
	// A definition that others hold shows at least this long that it is going: they
	// may look for the condition. Its time has a resolution of a second.
	shownDelay = 2 * time.Second
)

// Finalizer deletes the objects of a definition that is being deleted, and lets
// the definition go when they are gone.
type Finalizer struct {
	*controller.Controller[controller.Request]
	client      clientset.Interface
	definitions *Definitions
	handlers    *handlers
}

// NewFinalizer makes the controller; client is scoped by context.
func NewFinalizer(client clientset.Interface, h *Handler) *Finalizer {
	f := &Finalizer{client: client, definitions: h.definitions, handlers: h.handlers}
	f.Controller = controller.New("customresourcedefinitions-finalizer", finalizerWorkers, f.reconcile)
	f.definitions.Handle(func(_, now *Definition) {
		if now != nil && finalizing(now.CustomResourceDefinition) {
			f.Enqueue(controller.RequestFor(now))
		}
	})
	return f
}

func finalizing(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return !crd.DeletionTimestamp.IsZero() && apihelpers.CRDHasFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer)
}

func (f *Finalizer) reconcile(ctx context.Context, r controller.Request) (controller.Result, error) {
	d, ok := f.definitions.Get(r)
	if !ok || !finalizing(d.CustomResourceDefinition) {
		return controller.Result{}, nil
	}
	crd := d.DeepCopy()
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		// No object is made from here on; this comes back with the change.
		apihelpers.SetCRDCondition(crd, terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress"))
		return controller.Result{}, f.write(ctx, crd)
	}
	if going, err := f.going(ctx, crd); !going {
		return controller.Result{}, err
	}
	condition, left, err := f.empty(ctx, d)
	if err != nil || left > 0 {
		before := crd.Status.DeepCopy()
		apihelpers.SetCRDCondition(crd, condition)
		if !equality.Semantic.DeepEqual(*before, crd.Status) {
			err = errors.Join(err, f.write(ctx, crd))
		}
		return controller.Result{RequeueAfter: f.nextLook(d)}, err
	}
	if wait := showing(crd); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	apihelpers.SetCRDCondition(crd, condition)
	apihelpers.CRDRemoveFinalizer(crd, apiextensionsv1.CustomResourceCleanupFinalizer)
	return controller.Result{}, f.write(ctx, crd)
}

// going asks the server whether a definition is being deleted: the informer may know one
// that is gone and made again under its name.
func (f *Finalizer) going(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	live, err := f.client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the definition: %w", err)
	}
	return live.UID == crd.UID && finalizing(live), nil
}

// showing is how long a definition that others hold has to show its condition yet.
func showing(crd *apiextensionsv1.CustomResourceDefinition) time.Duration {
	condition := apihelpers.FindCRDCondition(crd, apiextensionsv1.Terminating)
	if condition == nil || len(crd.Finalizers) == 1 {
		return 0
	}
	return shownDelay - time.Since(condition.LastTransitionTime.Time)
}

// nextLook grows with the time that the deletion has taken.
func (f *Finalizer) nextLook(d *Definition) time.Duration {
	return min(max(time.Since(d.DeletionTimestamp.Time)/4, minPollInterval), maxPollInterval)
}

func (f *Finalizer) write(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	_, err := f.client.ApiextensionsV1().CustomResourceDefinitions().UpdateStatus(ctx, crd, metav1.UpdateOptions{})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or changed: the change brings it back
	}
	return fmt.Errorf("writing the status: %w", err)
}

// empty deletes all objects of the definition in its logical cluster and returns
// how many are left.
func (f *Finalizer) empty(ctx context.Context, d *Definition) (apiextensionsv1.CustomResourceDefinitionCondition, int, error) {
	crd := d.CustomResourceDefinition
	switch {
	case finalizer.OverlappingBuiltInResources()[d.Resource()]:
		return terminating(apiextensionsv1.ConditionFalse, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage"), 0, nil
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		return terminating(apiextensionsv1.ConditionFalse, "NeverEstablished", "resource was never established"), 0, nil
	}
	c := logicalcluster.From(crd)
	e, err := f.handlers.get(ctx, d)
	if err != nil {
		return failed("could not list instances: %v", err), 0, err
	}
	// Upstream goes to the storage instead of the API, for which nobody may get
	// in the way of a deletion: no admission, and no built-in resource of that name.
	storage, err := e.handler.GetCustomResourceListerCollectionDeleter(e.canonical)
	if err != nil {
		return failed("could not list instances: %v", err), 0, err
	}
	ctx = scope.WithCluster(ctx, c)
	objects, err := list(ctx, storage)
	if err != nil {
		return failed("could not list instances: %v", err), 0, err
	}
	namespaces := sets.New[string]()
	for _, obj := range objects {
		if obj.GetDeletionTimestamp() == nil {
			namespaces.Insert(obj.GetNamespace())
		}
	}
	var errs []error
	for _, namespace := range sets.List(namespaces) {
		if _, err := storage.DeleteCollection(request.WithNamespace(ctx, namespace), rest.ValidateAllObjectFunc, nil, nil); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return failed("could not issue all deletes: %v", err), len(objects), fmt.Errorf("deleting the objects of %s: %w", crd.Name, err)
	}
	if objects, err = list(ctx, storage); err != nil {
		return failed("could not list instances: %v", err), 0, err
	}
	if len(objects) > 0 {
		// Which ones is for the user to see: the condition says how many.
		return terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress",
			fmt.Sprintf("CustomResource deletion is in progress: %d remaining", len(objects))), len(objects), nil
	}
	return terminating(apiextensionsv1.ConditionFalse, "InstanceDeletionCompleted", "removed all instances"), 0, nil
}

func list(ctx context.Context, storage rest.Lister) ([]unstructured.Unstructured, error) {
	obj, err := storage.List(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	l, ok := obj.(*unstructured.UnstructuredList)
	if !ok {
		return nil, fmt.Errorf("listing: got a %T", obj)
	}
	return l.Items, nil
}

func terminating(status apiextensionsv1.ConditionStatus, reason, message string) apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: message}
}

func failed(format string, err error) apiextensionsv1.CustomResourceDefinitionCondition {
	return terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionFailed", fmt.Sprintf(format, err))
}
