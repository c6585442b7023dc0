package evictions

import (
	"context"
	"fmt"
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/util/retry"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/scope"
)

var kind = schema.GroupVersionKind{Group: policyv1.GroupName, Version: "v1", Kind: "Eviction"}

// Pods is the storage of pods.
type Pods interface {
	rest.Getter
	rest.GracefulDeleter
}

// REST is the storage of evictions; none is ever stored.
type REST struct {
	pods    Pods
	status  rest.Updater
	budgets policyclient.PodDisruptionBudgetsGetter
	retries wait.Backoff
	now     func() time.Time
}

// NewREST evicts pods; status is their storage for the status, and budgets acts in
// the logical cluster of its context.
func NewREST(pods Pods, status rest.Updater, budgets policyclient.PodDisruptionBudgetsGetter) *REST {
	return &REST{pods: pods, status: status, budgets: budgets, now: time.Now,
		retries: wait.Backoff{Steps: 20, Duration: 500 * time.Millisecond, Factor: 1, Jitter: 0.1}} // upstream's
}

// New implements rest.Storage.
func (*REST) New() runtime.Object { return &policy.Eviction{} }

// Destroy implements rest.Storage; whoever made the storage of pods ends it.
func (*REST) Destroy() {}

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (*REST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind { return kind }

// AcceptsGroupVersion implements rest.GroupVersionAcceptor.
func (*REST) AcceptsGroupVersion(gv schema.GroupVersion) bool {
	return gv == policyv1.SchemeGroupVersion || gv == policyv1beta1.SchemeGroupVersion
}

// Create implements rest.NamedCreater.
func (r *REST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	eviction, ok := obj.(*policy.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not an Eviction object: %T", obj))
	}
	options, err := deleteOptions(name, eviction, o)
	if err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, eviction.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	guarded, err := r.deleteUnguarded(ctx, name, options)
	if err == nil && guarded != nil {
		err = r.deleteGuarded(ctx, guarded, options)
	}
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// deleteOptions are those of the eviction, with dry run as its request says.
func deleteOptions(name string, eviction *policy.Eviction, o *metav1.CreateOptions) (*metav1.DeleteOptions, error) {
	options := eviction.DeleteOptions
	switch {
	case name != eviction.Name:
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	case options == nil:
		return &metav1.DeleteOptions{DryRun: o.DryRun}, nil
	case ptr.Deref(options.IgnoreStoreReadErrorWithClusterBreakingPotential, false):
		return nil, apierrors.NewInvalid(kind.GroupKind(), name, field.ErrorList{field.Invalid(
			field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true, "can not be set for pod eviction, try after removing the option")})
	case len(options.DryRun) == 0:
		options.DryRun = o.DryRun
	case len(o.DryRun) > 0 && !slices.Equal(o.DryRun, options.DryRun):
		return nil, apierrors.NewBadRequest(fmt.Sprintf("dry-run options of the request and of its content differ: %v and %v", o.DryRun, options.DryRun))
	}
	return options, nil
}

// deleteUnguarded deletes the pod if no budget has a say, else it returns the pod.
func (r *REST) deleteUnguarded(ctx context.Context, name string, options *metav1.DeleteOptions) (guarded *api.Pod, err error) {
	again := func(err error) bool { return apierrors.IsConflict(err) && !pinned(options) }
	err = retry.OnError(r.retries, again, func() error {
		obj, err := r.pods.Get(ctx, name, &metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod, ok := obj.(*api.Pod)
		switch {
		case !ok:
			return fmt.Errorf("%T is no pod", obj)
		case !unguarded(pod):
			guarded = pod
			return nil
		case ended(pod):
			return r.delete(ctx, name, options)
		}
		return r.delete(ctx, name, asRead(options, pod))
	})
	return guarded, err
}

// deleteGuarded deletes a pod that may have a budget.
func (r *REST) deleteGuarded(ctx context.Context, pod *api.Pod, options *metav1.DeleteOptions) error {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(scope.ErrNoCluster)
	}
	client, in := r.budgets.PodDisruptionBudgets(pod.Namespace), scope.With(ctx, scope.Scope{Cluster: c})
	all, err := client.List(in, metav1.ListOptions{})
	if err != nil {
		return err
	}
	budget, err := budgetOf(pod, all.Items)
	if err != nil {
		return err
	}
	switch {
	case budget == nil:
	case free(pod, budget):
		err := r.delete(ctx, pod.Name, asRead(options, pod))
		if apierrors.IsConflict(err) && !pinned(options) {
			return busy(budget.Name) // it may have become ready
		}
		return err
	default:
		if err := r.charge(in, client, budget, pod.Name, dryrun.IsDryRun(options.DryRun)); err != nil {
			return err
		}
	}
	return r.delete(ctx, pod.Name, options)
}

// charge takes one disruption of budget for a pod.
func (r *REST) charge(ctx context.Context, client policyclient.PodDisruptionBudgetInterface, budget *policyv1.PodDisruptionBudget, pod string, dryRun bool) error {
	name, first := budget.Name, true
	err := retry.RetryOnConflict(r.retries, func() (err error) {
		if !first {
			if budget, err = client.Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		first = false
		charged, err := take(budget, pod, metav1.Time{Time: r.now()})
		if err != nil || dryRun {
			return err
		}
		_, err = client.UpdateStatus(ctx, charged, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsConflict(err) {
		return apierrors.NewTimeoutError(fmt.Sprintf("couldn't update PodDisruptionBudget %q due to conflicts", name), retrySeconds)
	}
	return err
}

// delete says in the pod's status why it goes, and deletes it.
func (r *REST) delete(ctx context.Context, name string, options *metav1.DeleteOptions) error {
	if !dryrun.IsDryRun(options.DryRun) {
		evicting := func(_ context.Context, _, latest runtime.Object) (runtime.Object, error) {
			return disrupted(latest, options)
		}
		updated, _, err := r.status.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, evicting),
			rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		if pinned(options) { // the version that is meant is now the one that we wrote
			pod, ok := updated.(*api.Pod)
			if !ok {
				return fmt.Errorf("%T is no pod", updated)
			}
			options = options.DeepCopy()
			options.Preconditions.ResourceVersion = &pod.ResourceVersion
		}
	}
	_, _, err := r.pods.Delete(ctx, name, rest.ValidateAllObjectFunc, options)
	return err
}

// disrupted returns latest with the condition of a pod that is evicted, if it is
// the one that options mean.
func disrupted(latest runtime.Object, options *metav1.DeleteOptions) (runtime.Object, error) {
	old, ok := latest.(*api.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no pod", latest)
	}
	pod := old.DeepCopy()
	if p := options.Preconditions; p != nil {
		if uid := ptr.Deref(p.UID, ""); uid != "" && uid != pod.UID {
			return nil, apierrors.NewConflict(api.Resource("pods"), pod.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s): the pod was deleted and made again", uid, pod.UID))
		}
		if v := ptr.Deref(p.ResourceVersion, ""); v != "" && v != pod.ResourceVersion {
			return nil, apierrors.NewConflict(api.Resource("pods"), pod.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s): the pod was changed", v, pod.ResourceVersion))
		}
	}
	podutil.UpdatePodCondition(&pod.Status, &api.PodCondition{
		Type: api.DisruptionTarget, Status: api.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	})
	return pod, nil
}

// pinned says that options mean one version of the pod.
func pinned(options *metav1.DeleteOptions) bool {
	return options.Preconditions != nil && options.Preconditions.ResourceVersion != nil
}

// asRead returns options for the version of pod that was read, unless they mean a
// version already.
func asRead(options *metav1.DeleteOptions, pod *api.Pod) *metav1.DeleteOptions {
	if pinned(options) {
		return options
	}
	options = options.DeepCopy()
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	options.Preconditions.ResourceVersion = &pod.ResourceVersion
	return options
}
