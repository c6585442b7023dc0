package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/framework/process"
)

func ingressFor(name, host string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s}
spec: {rules: [{host: %q, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`, name, host)
}

// hostsBelow are the hosts of an Ingress on the physical cluster.
func hostsBelow(at home, name string) (string, error) {
	var i networkingv1.Ingress
	ok, err := at.below().Get(context.Background(), &i, "ingress", name)
	if err != nil || !ok {
		return "", err
	}
	var hosts []string
	for _, r := range i.Spec.Rules {
		hosts = append(hosts, r.Host)
	}
	return strings.Join(hosts, ","), nil
}

// copied returns an error unless the Copy of an Ingress has a state and a reason.
func copied(k process.Kubectl, name string, state placementv1alpha1.CopyState, reason string) error {
	return copyOf(k, "ingresses", name, state, reason)
}

// copyOf is the same for an object of any resource.
func copyOf(k process.Kubectl, resource, name string, state placementv1alpha1.CopyState, reason string) error {
	var copies placementv1alpha1.CopyList
	if _, err := k.Get(context.Background(), &copies, "copies"); err != nil {
		return err
	}
	for _, c := range copies.Items {
		if c.Spec.Object.Resource == resource && c.Spec.Object.Name == name {
			return want("state of the Copy of "+name, []string{string(c.Status.State), c.Status.Reason}, []string{string(state), reason})
		}
	}
	return fmt.Errorf("%s has no Copy", name)
}

// A host name belongs to the logical cluster whose Ingress had it first on a physical
// cluster, until that gives it up.
func TestAHostNameIsThatOfTheLogicalClusterWhichHadItFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b := theLab.newCluster(t), theLab.newCluster(t)
	for _, k := range []process.Kubectl{a, b} {
		pin(t, k, "default", "east")
	}
	must(t)(a.Apply(ctx, ingressFor("web", "shop.example.com")))
	eventually(t, func() error { return copied(a, "web", placementv1alpha1.CopySynced, "") })
	must(t)(b.Apply(ctx, ingressFor("edited", "edited.example.com")))
	eventually(t, func() error { return copied(b, "edited", placementv1alpha1.CopySynced, "") })
	at := theLab.homeOf(t, b, "default")

	// Neither the name nor all of the domain, by something new or by what is there.
	must(t)(b.Apply(ctx, ingressFor("thief", "shop.example.com")))
	must(t)(b.Apply(ctx, ingressFor("wild", "*.example.com")))
	must(t)(b.Apply(ctx, ingressFor("edited", "shop.example.com")))
	for _, name := range []string{"thief", "wild", "edited"} {
		eventually(t, func() error { return copied(b, name, placementv1alpha1.CopyFailed, syncer.ReasonHostTaken) })
	}
	for name, host := range map[string]string{"thief": "", "wild": "", "edited": "edited.example.com"} {
		if got, err := hostsBelow(at, name); err != nil || got != host {
			t.Errorf("Ingress %s has the hosts %q below, %v", name, got, err)
		}
	}
	eventually(t, func() error { // an event is written after what it is about
		events, err := b.Run(ctx, "get", "events", "--field-selector", "involvedObject.name=thief", "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(events, "the host name shop.example.com belongs to an Ingress of another logical cluster") {
			err = fmt.Errorf("its user reads %q", events)
		}
		return err
	})
	must(t)(a.Run(ctx, "delete", "ingress", "web", "--timeout=3m"))
	eventually(t, func() error { return copied(b, "thief", placementv1alpha1.CopySynced, "") })

	// What no rule names is taken in the same way.
	must(t)(a.Apply(ctx, ingressFor("any", "")))
	eventually(t, func() error { return copied(a, "any", placementv1alpha1.CopySynced, "") })
	must(t)(b.Apply(ctx, ingressFor("any", "")))
	eventually(t, func() error { return copied(b, "any", placementv1alpha1.CopyFailed, syncer.ReasonHostTaken) })
	must(t)(a.Run(ctx, "delete", "ingress", "any", "--timeout=3m"))
	eventually(t, func() error { return copied(b, "any", placementv1alpha1.CopySynced, "") })
}
