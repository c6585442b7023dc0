package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// resizes has pods below get what somebody gives a container above, without being made anew.
func (r reached) resizes(t *testing.T) {
	ctx := context.Background()
	for _, pod := range []string{"alone", r.made} {
		var before corev1.Pod
		if ok, err := r.home.below().Get(ctx, &before, "pod", pod); err != nil || !ok {
			t.Fatalf("pod %s below: found %v: %v", pod, ok, err)
		}
		name := before.Spec.Containers[0].Name
		// A kubelet that can resize says what containers have; simulated nodes do not.
		says := fmt.Sprintf(`{"status":{"containerStatuses":[{"name":%q,"resources":{"requests":{"cpu":"10m"}}}]}}`, name)
		must(t)(r.home.below().Run(ctx, "patch", "pod", pod, "--subresource=status", "--patch", says))
		eventually(t, func() error {
			var above corev1.Pod
			if ok, err := r.Get(ctx, &above, "pod", pod); err != nil || !ok || len(above.Status.ContainerStatuses) == 0 || above.Status.ContainerStatuses[0].Resources == nil {
				return fmt.Errorf("pod %s: found %v, %+v: %w", pod, ok, above.Status.ContainerStatuses, err)
			}
			return nil
		})
		patch := fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":"35m"}}}]}}`, name)
		must(t)(r.Run(ctx, "patch", "pod", pod, "--subresource=resize", "--patch", patch))
		eventually(t, func() error {
			var below corev1.Pod
			if ok, err := r.home.below().Get(ctx, &below, "pod", pod); err != nil || !ok {
				return fmt.Errorf("pod %s below: found %v: %w", pod, ok, err)
			}
			if below.UID != before.UID {
				t.Fatalf("pod %s was made anew below", pod)
			}
			if cpu := below.Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "35m" {
				return fmt.Errorf("container %s of pod %s has %s below", name, pod, cpu)
			}
			return nil
		})
	}
}

// debugs adds ephemeral containers, and attaches to them as kubectl debug -it does when they
// run: simulated nodes start none.
func (r reached) debugs(t *testing.T) {
	ctx := context.Background()
	for _, pod := range []string{"alone", r.made} {
		must(t)(r.Run(ctx, "debug", pod, "--image=busybox:1.37", "--container=shell", "--env=FROM=above", "--stdin", "--attach=false", "--profile=baseline"))
		eventually(t, func() error {
			var below corev1.Pod
			if ok, err := r.home.below().Get(ctx, &below, "pod", pod); err != nil || !ok {
				return fmt.Errorf("pod %s below: found %v: %w", pod, ok, err)
			}
			for _, c := range below.Spec.EphemeralContainers {
				if c.Name == "shell" && c.Image == "busybox:1.37" && c.Stdin && slices.Contains(c.Env, corev1.EnvVar{Name: "FROM", Value: "above"}) {
					return nil
				}
			}
			return fmt.Errorf("pod %s below has the ephemeral containers %+v", pod, below.Spec.EphemeralContainers)
		})
		if out, errs, err := r.run(ctx, nil, strings.NewReader("hello\n"), "attach", "-i", pod, "-c", "shell"); err != nil || !strings.Contains(out, "hello") {
			t.Errorf("attaching to the ephemeral container of %s: %v, %q, %s", pod, err, out, errs)
		}
		_, errs, err := r.run(ctx, nil, nil, "debug", pod, "--image=busybox:1.37", "--container=root", "--attach=false", "--profile=sysadmin")
		if err == nil || !strings.Contains(errs, "does not permit") || !strings.Contains(errs, "privileged") {
			t.Errorf("a privileged container in %s: %v, %s", pod, err, errs)
		}
	}
}
