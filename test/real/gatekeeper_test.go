//go:build linux

package real

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/test/real/lab"
)

const gatekeeperModule = "github.com/open-policy-agent/gatekeeper/v3"

// gatekeeper is what its manifest runs, by the user of its Dockerfile.
var gatekeeper = lab.Operator{Image: "openpolicyagent/gatekeeper:v3.23.1", Binary: "gatekeeper", Path: "manager", User: "65532:65532"}

// A policy engine, by its manifest: three pods are webhooks for everything, with an authority
// that they make themselves and keep in a Secret that they mount; a fourth one audits. Each
// policy is a custom kind that the pods define and watch while they run.
func TestGatekeeperRunsInPodsAndRefusesWhatATenantsPolicyForbids(t *testing.T) {
	areBuilt(t, gatekeeper)
	module := sources(t, "gatekeeper", gatekeeperModule)
	manifest, err := os.ReadFile(filepath.Join(module, "deploy", "gatekeeper.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	loads(t, string(manifest), gatekeeper)
	// The only change: no registry could be asked.
	install := strings.ReplaceAll(string(manifest), "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
	demo := filepath.Join(module, "demo", "basic")
	n := newTenant(t, "ruled")
	// Not by apply: what the manifest says of the Namespace would take the annotation away.
	must(t)(n.Run(t.Context(), "create", "namespace", "gatekeeper-system"))
	must(t)(n.Run(t.Context(), "annotate", "namespace", "gatekeeper-system", "placement.atoll.dev/cluster=west"))
	operator := tenant{Kubectl: n.In("gatekeeper-system"), name: n.name}
	must(t)(n.Apply(t.Context(), install))
	// A kubelet writes what is new in a Secret into the pods within a minute or two, and they look
	// for it less and less often.
	for _, deployment := range []string{"gatekeeper-controller-manager", "gatekeeper-audit"} {
		must(t)(operator.Run(t.Context(), "rollout", "status", "deployment/"+deployment, "--timeout=8m"))
	}
	must(t)(n.Run(t.Context(), "create", "namespace", "before")) // nobody refuses it yet

	must(t)(n.Run(t.Context(), "apply", "-f", filepath.Join(demo, "templates", "k8srequiredlabels_template.yaml")))
	becomes(t, n, "true", "get", "constrainttemplate", "k8srequiredlabels", "-o", "jsonpath={.status.created}")
	must(t)(n.Run(t.Context(), "wait", "--for=condition=Established", "--timeout=1m", "crd/k8srequiredlabels.constraints.gatekeeper.sh"))
	must(t)(n.Run(t.Context(), "apply", "-f", filepath.Join(demo, "constraints", "all_ns_must_have_gatekeeper.yaml")))
	refuses(t, n)
	must(t)(n.Apply(t.Context(), "{apiVersion: v1, kind: Namespace, metadata: {name: after, labels: {gatekeeper: here}}}"))
	isSeen(t, operator)
	isAudited(t, n)

	must(t)(operator.Run(t.Context(), "delete", "pods", "-l", "gatekeeper.sh/operation=webhook", "--timeout=3m"))
	operator.running(t, "gatekeeper-controller-manager")
	refuses(t, n)
	isSeen(t, operator)
}

const constraint = "k8srequiredlabels.constraints.gatekeeper.sh/ns-must-have-gk"

// refuses waits until a Namespace without the label is refused, with the words of the policy.
func refuses(t *testing.T, n tenant) {
	t.Helper()
	eventually(t, func() error {
		_, err := n.Run(t.Context(), "create", "namespace", "without", "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), `admission webhook "validation.gatekeeper.sh" denied the request: [ns-must-have-gk] you must provide labels: {"gatekeeper"}`) {
			return fmt.Errorf("a Namespace without the label: %w", err)
		}
		return nil
	})
}

// isSeen waits until the policy says that exactly the pods of now have it: each writes an object
// of its own, which its Pod owns and which ends with that.
func isSeen(t *testing.T, n tenant) {
	t.Helper()
	eventually(t, func() error {
		pods, err := n.Run(t.Context(), "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		seen, err := n.Run(t.Context(), "get", constraint, "-o", "jsonpath={.status.byPod[*].id}")
		if err != nil {
			return err
		}
		want, got := strings.Fields(pods), strings.Fields(seen)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("the pods that have the policy (-want +got):\n%s", diff)
		}
		return nil
	})
}

// isAudited waits until what was there before the policy is reported, and what obeys it is not.
func isAudited(t *testing.T, n tenant) {
	t.Helper()
	eventually(t, func() error {
		out, err := n.Run(t.Context(), "get", constraint, "-o", "jsonpath={.status.violations[*].name}")
		found := strings.Fields(out)
		if err == nil && (!slices.Contains(found, "before") || slices.Contains(found, "after")) {
			err = fmt.Errorf("the audit finds %s", out)
		}
		return err
	})
}
