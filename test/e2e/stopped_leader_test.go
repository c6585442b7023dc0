package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// Of two servers over one etcd each stands still while it removes what a namespace has left, for longer than its Leases
// last. The other one goes on, and brings the namespace back; and when the first goes on, too, it writes nothing of what
// it was at.
func TestAServerThatStoodStillDoesNotWriteAsIfItLedStill(t *testing.T) {
	long(t)
	ctx := context.Background()
	p := startServerPair(t)
	places := map[string]*physicalCluster{}
	for _, name := range []string{"south", "north"} {
		below, err := p.startPhysical(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := below.Stop(); err != nil {
				t.Error(err)
			}
		})
		if err := p.register(ctx, name, below.Kubeconfig); err != nil {
			t.Fatal(err)
		}
		places[name] = below
	}
	must(t)(p.root.Run(ctx, "wait", "--for=condition=Ready", "--timeout=3m", "physicalcluster/south", "physicalcluster/north"))
	k := process.Kubectl{Kubeconfig: p.path("server-0", "admin.kubeconfig"), Context: "shop"}
	// through reaches one server, and not the balancer.
	through := func(server int) process.Kubectl {
		t.Helper()
		direct := process.Kubectl{Kubeconfig: p.path(fmt.Sprintf("direct-%d.kubeconfig", server)), Context: "shop"}
		raw := strings.ReplaceAll(must(t)(k.Run(ctx, "config", "view", "--raw", "--minify")), p.url, "https://"+p.balancer.servers[server])
		if err := os.WriteFile(direct.Kubeconfig, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		return direct
	}
	served(t, k, "south", 2)
	below := p.homeOf(t, k, "shop", places["south"], places["north"]).namespace
	for victim := range p.servers {
		live := through(1 - victim)
		o, w := observe(t, live, "shop"), observeBelow(t, below, places["south"], places["north"])
		pin(t, live, "shop", "north")
		reaches(t, live, placementv1alpha1.TransitionRemoving)
		if err := p.servers[victim].Freeze(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.servers[victim].Thaw() })
		p.awaitBalancer(t, victim, false)
		settled(t, live, "shop", "north")
		serves(t, live)
		pin(t, live, "shop", "south") // what the first one was at would be wrong now
		settled(t, live, "shop", "south")
		serves(t, live)
		if err := p.servers[victim].Thaw(); err != nil {
			t.Fatal(err)
		}
		p.awaitBalancer(t, victim, true)
		consistently(t, 5*time.Second, func() error { return movesAgain(t, live) })
		serves(t, live)
		settled(t, through(victim), "shop", "south")
		eventually(t, func() error { return gone(places["north"].Kubectl, "namespace", below) })
		least, most := o.read()
		available, in := w.read()
		if least < 3 || most > 1 || available < 3 || in > 1 {
			t.Errorf("server %d stood still: there were moments with %d ready endpoints, %d pods of which one must run, %d available below, in %d places:\n%s\n%s", victim, least, most, available, in, o.seen(), w.seen())
		}
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

// movesAgain says what moves, and why, if anything does.
func movesAgain(t *testing.T, k process.Kubectl) error {
	t.Helper()
	ctx := context.Background()
	var p placementv1alpha1.Placement
	if ok, err := k.Get(ctx, &p, "placement", placementv1alpha1.NamespaceUnit, "-n", "shop"); err != nil || !ok {
		t.Fatalf("reading the placement: %v", err)
	}
	if p.Spec.Transition == nil {
		return nil
	}
	targets := must(t)(k.Run(ctx, "get", "deployments,statefulsets,replicasets,controllerrevisions,pods,services,endpointslices,configmaps,serviceaccounts,resourcequotas", "-n", "shop", "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion} {.metadata.annotations.`+strings.ReplaceAll(placementv1alpha1.TargetsAnnotation, ".", `\.`)+`}{"\n"}{end}`))
	return fmt.Errorf("it moves: %+v\n%s", *p.Spec.Transition, targets)
}
