package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// rights is what an admin of a physical cluster grants the syncer for a declared kind.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widgets}
rules:
- {apiGroups: [GROUP], resources: [widgets], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: widgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: widgets}
subjects: [{kind: ServiceAccount, namespace: atoll-system, name: atoll-syncer}]
`

// TestRightsThatASyncerLosesAreNoProofAndAreSaid takes rights from the account of a syncer, as somebody does who tidies up,
// or an upgrade that needs more: nothing is taken for gone that it cannot see any more, and it is said what it does not watch.
func TestRightsThatASyncerLosesAreNoProofAndAreSaid(t *testing.T) {
	long(t)
	if err := process.Missing("kubectl-atoll"); err != nil {
		t.Skip(err)
	}
	ctx, group := context.Background(), "forbidden.e2e.example.com"
	resource := "widgets." + group
	p := theLab.addPhysical(t, "shoal")
	must(t)(runPlugin(ctx, theLab.root, "register", "shoal", "--physical-kubeconfig", p.Kubectl.Kubeconfig, "--make-credentials", "--taints", "only=:PreferNoSchedule"))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/shoal", "--timeout=3m")) })
	define(t, p.Kubectl, group)
	must(t)(p.Apply(ctx, of(group, rights)))
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, of(group, definition)))
	must(t)(k.Run(ctx, "wait", "--for=condition=Established", "--timeout=1m", "crd/"+resource))
	selectCluster(t, k, group)
	must(t)(theLab.root.Apply(ctx, of(group, declaration)))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "placedkind", resource, "--timeout=2m")) })
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	must(t)(k.Run(ctx, "annotate", "namespace", "web", "placement.atoll.dev/cluster=shoal"))
	web := k.In("web")
	must(t)(web.Apply(ctx, deployment("app", 1)))
	must(t)(web.Apply(ctx, widgetOf(group, "gear")))
	below := p.In(physicalNamespace(t, k, "web"))
	eventually(t, func() error { return sizeIs(below, resource, "gear", "1") })
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))

	// A declared kind that may not be listed counts as not served.
	must(t)(p.Run(ctx, "delete", "clusterrolebinding", "widgets"))
	eventually(t, func() error {
		return conditionIs(t, "shoal", fleetv1alpha1.ConditionDeclaredKinds, metav1.ConditionFalse, fleetv1alpha1.ReasonKindsForbidden, resource)
	})
	must(t)(web.Run(ctx, "delete", resource, "gear", "--wait=false"))
	eventually(t, func() error {
		said, err := web.Run(ctx, "get", "events", "--field-selector=involvedObject.name=gear", "-o", `jsonpath={.items[*].message}`)
		return errors.Join(err, contains(said, "shoal: the copy is not removed: "))
	})
	consistently(t, 3*time.Second, func() error {
		above, err := custom(web, resource, "gear")
		if above == nil {
			err = errors.Join(err, errors.New("it is gone above, and still there below"))
		}
		return errors.Join(err, sizeIs(below, resource, "gear", "1"))
	})

	// What a syncer has watched all along is not noticed to be forbidden before the watch ends.
	rule := must(t)(p.Run(ctx, "get", "clusterrole", "atoll-syncer", "-o", "jsonpath={.rules[1]}"))
	must(t)(p.Run(ctx, "patch", "clusterrole", "atoll-syncer", "--type=json", "-p", `[{"op":"test","path":"/rules/1/apiGroups/0","value":"apps"},{"op":"remove","path":"/rules/1"}]`))
	p.Kill()
	restart(t, p.Process)
	eventually(t, func() error {
		return conditionIs(t, "shoal", fleetv1alpha1.ConditionSyncing, metav1.ConditionFalse, fleetv1alpha1.ReasonForbidden, "on shoal", "kubectl atoll register")
	})
	clusters := must(t)(runPlugin(ctx, theLab.root, "clusters", "shoal"))
	if err := contains(clusters, "Ready,NotSyncing,Forbidden"); err != nil {
		t.Error(err)
	}

	must(t)(p.Run(ctx, "patch", "clusterrole", "atoll-syncer", "--type=json", "-p", `[{"op":"add","path":"/rules/1","value":`+rule+`}]`))
	must(t)(p.Apply(ctx, of(group, rights)))
	eventually(t, func() error {
		return conditionIs(t, "shoal", fleetv1alpha1.ConditionSyncing, metav1.ConditionTrue, "Watching")
	})
	must(t)(web.Run(ctx, "wait", "--for=delete", resource+"/gear", "--timeout=3m"))
	if obj, err := custom(below, resource, "gear"); err != nil || obj != nil {
		t.Errorf("it is gone above, and not below: %v, %v", obj, err)
	}
	must(t)(web.Run(ctx, "scale", "deployment/app", "--replicas=2"))
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
}

// conditionIs returns an error unless a condition of a physical cluster is so, and its message has some words.
func conditionIs(t *testing.T, name, condition string, status metav1.ConditionStatus, reason string, words ...string) error {
	t.Helper()
	var pc fleetv1alpha1.PhysicalCluster
	get(t, theLab.root, &pc, "physicalcluster", name)
	c := apimeta.FindStatusCondition(pc.Status.Conditions, condition)
	if c == nil {
		return fmt.Errorf("%s has no condition %s", name, condition)
	}
	errs := []error{want(condition, string(c.Status)+" "+c.Reason, string(status)+" "+reason)}
	for _, word := range words {
		errs = append(errs, contains(c.Message, word))
	}
	return errors.Join(errs...)
}

// contains returns an error unless a text has some words.
func contains(text, words string) error {
	if !strings.Contains(text, words) {
		return fmt.Errorf("%q does not say %q", text, words)
	}
	return nil
}
