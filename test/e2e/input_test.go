package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// refused runs a command that must fail with all of these words in its error.
func refused(t *testing.T, words ...string) func(string, error) {
	return func(out string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("accepted, want an error with %q:\n%s", words, out)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the error does not say %q: %v", word, err)
			}
		}
	}
}

func TestAnUnknownLogicalClusterIsNamed(t *testing.T) {
	t.Parallel()
	k := process.Kubectl{Kubeconfig: theLab.kubeconfig(t, "atlantis")}
	refused(t, "atlantis", "not found")(k.Run(context.Background(), "get", "--raw", "/api/v1/namespaces"))
}

func TestReservedNamesAreRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	make := func(name string) (string, error) {
		return theLab.root.Run(ctx, "create", "--validate=false", "-f", manifestFile(t, "{apiVersion: tenancy.atoll.dev/v1alpha1, kind: LogicalCluster, metadata: {name: \""+name+"\"}}"))
	}
	refused(t, "metadata.name")(make("*"))
	refused(t)(make("root"))
	refused(t, "metadata.name")(make("Shop"))
	must(t)(theLab.root.Run(ctx, "get", "physicalclusters"))
}

func TestAMalformedPolicyIsRefusedWithItsField(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	refused(t, "spec.count")(theLab.root.Apply(ctx, `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: bad-count}
spec: {count: 0}
`))
	refused(t, "spec.terms[0]", "operator")(theLab.root.Apply(ctx, `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: bad-operator}
spec: {terms: [{matchExpressions: [{key: region, operator: Near, values: [here]}]}]}
`))
}

func TestABrokenKubeconfigIsSaidAndHarmsNobody(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	broken := theLab.path("broken.kubeconfig")
	if err := os.WriteFile(broken, []byte("this is: [not a kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := theLab.register(ctx, "broken", broken); err != nil {
		t.Fatal(err)
	}
	defer func() { must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/broken", "--timeout=3m")) }()
	eventually(t, func() error {
		reason, err := theLab.root.Run(ctx, "get", "physicalcluster/broken", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
		if err == nil {
			err = want("reason of the condition Ready", reason, "InvalidKubeconfig")
		}
		return err
	})
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
}

func TestUsersCannotForgeOrLoseSystemMetadata(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, deployment("app", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default")
	stamp := `jsonpath={.metadata.annotations.placement\.atoll\.dev/targets} {.metadata.finalizers}`
	before := must(t)(k.Run(ctx, "get", "deployment/app", "-o", stamp))

	must(t)(k.Run(ctx, "annotate", "--overwrite", "deployment/app", `placement.atoll.dev/targets={"nowhere":{}}`))
	must(t)(k.Run(ctx, "annotate", "deployment/app", "placement.atoll.dev/targets-"))
	must(t)(k.Run(ctx, "patch", "deployment/app", "--type=merge", "-p", `{"metadata":{"finalizers":null,"annotations":null}}`))
	if err := want("targets and finalizers", must(t)(k.Run(ctx, "get", "deployment/app", "-o", stamp)), before); err != nil {
		t.Error(err)
	}
	if err := available(h.below(), "app", 1); err != nil {
		t.Error(err)
	}
}

func TestADryRunSaysWhereAndStoresNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	out := must(t)(k.Apply(ctx, deployment("app", 1), "--dry-run=server", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/targets}`))
	if !strings.Contains(out, `"east"`) && !strings.Contains(out, `"west"`) {
		t.Errorf("the reply names the targets %q, want one of them", out)
	}
	if out := must(t)(k.Run(ctx, "get", "deployments,placements", "-o", "name")); out != "" {
		t.Errorf("stored: %s", out)
	}
}

// manifestFile writes a manifest for commands that want a file.
func manifestFile(t *testing.T, manifest string) string {
	t.Helper()
	path := t.TempDir() + "/manifest.yaml"
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
