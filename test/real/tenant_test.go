//go:build linux

package real

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// tenant is a logical cluster that ends with its test.
type tenant struct {
	process.Kubectl
	name string
}

func newTenant(t *testing.T, name string) tenant {
	t.Helper()
	ctx := context.Background()
	k, err := theLab.LogicalCluster(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			report(ctx, t, k)
		}
		must(t)(theLab.Root.Run(ctx, "delete", "logicalcluster", name, "--timeout=3m"))
	})
	return tenant{Kubectl: k, name: name}
}

// namespace makes one that runs on a physical cluster, and returns the tenant in it.
func (n tenant) namespace(t *testing.T, name, on string) tenant {
	t.Helper()
	must(t)(n.Apply(t.Context(), "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", annotations: {placement.atoll.dev/cluster: "+on+"}}}"))
	return tenant{Kubectl: n.In(name), name: n.name}
}

// below is the admin of the physical cluster, in the namespace that the tenant's is there.
func (n tenant) below(t *testing.T, on string) process.Kubectl {
	t.Helper()
	var namespace string
	eventually(t, func() (err error) {
		namespace, err = n.Run(t.Context(), "get", "namespace", n.Namespace, "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/physical-namespace}`)
		if err == nil && namespace == "" {
			err = fmt.Errorf("the namespace %s is not placed", n.Namespace)
		}
		return err
	})
	return theLab.PhysicalCluster(on).In(namespace)
}

// in runs the program of test/real/tools in a pod, from above, and returns what it printed.
func (n tenant) in(ctx context.Context, pod string, words ...string) (string, error) {
	out, err := n.Run(ctx, append([]string{"exec", pod, "-c", "tools", "--", "/tools"}, words...)...)
	return strings.TrimSpace(out), err
}

// tools is a Deployment of one pod with the program of test/real/tools; command is what it
// runs, container and pod are more of their fields.
func tools(name, command, container, pod string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: tools
        image: %[2]s
        args: [%[3]s]
%[4]s
%[5]s
---
`, name, lab.ToolsImage, command, indent(8, container), indent(6, pod))
}

func indent(by int, text string) string {
	return strings.Repeat(" ", by) + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+strings.Repeat(" ", by))
}

// running waits for a Deployment.
func (n tenant) running(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		must(t)(n.Run(t.Context(), "rollout", "status", "deployment/"+name, "--timeout=3m"))
	}
}
