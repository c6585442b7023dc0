package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

func TestAPolicySaysWhereANamespaceGoes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, name := range []string{"east", "west"} {
		must(t)(theLab.root.Apply(ctx, `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: only-`+name+`}
spec:
  namespaceSelector: {matchLabels: {e2e-region: `+name+`}}
  terms: [{matchLabels: {topology.kubernetes.io/region: `+name+`}}]
`))
		t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "only-"+name)) })
	}
	k := theLab.newCluster(t)
	for _, name := range []string{"east", "west"} {
		must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: to-"+name+", labels: {e2e-region: "+name+"}}}"))
		must(t)(k.In("to-"+name).Apply(ctx, deployment("app", 1)))
		if err := want("target of to-"+name, theLab.homeOf(t, k, "to-"+name).name, name); err != nil {
			t.Error(err)
		}
	}
	must(t)(k.Run(ctx, "delete", "namespaces", "to-east", "to-west", "--timeout=3m"))
}

func TestWhatNoPhysicalClusterFitsWaitsAndSaysWhy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	policy := `
apiVersion: placement.atoll.dev/v1alpha1
kind: ClusterPlacementPolicy
metadata: {name: nowhere}
spec:
  namespaceSelector: {matchLabels: {e2e-nowhere: "true"}}
  terms: [{matchLabels: {topology.kubernetes.io/region: atlantis}}]
`
	must(t)(theLab.root.Apply(ctx, policy))
	t.Cleanup(func() {
		must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "nowhere", "--ignore-not-found"))
	})
	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: web, labels: {e2e-nowhere: "true"}}}`))
	web := k.In("web")
	must(t)(web.Apply(ctx, deployment("app", 1)))
	scheduled := must(t)(web.Run(ctx, "get", "placement/namespace", "-o", `jsonpath={.status.conditions[?(@.type=="Scheduled")].status} {range .status.rejected[*]}{.physicalCluster}={.reason} {end}`))
	if err := want("condition Scheduled and the rejected", ofTheLab(scheduled), "False east=PolicyMismatch west=PolicyMismatch"); err != nil {
		t.Error(err)
	}
	eventually(t, func() error {
		about, err := web.Run(ctx, "get", "events", "-o", `jsonpath={range .items[*]}{.reason} {.involvedObject.kind} {.involvedObject.name};{end}`)
		if err == nil {
			err = want("events", about, "Unplaceable Deployment app;")
		}
		return err
	})

	must(t)(theLab.root.Run(ctx, "delete", "clusterplacementpolicy", "nowhere"))
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)(k.Run(ctx, "delete", "namespace", "web", "--timeout=3m"))
}

// ofTheLab leaves out what is rejected of the physical clusters that other tests have for a while.
func ofTheLab(words string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(words), func(word string) bool {
		name, _, rejected := strings.Cut(word, "=")
		return rejected && name != "east" && name != "west"
	}), " ")
}

func TestATenantSaysWhereANamespaceGoesAndAsksWhy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	must(t)(web.Apply(ctx, `
apiVersion: placement.atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: west-first}
spec:
  terms: [{matchExpressions: [{key: topology.kubernetes.io/region, operator: In, values: [east, west]}]}]
  preferences: [{matchLabels: {topology.kubernetes.io/region: west}}]
`))
	row := must(t)(web.Run(ctx, "get", "pp", "--no-headers", "-o", "wide"))
	if want := "topology.kubernetes.io/region=west"; !strings.Contains(row, want) {
		t.Errorf("kubectl get pp shows %q, without %s", row, want)
	}
	review := filepath.Join(t.TempDir(), "review.yaml")
	where := func(spec string) string {
		t.Helper()
		text := "{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementReview, spec: {" + spec + "}}"
		if err := os.WriteFile(review, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return must(t)(web.Run(ctx, "create", "-f", review, "-o", "jsonpath={.status.physicalClusters[*]} / {range .status.rejected[*]}{.physicalCluster}={.reason} {end}"))
	}
	for spec, answer := range map[string]string{"": "west / east=LessPreferred", "without: [west]": "east /", "policy: {topology: [{key: topology.kubernetes.io/region}]}": "east west /"} {
		if err := want("the review with "+spec, ofTheLab(where(spec)), answer); err != nil {
			t.Error(err)
		}
	}
	must(t)(web.Apply(ctx, deployment("app", 1)))
	if err := want("target of web", theLab.homeOf(t, k, "web").name, "west"); err != nil {
		t.Error(err)
	}
	must(t)(web.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))

	must(t)(web.Run(ctx, "patch", "pp", "west-first", "--type=merge", "-p", `{"spec":{"move":{"mode":"Never"},"terms":[{"matchLabels":{"topology.kubernetes.io/region":"east"}}]}}`))
	must(t)(web.Run(ctx, "wait", "placement/namespace", "--for=condition=PolicySatisfied=False", "--timeout=1m"))
	if err := want("target of web, which may not move", theLab.homeOf(t, k, "web").name, "west"); err != nil {
		t.Error(err)
	}
	must(t)(k.Run(ctx, "delete", "namespace", "web", "--timeout=3m"))
}

func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	sample := func(name string) string { return filepath.Join(process.Root(), "config", "samples", name) }
	must(t)(theLab.root.Run(context.Background(), "apply", "--dry-run=server", "-f", sample("clusterplacementpolicy.yaml")))
	must(t)(theLab.newCluster(t).Run(context.Background(), "apply", "--dry-run=server", "-f", sample("placementpolicy.yaml")))
}
