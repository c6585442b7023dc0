package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// While a namespace moves to a physical cluster its name leads to another one: by other credentials, or as an admin gave
// it up, deleted it, and registered the other one under the name. Nothing is removed upon what either says.
func TestThePlaceMovedToBecomesAnotherOne(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east")
	one, two := l.addPhysical(t, "first"), l.addPhysical(t, "second")
	registered := func(p *physicalCluster) {
		t.Helper()
		if err := l.register(ctx, "right", p.Kubeconfig, apart); err != nil {
			t.Fatal(err)
		}
	}
	registered(one)
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/right", "--timeout=3m"))
	k := l.newCluster(t)
	served(t, k, "east", 6)
	below := l.homeOf(t, k, "shop").namespace
	o := observe(t, k, "shop")
	pin(t, k, "shop", "right")
	reaches(t, k, placementv1alpha1.TransitionDraining)

	// Other credentials.
	registered(two)
	holds := func() error {
		if way, phase := wayOf(t, k), phaseOf(t, k); phase != placementv1alpha1.TransitionStarting || !strings.Contains(way, "right: the physical cluster is not known to be ready (OtherCluster)") {
			return fmt.Errorf("%s: it says %q", phase, way)
		}
		return nil
	}
	eventuallyBrief(t, holds)
	consistently(t, 8*time.Second, func() error { return errors.Join(holds(), gone(two.Kubectl, "namespace", below)) })

	// Given up, deleted, and the other one registered under the name.
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/right", "--type=merge", "-p", `{"spec":{"forget":true}}`))
	must(t)(l.root.Run(ctx, "delete", "physicalcluster/right", "--wait=false"))
	pin(t, k, "shop", "east")
	must(t)(l.root.Run(ctx, "wait", "--for=delete", "physicalcluster/right", "--timeout=3m"))
	registered(two)
	pin(t, k, "shop", "right")
	settled(t, k, "shop", "right")
	serves(t, k)
	eventually(t, func() error { return gone(l.east.Kubectl, "namespace", below) })
	if out := must(t)(one.Run(ctx, "-n", below, "get", "deployments", "-o", "name")); out == "" {
		t.Error("what was given up was removed")
	}
	if least, most := o.read(); least < 3 || most > 1 {
		t.Errorf("there were moments with %d ready endpoints, and %d pods of which one must run:\n%s", least, most, o.seen())
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}
