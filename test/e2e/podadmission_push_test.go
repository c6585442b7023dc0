package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestPhysicalClustersThatTheServerConnectsToAskItAboutPods has two physical clusters that the server connects to ask at
// one address about the pods of two logical clusters, of which one has a policy.
func TestPhysicalClustersThatTheServerConnectsToAskItAboutPods(t *testing.T) {
	long(t)
	ctx := context.Background()
	urls := map[string]*url.URL{}
	targets := []*physicalCluster{theLab.addPush(t, "ferry"), theLab.addPush(t, "wharf")}
	for _, p := range targets {
		must(t)(theLab.root.Run(ctx, "wait", "--for=condition=PodsAdmitted=false", "physicalcluster/"+p.name, "--timeout=3m"))
		must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/"+p.name, "--type=merge", "-p", `{"spec":{"pods":{"admission":{}}}}`))
		must(t)(theLab.root.Run(ctx, "wait", "--for=condition=PodsAdmitted", "physicalcluster/"+p.name, "--timeout=3m"))
		out := must(t)(p.Run(ctx, "get", "mutatingwebhookconfigurations", "-l", "atoll.dev/managed-by", "-o", "jsonpath={.items[*].webhooks[0].clientConfig.url}"))
		u, err := url.Parse(out)
		if err != nil || u.Path == "" {
			t.Fatalf("%s asks at %q, %v", p.name, out, err)
		}
		urls[p.name] = u
	}
	if urls["ferry"].Host != urls["wharf"].Host || urls["ferry"].Path == urls["wharf"].Path {
		t.Errorf("they ask at %v, want one address and two paths", urls)
	}

	shop, bank := theLab.newCluster(t), theLab.newCluster(t)
	must(t)(shop.Apply(ctx, noLatest))
	for _, p := range targets {
		for _, k := range []process.Kubectl{shop, bank} {
			must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: on-"+p.name+", labels: {inject: \"yes\"}, annotations: {placement.atoll.dev/cluster: "+p.name+"}}}"))
		}
		eventually(t, func() error {
			out, err := shop.Run(ctx, "get", "namespace", "on-"+p.name, "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/admits-pods}`)
			return errors.Join(err, want("whether pods are admitted", out, "true"))
		})
		apps := shop.In("on-" + p.name)
		eventually(t, func() error { // a policy holds a second after it was written, as on any cluster
			_, err := apps.Run(ctx, "run", "probe", "--image=nginx:1", "--labels=tier=forbidden", "--dry-run=server")
			if err != nil && strings.Contains(err.Error(), "no pods of this tier") {
				return nil
			}
			return errors.Join(errors.New("the policy does not hold yet"), err)
		})
		forbidden := strings.Replace(deployment("latest", 1), "labels: {app: latest}", "labels: {app: latest, tier: forbidden}", 1)
		must(t)(apps.Apply(ctx, forbidden+deployment("app", 1)))
		must(t)(apps.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
		refusedPods(t, apps, "latest", "no pods of this tier")
		// What one logical cluster says is said of no other.
		must(t)(bank.In("on-"+p.name).Apply(ctx, forbidden))
		must(t)(bank.In("on-"+p.name).Run(ctx, "rollout", "status", "deployment/latest", "--timeout=3m"))
	}

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // who asks does not care
	for path, code := range map[string]int{urls["ferry"].Path: http.StatusBadRequest, "/pods/" + strings.Repeat("0", 32): http.StatusNotFound, "/": http.StatusNotFound} {
		resp, err := client.Post("https://"+urls["ferry"].Host+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("a path that is known by %v says %d, want %d", path == urls["ferry"].Path, resp.StatusCode, code)
		}
	}
}
