package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// divided is a policy by which each runs a half.
const divided = `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: shares}
spec:
  count: 2
  move: {drainSeconds: 1}
  replicas:
    mode: Divide
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
`

// sharesOf are the replicas of a Deployment by target, as its annotation has them: what is
// applied, and in parentheses what that comes to.
func sharesOf(ctx context.Context, k process.Kubectl, name string) (string, error) {
	out, err := k.Run(ctx, "get", "deployment", name, "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/targets}`)
	if err != nil {
		return "", err
	}
	targets := map[string]struct{ Replicas, Share *int32 }{}
	if err := json.Unmarshal([]byte(out), &targets); err != nil {
		return "", fmt.Errorf("%q: %w", out, err)
	}
	var parts []string
	for _, target := range []string{"east", "west"} {
		if t, ok := targets[target]; ok && t.Replicas != nil && t.Share != nil {
			parts = append(parts, fmt.Sprintf("%s %d(%d)", target, *t.Replicas, *t.Share))
		} else if ok && t.Replicas != nil {
			parts = append(parts, fmt.Sprintf("%s %d", target, *t.Replicas))
		} else if ok {
			parts = append(parts, target)
		}
	}
	return strings.Join(parts, ", "), nil
}

func TestReplicasAreDividedOverTwoPhysicalClusters(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: parts}}"))
	shop := k.In("parts")
	must(t)(shop.Apply(ctx, divided))

	shares := func(want string) func() error {
		return func() error {
			got, err := sharesOf(ctx, shop, "web")
			if err == nil && got != want {
				err = fmt.Errorf("the shares are %s, want %s", got, want)
			}
			return err
		}
	}
	below := physicalNamespace(t, k, "parts")
	var o *observer
	undipped := func(until string) {
		t.Helper()
		if o == nil {
			return
		}
		if least, _ := o.read(); least < 6 {
			t.Fatalf("before it was %s there was a moment with %d ready endpoints of 6", until, least)
		}
	}
	runs := func(east, west string) {
		t.Helper()
		defer undipped(east + " and " + west)
		eventually(t, func() error {
			for at, want := range map[*physicalCluster]string{theLab.east: east, theLab.west: west} {
				got, err := at.In(below).Run(ctx, "get", "deployments", "-o", `jsonpath={range .items[*]}{.metadata.name} {.spec.replicas} {.status.availableReplicas}{end}`)
				if err != nil {
					return err
				}
				if got != want {
					return fmt.Errorf("below %s runs %q, want %q", at.name, got, want)
				}
			}
			return nil
		})
	}

	// The answer has the shares.
	out := must(t)(shop.Run(ctx, "create", "deployment", "web", "--image=nginx", "--replicas=7", "-o", "json"))
	var answered struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal([]byte(out), &answered); err != nil {
		t.Fatal(err)
	}
	if got, want := answered.Metadata.Annotations["placement.atoll.dev/targets"], `{"east":{"replicas":4},"west":{"replicas":3}}`; got != want {
		t.Errorf("the answer has %s, want %s", got, want)
	}
	runs("web 4 4", "web 3 3")
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	eventually(t, func() error {
		got, err := shop.Run(ctx, "get", "deployment", "web", "-o", "jsonpath={.status.replicas} {.status.readyReplicas} {.status.updatedReplicas} {.status.availableReplicas}")
		if err == nil && got != "7 7 7 7" {
			err = fmt.Errorf("the status has %s", got)
		}
		return err
	})

	// An edit divides in its own write; so does, a moment later, a scale.
	out = must(t)(shop.Run(ctx, "patch", "deployment", "web", "--type=merge", "-p", `{"spec":{"replicas":5}}`, "-o", "json"))
	if !strings.Contains(out, `{\"east\":{\"replicas\":3},\"west\":{\"replicas\":2}}`) {
		t.Errorf("the answer to the edit has other shares: %s", out)
	}
	runs("web 3 3", "web 2 2")
	must(t)(shop.Run(ctx, "scale", "deployment", "web", "--replicas=6"))
	eventually(t, shares("east 3, west 3"))
	runs("web 3 3", "web 3 3")

	// Somebody who scales below is put back to the share, not to the sum.
	must(t)(theLab.east.In(below).Run(ctx, "scale", "deployment", "web", "--replicas=1"))
	runs("web 3 3", "web 3 3")

	// Other weights: what grows is available before what shrinks does.
	eventually(t, func() error { return endpoints(ctx, shop, 6) })
	o = observe(t, k, "parts")
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":{"targets":[%s,%s]}}}`,
		`{"term":{"matchLabels":{"topology.kubernetes.io/region":"east"}},"weight":1}`, `{"weight":2}`)))
	eventually(t, shares("east 2, west 4"))
	runs("web 2 2", "web 4 4")

	// All of it in one place, and back.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", `{"spec":{"count":1}}`))
	eventually(t, func() error { return unitSettled(ctx, shop.Run, "namespace", 1) })
	must(t)(shop.Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	undipped("in one place")
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=merge", "-p", `{"spec":{"count":2}}`))
	eventually(t, func() error { return unitSettled(ctx, shop.Run, "namespace", 2) })
	eventually(t, shares("east 2, west 4"))
	runs("web 2 2", "web 4 4")

	// Without division each has all.
	must(t)(shop.Run(ctx, "patch", "placementpolicy", "shares", "--type=json", "-p", `[{"op":"remove","path":"/spec/replicas"}]`))
	eventually(t, shares("east, west"))
	runs("web 6 6", "web 6 6")
}

func endpoints(ctx context.Context, k process.Kubectl, n int) error {
	out, err := k.Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", `jsonpath={range .items[*]}{.endpoints[*].conditions.ready} {end}`)
	if err == nil {
		err = want("ready endpoints", strings.Count(out, "true"), n)
	}
	return err
}
