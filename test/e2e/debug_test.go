package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
