package e2e

import (
	"context"
	"strings"
	"testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// A server that dies in any phase of a move is succeeded by one that goes on with it. The
// physical cluster for which a phase waits is stopped meanwhile, so that the phase lasts.
func TestAMoveGoesOnAfterTheServerDiedInEachPhase(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east", "west")
	k := l.newCluster(t)
	must(t)(k.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {placement.atoll.dev/cluster: east}}}"))
	must(t)(k.In("shop").Apply(ctx, strings.Replace(shop, "drainSeconds: 2", "drainSeconds: 8", 1))) // time to see that it drains
	must(t)(k.In("shop").Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
	from, to := l.east, l.west
	below := l.homeOf(t, k, "shop").namespace
	for _, c := range []struct {
		phase placementv1alpha1.TransitionPhase
		// waitsFor is stopped before the phase.
		waitsFor func() *physicalCluster
	}{
		{placementv1alpha1.TransitionStarting, func() *physicalCluster { return to }},
		{placementv1alpha1.TransitionDraining, nil},
		{placementv1alpha1.TransitionRemoving, func() *physicalCluster { return from }},
	} {
		var stopped *physicalCluster
		if c.waitsFor != nil && c.phase == placementv1alpha1.TransitionStarting {
			stopped = c.waitsFor()
			frozen(t, stopped)
		}
		pin(t, k, "shop", to.name)
		if c.waitsFor != nil && stopped == nil {
			reaches(t, k, placementv1alpha1.TransitionDraining)
			stopped = c.waitsFor()
			frozen(t, stopped)
		}
		reaches(t, k, c.phase)
		l.server.Kill()
		restart(t, l.server)
		if c.waitsFor != nil {
			if err := want("phase after the restart", phaseOf(t, k), c.phase); err != nil {
				t.Error(err)
			}
		}
		if stopped != nil {
			if err := stopped.Thaw(); err != nil {
				t.Fatal(err)
			}
		}
		settled(t, k, "shop", to.name)
		must(t)(k.In("shop").Run(ctx, "rollout", "status", "deployment/web", "--timeout=3m"))
		must(t)(k.In("shop").Run(ctx, "rollout", "status", "statefulset/one", "--timeout=3m"))
		eventually(t, func() error {
			out, err := from.Run(ctx, "get", "namespace", below, "--ignore-not-found")
			if err == nil {
				err = want("on "+from.name, out, "")
			}
			return err
		})
		from, to = to, from
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

func frozen(t *testing.T, p *physicalCluster) {
	t.Helper()
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Thaw() })
}

// phaseOf is that of the transition of the namespace shop; empty without one.
func phaseOf(t *testing.T, k process.Kubectl) placementv1alpha1.TransitionPhase {
	t.Helper()
	var p placementv1alpha1.Placement
	if ok, err := k.Get(context.Background(), &p, "placement", placementv1alpha1.NamespaceUnit, "-n", "shop"); err != nil || !ok {
		t.Fatalf("reading the placement: %v", err)
	}
	if p.Spec.Transition == nil {
		return ""
	}
	return p.Spec.Transition.Phase
}

func reaches(t *testing.T, k process.Kubectl, phase placementv1alpha1.TransitionPhase) {
	t.Helper()
	eventuallyBrief(t, func() error { return want("phase", phaseOf(t, k), phase) })
}
