package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
)

const (
	oldAddress = "192.0.2.1"
	newAddress = "192.0.2.2"
)

// Load balancers learn of pods later than API servers do: a new address takes the place of the old one once all behind it has been
// available for as long as the policy says, without a break.
func TestANewAddressIsPublishedOnceAllBehindItHasBeenAvailableForAWhile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	k := theLab.newCluster(t)
	const waits = 15 * time.Second
	app := strings.Replace(shop, "drainSeconds: 2", fmt.Sprintf("drainSeconds: 2, minReadySeconds: %d", int(waits.Seconds())), 1)
	app = strings.Replace(app, "spec: {selector: {app: web}", "spec: {type: LoadBalancer, selector: {app: web}", 1)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: east}}}"))
	must(t)(k.In("shop").Apply(ctx, app))
	serves(t, k)
	below := theLab.homeOf(t, k, "shop").namespace
	addresses := func() (string, error) {
		return k.In("shop").Run(ctx, "get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}")
	}
	has := func(want string) {
		t.Helper()
		eventually(t, func() error {
			got, err := addresses()
			if err == nil && got != want {
				err = fmt.Errorf("it has the addresses %q, want %q", got, want)
			}
			return err
		})
	}
	give(t, theLab.east.Kubectl.In(below), "service/web", oldAddress)
	has(oldAddress)

	pin(t, k, "shop", "west")
	there := theLab.west.Kubectl.In(below)
	eventually(t, func() error { _, err := there.Run(ctx, "get", "service", "web"); return err })
	give(t, there, "service/web", newAddress)
	said := fmt.Sprintf("Service web: %s of west is published once all has been available there for %d s", newAddress, int(waits.Seconds()))
	says := func(want string) {
		t.Helper()
		eventuallyBrief(t, func() error {
			if way := wayOf(t, k); !strings.Contains(way, want) {
				return fmt.Errorf("it says %q, want %q", way, want)
			}
			return nil
		})
	}
	says(said)
	// The simulated kubelets have pods ready within milliseconds, which nobody has to notice: a quota has the break last.
	must(t)(there.Run(ctx, "create", "quota", "none", "--hard=pods=0"))
	must(t)(there.Run(ctx, "delete", "pods", "-l", "app=web", "--wait=false"))
	says("Deployment web on west: 0 of 3 pods are available")
	broke := time.Now()
	must(t)(there.Run(ctx, "delete", "quota", "none"))
	says(said)
	for time.Since(broke) < waits {
		if got := must(t)(addresses()); got != oldAddress {
			t.Fatalf("%s after its pods could be made anew it has the addresses %q", time.Since(broke), got)
		}
		time.Sleep(500 * time.Millisecond)
	}
	has(newAddress)
	settled(t, k, "shop", "west")
}

// give has a Service or Ingress get an address, as from the provider of its physical cluster.
func give(t *testing.T, k process.Kubectl, what, address string) {
	t.Helper()
	must(t)(k.Run(context.Background(), "patch", what, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, address)))
}
