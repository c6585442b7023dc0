package backends

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func pod(name, target string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"` + target + `":{"state":"Observed","uid":"u"}}`}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func TestWhichPodsAServiceLeadsTo(t *testing.T) {
	t.Parallel()
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web",
		Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{"state":"Draining"}}`}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	pods := []corev1.Pod{
		pod("on-east", "east"), pod("on-west", "west"), pod("unready", "east", unready),
		pod("of-another", "east", func(p *corev1.Pod) { p.Labels["app"] = "db" }), pod("elsewhere", "east", func(p *corev1.Pod) { p.Namespace = "bank" }),
		pod("ended", "east", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), pod("ending", "east", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
	}
	names := func(of []Backend) (names []string) {
		for _, b := range of {
			names = append(names, b.Pod.Name)
		}
		slices.Sort(names)
		return names
	}
	check := func(what string, pods []corev1.Pod, all, receiving []string, matched int) {
		t.Helper()
		of, n := Of(s, Candidates(pods))
		if diff := cmp.Diff(all, names(of)); diff != "" || n != matched {
			t.Errorf("%s: %d are matched, want %d (-want +got)\n%s", what, n, matched, diff)
		}
		if diff := cmp.Diff(receiving, names(Receiving(of))); diff != "" {
			t.Errorf("%s, to which traffic goes (-want +got)\n%s", what, diff)
		}
	}
	check("all", pods, []string{"on-east", "on-west"}, []string{"on-east"}, 3)
	check("only where traffic is withdrawn", pods[1:3], []string{"on-west"}, []string{"on-west"}, 2)
	check("none", nil, nil, nil, 0)
	s.Spec.PublishNotReadyAddresses = true
	check("those that are not ready, too", pods, []string{"on-east", "on-west", "unready"}, []string{"on-east", "unready"}, 3)
	s.Spec.Selector = nil
	check("without a selector", pods, nil, nil, 0)
}
