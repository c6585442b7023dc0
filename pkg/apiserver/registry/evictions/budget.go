package evictions

import (
	"errors"
	"fmt"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
)

const (
	// maxDisrupted is how many evictions may be unknown to the controller of budgets.
	maxDisrupted = 2000
	// retrySeconds is when to ask again for what is decided soon.
	retrySeconds = 10

	refusal = "Cannot evict pod as it would violate the pod's disruption budget."
)

// ended pods disrupt nothing, however they change meanwhile.
func ended(pod *api.Pod) bool {
	return pod.Status.Phase == api.PodSucceeded || pod.Status.Phase == api.PodFailed || !pod.DeletionTimestamp.IsZero()
}

// unguarded says that no budget has a say.
func unguarded(pod *api.Pod) bool {
	return ended(pod) || pod.Status.Phase == api.PodPending
}

// budgetOf returns the one budget of all that covers pod, or nil.
func budgetOf(pod *api.Pod, all []policyv1.PodDisruptionBudget) (*policyv1.PodDisruptionBudget, error) {
	var found *policyv1.PodDisruptionBudget
	for i := range all {
		selector, err := metav1.LabelSelectorAsSelector(all[i].Spec.Selector)
		if err != nil || all[i].Namespace != pod.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue // a selector that is wrong selects nothing
		}
		if found != nil {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
				Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
			}}
		}
		found = &all[i]
	}
	return found, nil
}

// free says that pod may go without taking a disruption of its budget, as long as
// it stays as it is: it is not ready, so it does not count as healthy.
func free(pod *api.Pod, b *policyv1.PodDisruptionBudget) bool {
	if podutil.IsPodReady(pod) {
		return false
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// take returns b with one disruption less, for the pod of that name, or why there
// is none.
func take(b *policyv1.PodDisruptionBudget, pod string, now metav1.Time) (*policyv1.PodDisruptionBudget, error) {
	switch s := b.Status; {
	case s.ObservedGeneration < b.Generation:
		return nil, busy(b.Name)
	case s.DisruptionsAllowed < 0:
		return nil, forbidden(b.Name, "pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	case len(s.DisruptedPods) > maxDisrupted:
		return nil, forbidden(b.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			"too many pending evictions not confirmed by PDB controller")
	case s.DisruptionsAllowed == 0:
		return nil, tooMany(0, spent(b))
	}
	b = b.DeepCopy()
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptionsAllowed == 0 {
		pdbhelper.UpdateDisruptionAllowedCondition(b)
	}
	// The controller of budgets does not count the pod from now on; if the pod is
	// not deleted after all, it counts again in a while.
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod] = now
	return b, nil
}

// spent explains why a budget has no disruption left. Figures of a budget that
// could not be counted mean nothing.
func spent(b *policyv1.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	explained := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case explained && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case b.Status.CurrentHealthy <= b.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	case explained:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason, c.Message)
	default:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
	}
}

// busy says that the answer may be another one soon.
func busy(budget string) error {
	return tooMany(retrySeconds, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

func tooMany(seconds int, cause string) error {
	return because(apierrors.NewTooManyRequests(refusal, seconds), cause)
}

func forbidden(budget, problem, cause string) error {
	err := apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), budget, errors.New(problem))
	return because(err, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: %s", budget, cause))
}

func because(err *apierrors.StatusError, message string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	return err
}
