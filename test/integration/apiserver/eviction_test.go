package apiserver

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// runningPod makes a pod "web" that runs and is ready, as far as its status says.
func runningPod(ctx context.Context, t *testing.T, s *server.Server) {
	t.Helper()
	pods := s.Kube.CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestAPodIsEvictedWhenTheBudgetOfItsLogicalClusterSparesIt(t *testing.T) {
	s := shared(t)
	guarded, free := s.NewCluster(t, "evict-guarded"), s.NewCluster(t, "evict-free")
	runningPod(guarded, t, s)
	runningPod(free, t, s)
	budgets := s.Kube.PolicyV1().PodDisruptionBudgets("default")
	budget, err := budgets.Create(guarded, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allow := func(n int32) {
		t.Helper()
		if budget, err = budgets.Get(guarded, "web", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: n, DesiredHealthy: 1, CurrentHealthy: 1 + n}
		if _, err := budgets.UpdateStatus(guarded, budget, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	evict := func(ctx context.Context, dryRun ...string) error {
		return s.Kube.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun}})
	}
	allow(0)
	if err := evict(guarded); !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("no disruption left: %v, want TooManyRequests", err)
	}
	if err := evict(free); err != nil {
		t.Errorf("where there is no budget: %v", err)
	}
	if _, err := s.Kube.CoreV1().Pods("default").Get(free, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the evicted pod: %v, want NotFound", err)
	}
	allow(1)
	if err := evict(guarded, metav1.DryRunAll); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := s.Kube.CoreV1().Pods("default").Get(guarded, "web", metav1.GetOptions{}); err != nil {
		t.Errorf("after a dry run: %v", err)
	}
	if err := evict(guarded); err != nil {
		t.Errorf("a disruption left: %v", err)
	}
	budget, err = budgets.Get(guarded, "web", metav1.GetOptions{})
	if _, disrupted := budget.Status.DisruptedPods["web"]; err != nil || budget.Status.DisruptionsAllowed != 0 || !disrupted {
		t.Errorf("the budget afterwards: %+v, %v", budget.Status, err)
	}
	if err := evict(guarded); !apierrors.IsNotFound(err) {
		t.Errorf("the pod that is gone: %v, want NotFound", err)
	}
}
