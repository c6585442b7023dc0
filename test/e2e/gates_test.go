package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/atoll-dev/atoll/test/framework/process"
)

const gate = "www.example.com/load-balanced"

// An operator that runs in the logical cluster says of pods, below, that they may be
// ready: of one that a controller below made, and of one of a user.
func TestAReadinessGateThatIsSetAboveReachesThePodAndStays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	const gated = `readinessGates: [{conditionType: ` + gate + `}]`
	must(t)(k.Apply(ctx, strings.Replace(deployment("app", 1), "containers:", gated+"\n      containers:", 1)))
	must(t)(k.Apply(ctx, `
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {`+gated+`, containers: [{name: app, image: "nginx:1.29"}]}
`))
	var made string
	eventually(t, func() error {
		out, err := k.Run(ctx, "get", "pods", "-l", "app=app", "-o", "jsonpath={.items[*].metadata.name}")
		if made = out; err == nil && out == "" {
			err = errors.New("the Deployment has no pod")
		}
		return err
	})
	h := theLab.homeOf(t, k, "default")
	for _, pod := range []string{made, "alone"} {
		eventually(t, func() error { return hasCondition(h.below(), pod, corev1.PodReady, "") })
		for _, reason := range []string{"NotRegistered", "Registered"} {
			must(t)(k.Run(ctx, "patch", "pod", pod, "--subresource=status", "--patch",
				fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"False","reason":%q}]}}`, gate, reason)))
			eventually(t, func() error { return hasCondition(h.below(), pod, gate, reason) })
		}
		// What is mirrored later leaves it alone, and nothing of the kubelet's is lost.
		must(t)(h.below().Run(ctx, "patch", "pod", pod, "--subresource=status", "--patch",
			`{"status":{"conditions":[{"type":"x.example.com/below","status":"True","reason":"Late"}]}}`))
		eventually(t, func() error { return hasCondition(k, pod, "x.example.com/below", "Late") })
		consistently(t, 2*time.Second, func() error {
			for _, side := range []process.Kubectl{k, h.below()} {
				if err := hasCondition(side, pod, gate, "Registered"); err != nil {
					return err
				}
			}
			return hasCondition(k, pod, corev1.PodReady, "")
		})
	}
}

// hasCondition says that a pod has a condition with a reason, whatever its status.
func hasCondition(k process.Kubectl, name string, kind corev1.PodConditionType, reason string) error {
	var pod corev1.Pod
	if ok, err := k.Get(context.Background(), &pod, "pod", name); err != nil || !ok {
		return fmt.Errorf("pod %s: found %v: %w", name, ok, err)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == kind && c.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("pod %s has the conditions %+v, want %s with the reason %q", name, pod.Status.Conditions, kind, reason)
}
