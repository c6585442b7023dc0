package evictions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// store holds one pod, and does to it what is due before a write.
type store struct {
	pod     *api.Pod
	before  []func(*api.Pod) error // one for each write
	deletes int
	deleted bool
}

func (s *store) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
	if s.deleted {
		return nil, apierrors.NewNotFound(api.Resource("pods"), "p")
	}
	return s.pod.DeepCopy(), nil
}

func (s *store) New() runtime.Object { return &api.Pod{} }

func (s *store) due() error {
	if len(s.before) == 0 {
		return nil
	}
	next := s.before[0]
	s.before = s.before[1:]
	return next(s.pod)
}

func (s *store) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if err := s.due(); err != nil {
		return nil, false, err
	}
	obj, err := info.UpdatedObject(ctx, s.pod.DeepCopy())
	if err != nil {
		return nil, false, err
	}
	s.pod = obj.(*api.Pod)
	bump(s.pod)
	return s.pod.DeepCopy(), false, nil
}

func (s *store) Delete(_ context.Context, _ string, _ rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	s.deletes++
	if err := s.due(); err != nil {
		return nil, false, err
	}
	if p := o.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != s.pod.ResourceVersion {
		return nil, false, conflict(s.pod)
	}
	s.deleted = len(o.DryRun) == 0
	return s.pod, true, nil
}

func bump(pod *api.Pod) {
	v, _ := strconv.Atoi(pod.ResourceVersion)
	pod.ResourceVersion = strconv.Itoa(v + 1)
}

func conflict(pod *api.Pod) error {
	return apierrors.NewConflict(api.Resource("pods"), pod.Name, errors.New("it was changed"))
}

func podIn(phase api.PodPhase, ready bool) *api.Pod {
	pod := &api.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "p", UID: "u", ResourceVersion: "5", Labels: map[string]string{"app": "web"}}}
	pod.Status.Phase = phase
	if ready {
		pod.Status.Conditions = []api.PodCondition{{Type: api.PodReady, Status: api.ConditionTrue}}
	}
	return pod
}

func budget(name string, change func(*policyv1.PodDisruptionBudget)) runtime.Object {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	if change != nil {
		change(b)
	}
	return b
}

func allows(n int32) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = n }
}

// evicting runs one eviction on a fresh store.
func evicting(t *testing.T, s *store, kube *fake.Clientset, e *policy.Eviction, o *metav1.CreateOptions) error {
	t.Helper()
	r := NewREST(s, s, kube.PolicyV1())
	r.retries = wait.Backoff{Steps: 4, Duration: time.Millisecond}
	_, err := r.Create(scope.WithCluster(t.Context(), "shop"), "p", e, nil, o)
	return err
}

func eviction(options *metav1.DeleteOptions) *policy.Eviction {
	return &policy.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "p"}, DeleteOptions: options}
}

func version(v string) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &v}}
}

// outcome is what a client sees, and what is left of the pod and the budget "b".
type outcome struct {
	Code, Retry      int32
	Cause            string
	Deletes          int
	Gone, Conditions bool
	Allowed          int32
}

func TestEvictionsDoWhatTheTableOfThePackageSays(t *testing.T) {
	t.Parallel()
	becomes := func(ready bool) func(*api.Pod) error {
		return func(pod *api.Pod) error { pod.Status = podIn(api.PodRunning, ready).Status; bump(pod); return nil }
	}
	always := func(pod *api.Pod) error { return conflict(pod) }
	terminating := podIn(api.PodRunning, true)
	terminating.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	healthy := func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DesiredHealthy = 2, 2 }
	for name, tc := range map[string]struct {
		pod     *api.Pod
		budgets []runtime.Object
		before  []func(*api.Pod) error
		options *metav1.DeleteOptions
		want    outcome
	}{
		"ended, no disruption left":           {pod: podIn(api.PodSucceeded, false), budgets: []runtime.Object{budget("b", nil)}, want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"terminating, no disruption left":     {pod: terminating, budgets: []runtime.Object{budget("b", nil)}, want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"pending, no disruption left":         {pod: podIn(api.PodPending, false), budgets: []runtime.Object{budget("b", nil)}, want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"pending, and changed once meanwhile": {pod: podIn(api.PodPending, false), before: []func(*api.Pod) error{func(p *api.Pod) error { bump(p); return nil }}, want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"pending, and running meanwhile": {pod: podIn(api.PodPending, false), budgets: []runtime.Object{budget("b", nil)}, before: []func(*api.Pod) error{becomes(true)},
			want: outcome{Code: 429, Cause: "The disruption budget b needs 0 healthy pods and has 0 currently"}},
		"pending, and always another version": {pod: podIn(api.PodPending, false), before: []func(*api.Pod) error{always, always, always, always}, want: outcome{Code: 409}},
		"pending, another version is meant":   {pod: podIn(api.PodPending, false), options: version("4"), want: outcome{Code: 409}},
		"pending, this version is meant":      {pod: podIn(api.PodPending, false), options: version("5"), want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"another UID is meant": {pod: podIn(api.PodRunning, true), options: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("old"))}},
			want: outcome{Code: 409}},
		"no budget": {pod: podIn(api.PodRunning, true), want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"budgets of others": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{
			budget("other-app", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "db" }),
			budget("other-namespace", func(b *policyv1.PodDisruptionBudget) { b.Namespace = "db" }),
			budget("wrong", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "_" }),
		}, want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"two budgets": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", allows(3)), budget("c", allows(3))}, want: outcome{Code: 500, Allowed: 3}},
		"a budget with disruptions left": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", allows(3))},
			want: outcome{Deletes: 1, Gone: true, Conditions: true, Allowed: 2}},
		"a budget for everything": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} })},
			want: outcome{Code: 429, Cause: "The disruption budget b needs 0 healthy pods and has 0 currently"}},
		"a budget with none left, other pods unhealthy": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", healthy)},
			want: outcome{Code: 429, Cause: "The disruption budget b needs 2 healthy pods and has 2 currently"}},
		"a budget that was not counted yet": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", func(b *policyv1.PodDisruptionBudget) { b.Generation, b.Status.DisruptionsAllowed = 2, 1 })},
			want: outcome{Code: 429, Retry: 10, Cause: "The disruption budget b is still being processed by the server.", Allowed: 1}},
		"a budget that cannot be counted": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "no owner"}}
		})}, want: outcome{Code: 429, Cause: "The disruption budget b does not allow evicting pods currently because it failed sync: no owner"}},
		"a budget that says why": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Status.CurrentHealthy = 1
			b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: "Sunday", Message: "never"}}
		})}, want: outcome{Code: 429, Cause: "The disruption budget b does not allow evicting pods currently (Sunday): never"}},
		"a budget below zero": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", allows(-1))},
			want: outcome{Code: 403, Cause: "The disruption budget b does not allow evicting pods currently: pdb disruptions allowed is negative", Allowed: -1}},
		"a budget with too many evictions": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptionsAllowed, b.Status.DisruptedPods = 1, map[string]metav1.Time{}
			for i := range maxDisrupted + 1 {
				b.Status.DisruptedPods[fmt.Sprint(i)] = metav1.Time{}
			}
		})}, want: outcome{Code: 403, Allowed: 1, Cause: "The disruption budget b does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller"}},
		"not ready, the others are healthy": {pod: podIn(api.PodRunning, false), budgets: []runtime.Object{budget("b", healthy)}, want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"not ready, the others are not": {pod: podIn(api.PodRunning, false), budgets: []runtime.Object{budget("b", func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy = 2 })},
			want: outcome{Code: 429, Cause: "The disruption budget b needs 2 healthy pods and has 0 currently"}},
		"not ready, nobody minds": {pod: podIn(api.PodRunning, false), budgets: []runtime.Object{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Status.DesiredHealthy, b.Spec.UnhealthyPodEvictionPolicy = 2, ptr.To(policyv1.AlwaysAllow)
		})}, want: outcome{Deletes: 1, Gone: true, Conditions: true}},
		"not ready, and ready meanwhile": {pod: podIn(api.PodRunning, false), budgets: []runtime.Object{budget("b", healthy)}, before: []func(*api.Pod) error{becomes(true)},
			want: outcome{Code: 429, Retry: 10, Cause: "The disruption budget b is still being processed by the server."}},
		"not ready, another version is meant": {pod: podIn(api.PodRunning, false), budgets: []runtime.Object{budget("b", healthy)}, options: version("4"), want: outcome{Code: 409}},
		"a dry run takes nothing": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", allows(3))}, options: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			want: outcome{Deletes: 1, Allowed: 3}},
		"a dry run is refused as well": {pod: podIn(api.PodRunning, true), budgets: []runtime.Object{budget("b", nil)}, options: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			want: outcome{Code: 429, Cause: "The disruption budget b needs 0 healthy pods and has 0 currently"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kube := &store{pod: tc.pod.DeepCopy(), before: tc.before}, fake.NewClientset(tc.budgets...)
			err := evicting(t, s, kube, eviction(tc.options), &metav1.CreateOptions{})
			if diff := cmp.Diff(tc.want, result(t, s, kube, err)); diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
		})
	}
}

func result(t *testing.T, s *store, kube *fake.Clientset, err error) outcome {
	t.Helper()
	got := outcome{Deletes: s.deletes, Gone: s.deleted}
	for _, c := range s.pod.Status.Conditions {
		got.Conditions = got.Conditions || c.Type == api.DisruptionTarget
	}
	if b, err := kube.PolicyV1().PodDisruptionBudgets("web").Get(t.Context(), "b", metav1.GetOptions{}); err == nil {
		got.Allowed = b.Status.DisruptionsAllowed
	}
	if err == nil {
		return got
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("%T: %v", err, err)
	}
	got.Code = status.Status().Code
	if d := status.Status().Details; d != nil {
		got.Retry = d.RetryAfterSeconds
		for _, c := range d.Causes {
			if c.Type == policyv1.DisruptionBudgetCause {
				got.Cause += c.Message
			}
		}
	}
	return got
}

func TestABudgetThatOthersWriteIsReadAgain(t *testing.T) {
	t.Parallel()
	for conflicts, want := range map[int]outcome{
		2: {Deletes: 1, Gone: true, Conditions: true, Allowed: 2},
		9: {Code: 504, Retry: 10, Allowed: 3},
	} {
		s, kube := &store{pod: podIn(api.PodRunning, true)}, fake.NewClientset(budget("b", allows(3)))
		left, reads := conflicts, 0
		kube.PrependReactor("update", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			left--
			return left >= 0, nil, apierrors.NewConflict(policyv1.Resource("poddisruptionbudgets"), "b", errors.New("it was changed"))
		})
		kube.PrependReactor("get", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			reads++
			return false, nil, nil
		})
		err := evicting(t, s, kube, eviction(nil), &metav1.CreateOptions{})
		if want := min(conflicts, 3); reads != want {
			t.Errorf("%d conflicts: the budget was read %d times, want %d", conflicts, reads, want)
		}
		if diff := cmp.Diff(want, result(t, s, kube, err)); diff != "" {
			t.Errorf("%d conflicts: %v: %s", conflicts, err, diff)
		}
	}
}

func TestDryRunOfTheRequestAndOfTheEvictionAreOne(t *testing.T) {
	t.Parallel()
	all := []string{metav1.DryRunAll}
	for name, tc := range map[string]struct {
		request  []string
		eviction *metav1.DeleteOptions
		gone     bool
		bad      bool
	}{
		"neither":        {gone: true},
		"the request":    {request: all},
		"the eviction":   {eviction: &metav1.DeleteOptions{DryRun: all}},
		"both":           {request: all, eviction: &metav1.DeleteOptions{DryRun: all}},
		"they disagree":  {request: all, eviction: &metav1.DeleteOptions{DryRun: []string{"Some"}}, bad: true},
		"empty options":  {request: all, eviction: &metav1.DeleteOptions{}},
		"broken objects": {eviction: &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}, bad: true},
	} {
		s := &store{pod: podIn(api.PodRunning, true)}
		err := evicting(t, s, fake.NewClientset(), eviction(tc.eviction), &metav1.CreateOptions{DryRun: tc.request})
		if s.deleted != tc.gone || (err != nil) != tc.bad {
			t.Errorf("%s: gone %v, want %v; %v", name, s.deleted, tc.gone, err)
		}
	}
}

func TestAnEvictionIsForThePodOfItsURLAndAsksAdmission(t *testing.T) {
	t.Parallel()
	s := &store{pod: podIn(api.PodRunning, true)}
	r := NewREST(s, s, fake.NewClientset().PolicyV1())
	ctx := scope.WithCluster(t.Context(), "shop")
	if _, err := r.Create(ctx, "q", eviction(nil), nil, &metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("another name: %v, want BadRequest", err)
	}
	if _, err := r.Create(ctx, "p", &api.Pod{}, nil, &metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("no eviction: %v, want BadRequest", err)
	}
	refused := errors.New("refused")
	deny := func(context.Context, runtime.Object) error { return refused }
	if _, err := r.Create(ctx, "p", eviction(nil), deny, &metav1.CreateOptions{}); !errors.Is(err, refused) || s.deleted {
		t.Errorf("admission refuses: %v", err)
	}
}

func TestAnEvictionAsksForTheBudgetsOfItsLogicalCluster(t *testing.T) {
	t.Parallel()
	s := &store{pod: podIn(api.PodRunning, true)}
	kube := fake.NewClientset()
	r := NewREST(s, s, kube.PolicyV1())
	if _, err := r.Create(t.Context(), "p", eviction(nil), nil, &metav1.CreateOptions{}); !apierrors.IsInternalError(err) || s.deleted || len(kube.Actions()) > 0 {
		t.Errorf("without a logical cluster: %v, %v", err, kube.Actions())
	}
}
