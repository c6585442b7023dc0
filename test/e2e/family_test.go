package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// A logical cluster gives its Services IPv4 addresses, which says nothing about where it runs: a namespace moves without a
// failed request to a physical cluster that has IPv6 alone, and back.
func TestANamespaceMovesToAPhysicalClusterOfIPv6(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6: ", err)
	} else {
		_ = l.Close()
	}
	const name = "fjord"
	six := theLab.addPhysical(t, name, "--bind", "::1", "--port", "0", "--services", "fd00:10:96::/112", "--pods", "fd00:10:244::/56")
	if err := theLab.register(ctx, name, six.Kubeconfig, apart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/"+name, "--timeout=3m")) })
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/"+name, "--timeout=3m"))

	k := theLab.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: east}}}"))
	must(t)(k.In("shop").Apply(ctx, strings.Replace(shop, "spec: {selector: {app: web}", "spec: {ipFamilyPolicy: PreferDualStack, selector: {app: web}", 1)))
	serves(t, k)
	below := theLab.homeOf(t, k, "shop", theLab.east).namespace
	o := observe(t, k, "shop")
	for _, to := range []struct{ name, slices, families string }{
		{name, "IPv6", `PreferDualStack ["IPv6"]`},
		{"east", "IPv4", `PreferDualStack ["IPv4"]`},
	} {
		pin(t, k, "shop", to.name)
		settled(t, k, "shop", to.name)
		serves(t, k)
		eventually(t, func() error {
			types, err := k.In("shop").Run(ctx, "get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].addressType}")
			if err == nil {
				err = want("the families of the endpoints", types, to.slices)
			}
			return err
		})
		there := map[string]*physicalCluster{name: six, "east": theLab.east}[to.name].Kubectl.In(below)
		if err := want("the families of the Service there", must(t)(there.Run(ctx, "get", "service", "web", "-o", "jsonpath={.spec.ipFamilyPolicy} {.spec.ipFamilies}")), to.families); err != nil {
			t.Error(fmt.Errorf("on %s: %w", to.name, err))
		}
	}
	if least, places := o.read(); least < 3 || places > 1 {
		t.Errorf("there were moments with %d ready endpoints, and with what must run once in %d places:\n%s", least, places, o.seen())
	}

	// What asks for a family by name runs where there is that one, and elsewhere says what is missing.
	pin(t, k, "shop", name)
	settled(t, k, "shop", name)
	for asks, says := range map[string]string{"ipFamilies: [IPv6]": "Synced ", "ipFamilyPolicy: RequireDualStack": "Failed the physical cluster refused it: spec.ipFamilyPolicy"} {
		must(t)(k.In("shop").Apply(ctx, "{apiVersion: v1, kind: Service, metadata: {name: asks}, spec: {"+asks+", selector: {app: web}, ports: [{port: 80}]}}"))
		eventually(t, func() error {
			got, err := k.In("shop").Run(ctx, "get", "copies", "-o", `jsonpath={range .items[?(@.spec.object.name=="asks")]}{.status.state} {.status.message}{end}`)
			if err == nil && !strings.HasPrefix(got, says) {
				err = fmt.Errorf("the Copy of a Service with %s says %q, want %q", asks, got, says)
			}
			return err
		})
		must(t)(k.In("shop").Run(ctx, "delete", "service", "asks"))
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}
