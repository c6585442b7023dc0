package auth

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/google/go-cmp/cmp"
)

func TestThePriorityClassesOfTheSystemAreInEveryLogicalCluster(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "priorities-a"), s.NewCluster(t, "priorities-b")
	classes := s.Kube.SchedulingV1().PriorityClasses()
	if _, err := classes.Create(a, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Value: 5}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	names := func(ctx context.Context) []string {
		t.Helper()
		list, err := classes.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, c := range list.Items {
			all = append(all, c.Name)
		}
		slices.Sort(all)
		return all
	}
	system := []string{"system-cluster-critical", "system-node-critical"}
	if diff := cmp.Diff(append([]string{"mine"}, system...), names(a)); diff != "" {
		t.Errorf("where there is another one: %s", diff)
	}
	if diff := cmp.Diff(system, names(b)); diff != "" {
		t.Errorf("where there is none: %s", diff)
	}
	class, err := classes.Get(a, "system-node-critical", metav1.GetOptions{})
	if err != nil || class.Value != 2000001000 || class.PreemptionPolicy == nil || *class.PreemptionPolicy != corev1.PreemptLowerPriority || class.UID == "" || class.Annotations["kcp.io/cluster"] != "priorities-a" {
		t.Errorf("one of them: %+v, %v", class, err)
	}
	w, err := classes.Watch(a, metav1.ListOptions{FieldSelector: "metadata.name=system-node-critical"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := next(t, w); e.Type != watch.Added {
		t.Errorf("a watch begins with %s", e.Type)
	}
	if err := classes.Delete(a, "system-node-critical", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting one: %v, want Forbidden", err)
	}
	if _, err := classes.Patch(a, "system-node-critical", types.MergePatchType, []byte(`{"value":1}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("changing its value: %v, want Invalid or Forbidden", err)
	}
	if _, err := classes.Patch(a, "system-node-critical", types.MergePatchType, []byte(`{"description":"ours"}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("describing it: %v", err)
	}
	for ctx, want := range map[context.Context]string{a: "ours", b: "Used for system critical pods that must not be moved from their current node."} {
		if c, err := classes.Get(ctx, "system-node-critical", metav1.GetOptions{}); err != nil || c.Description != want {
			t.Errorf("afterwards: %v, %v; want %q", c, err, want)
		}
	}
	for _, ctx := range []context.Context{a, b} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{PriorityClassName: "system-node-critical", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if pod, err = s.Kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil || pod.Spec.Priority == nil || *pod.Spec.Priority != 2000001000 {
			t.Errorf("a pod with it: %v, %v", pod, err)
		}
	}
}
