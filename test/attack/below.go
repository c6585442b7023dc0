package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// backends are pods behind a Service with a selector. A syncer says itself which pods it
// mirrors: it is asked for them, by its tunnel, and no address that they have is.
var backends = Attack{
	Name: "for a Service that runs below nobody is asked but the physical clusters of its pods, at no address",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.hooked(ctx, map[string]string{"app": "app"})
		if err != nil {
			return err
		}
		if _, err := w.mallory.kube.DiscoveryV1().EndpointSlices("web").Create(withTarget(ctx), sliceOf(map[string]string{placementv1alpha1.UIDAnnotation: "1"}), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("planting a slice: %w", err)
		}
		// The tenant himself writes one, and another tenant has pods of these labels.
		if _, err := w.admin.kube.DiscoveryV1().EndpointSlices("web").Create(ctx, sliceNamed("written"), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("writing a slice: %w", err)
		}
		other, err := w.placed(ctx)
		if err != nil {
			return err
		}
		if err := w.plantPod(other, "neighbour"); err != nil {
			return err
		}
		if err := w.hookSays(ctx, "no pod of its namespace has the labels that it selects"); err != nil {
			return err
		}
		if err := w.plantPod(ctx, "planted"); err != nil {
			return err
		}
		return w.hookSays(ctx, "service web/hook: pod planted: the physical cluster of the pod cannot be reached")
	},
	Control: endpoints.Control,
}

func sliceNamed(name string) *discoveryv1.EndpointSlice {
	s := sliceOf(nil)
	s.Name = name
	return s
}

// plantPod mirrors, as the syncer, a pod that is ready at an address.
func (w *World) plantPod(ctx context.Context, name string) error {
	pods := w.mallory.kube.CoreV1().Pods("web")
	made, err := pods.Create(withTarget(ctx), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "app"}, Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("mirroring a pod: %w", err)
	}
	made.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: Elsewhere, PodIPs: []corev1.PodIP{{IP: Elsewhere}}, HostIP: Elsewhere,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if _, err := pods.UpdateStatus(withTarget(ctx), made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("mirroring the status of a pod: %w", err)
	}
	return nil
}

// hookSays waits for the webhook to fail with words, many times, and fails if an address is
// ever called.
func (w *World) hookSays(ctx context.Context, words string) error {
	var called error
	said := 0
	err := eventually(ctx, "waiting for "+words, func() error {
		_, err := w.admin.kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil:
			return errors.New("nobody is asked")
		case strings.Contains(err.Error(), dialled):
			called = fmt.Errorf("an address is called: %w", err)
			return nil
		case !strings.Contains(err.Error(), words):
			return err
		}
		if said++; said < 20 {
			return fmt.Errorf("it is said %d times: %w", said, err)
		}
		return nil
	})
	return errors.Join(called, err)
}
