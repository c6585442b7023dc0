package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const restricted = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}, {ipBlock: {cidr: 10.244.0.0/25}}]}]
`

// isolating are the selectors of the policies of ours in a physical namespace.
func isolating(at home) ([]string, error) {
	var list networkingv1.NetworkPolicyList
	if _, err := at.below().Get(context.Background(), &list, "networkpolicies", "-l", "atoll.dev/supply=isolation"); err != nil {
		return nil, err
	}
	var selectors []string
	for _, p := range list.Items {
		s := "every pod"
		for _, e := range p.Spec.PodSelector.MatchExpressions {
			s = fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))
		}
		selectors = append(selectors, s)
	}
	return selectors, nil
}

// Pods of other logical clusters are kept out of each namespace, of all pods that no policy
// of a user is for; and of what such a policy permits.
func TestPodsOfOtherLogicalClustersAreKeptOut(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	pin(t, k, "default", "east")
	must(t)(k.Run(ctx, "create", "deployment", "web", "--image", "web"))
	at := theLab.homeOf(t, k, "default")
	selectors := func(expected ...string) {
		t.Helper()
		eventually(t, func() error {
			got, err := isolating(at)
			if err != nil {
				return err
			}
			return want("pods that ours are for", got, expected)
		})
	}
	selectors("every pod")
	eventually(t, func() error {
		var pc fleetv1alpha1.PhysicalCluster
		if _, err := theLab.root.Get(ctx, &pc, "physicalcluster", "east"); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionIsolatingPolicies); c == nil || c.Status != "True" || len(pc.Status.PodCIDRs) == 0 {
			return fmt.Errorf("the physical cluster says %+v, with the ranges %v", c, pc.Status.PodCIDRs)
		}
		return nil
	})

	apply := k.Command(ctx, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(restricted)
	out, err := apply.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "spec.ingress[0].from[1].ipBlock: has addresses of pods only") {
		t.Errorf("its user reads %q, %v", out, err)
	}
	selectors("app NotIn web")
	var policy networkingv1.NetworkPolicy
	if ok, err := at.below().Get(ctx, &policy, "networkpolicy", "web"); err != nil || !ok {
		t.Fatalf("the policy is not below: %v", err)
	}
	from := policy.Spec.Ingress[0].From
	if len(from) < 4 || from[0].IPBlock == nil || len(from[0].IPBlock.Except) == 0 || from[1].NamespaceSelector == nil || from[2].NamespaceSelector == nil || from[3].IPBlock == nil {
		t.Errorf("below it permits %+v", from)
	}
	eventually(t, func() error { return copyOf(k, "networkpolicies", "web", placementv1alpha1.CopySynced, "Adjusted") })

	// What is as it was made stays, whatever else comes.
	before := must(t)(at.below().Run(ctx, "get", "networkpolicies", "-l", "atoll.dev/supply=isolation", "-o", "jsonpath={.items[*].metadata.uid}"))
	must(t)(k.Apply(ctx, "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: out}, spec: {podSelector: {}, policyTypes: [Egress]}}"))
	eventually(t, func() error { return copyOf(k, "networkpolicies", "out", placementv1alpha1.CopySynced, "") })
	must(t)(k.Run(ctx, "delete", "networkpolicy", "out", "--timeout=3m"))
	if after := must(t)(at.below().Run(ctx, "get", "networkpolicies", "-l", "atoll.dev/supply=isolation", "-o", "jsonpath={.items[*].metadata.uid}")); after != before {
		t.Errorf("policies that nobody changed were made again: %s, then %s", before, after)
	}

	// Whoever deletes ours below has it back; nothing of it is above.
	must(t)(at.below().Run(ctx, "delete", "networkpolicies", "-l", "atoll.dev/supply=isolation"))
	selectors("app NotIn web")
	if names := must(t)(k.Run(ctx, "get", "networkpolicies", "-o", "name")); strings.TrimSpace(names) != "networkpolicy.networking.k8s.io/web" {
		t.Errorf("above there are %s", names)
	}
	must(t)(k.Run(ctx, "delete", "networkpolicy", "web", "--timeout=3m"))
	selectors("every pod")
}
