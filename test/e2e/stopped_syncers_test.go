package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// startPair starts two physical clusters with syncers that run there, a and b.
func (l *lab) startPair(t *testing.T) (map[string]*physicalCluster, map[string]*process.Process) {
	t.Helper()
	places, syncers := map[string]*physicalCluster{}, map[string]*process.Process{}
	for _, name := range []string{"a", "b"} {
		places[name], syncers[name] = l.startPull(t, name)
		must(t)(l.root.Run(context.Background(), "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"unschedulable":false}}`))
	}
	return places, syncers
}

// A syncer stands still in a phase of a move, and goes on later with what it knew then. The move waits for the one of the
// place moved to, with the traffic where it was, and for the one of the place that is left; nothing is removed without
// its replacement, and what goes on late writes nothing that is not meant any more.
func TestAMoveSurvivesASyncerThatStandsStill(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t)
	places, syncers := l.startPair(t)
	k := l.newCluster(t)
	served(t, k, "a", 6)
	below := l.homeOf(t, k, "shop", places["a"]).namespace
	for _, c := range []struct {
		from, to, stands string
		in, waitsIn      placementv1alpha1.TransitionPhase
	}{
		{"a", "b", "b", placementv1alpha1.TransitionDraining, placementv1alpha1.TransitionStarting},
		{"b", "a", "b", placementv1alpha1.TransitionRemoving, placementv1alpha1.TransitionRemoving},
	} {
		what := fmt.Sprintf("the syncer of %s stands still while it moves from %s to %s, %s", c.stands, c.from, c.to, c.in)
		o, w := observe(t, k, "shop"), observeBelow(t, below, places["a"], places["b"])
		pin(t, k, "shop", c.to)
		reaches(t, k, c.in)
		if err := syncers[c.stands].Freeze(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syncers[c.stands].Thaw() })
		since := time.Now()
		reaches(t, k, c.waitsIn)
		for time.Since(since) < 15*time.Second {
			if phase := phaseOf(t, k); phase == "" {
				t.Fatalf("%s: the move is over", what)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if err := want("phase", phaseOf(t, k), c.waitsIn); err != nil {
			t.Errorf("%s: %v; it says %q", what, err, wayOf(t, k))
		}
		if err := syncers[c.stands].Thaw(); err != nil {
			t.Fatal(err)
		}
		settled(t, k, "shop", c.to)
		serves(t, k)
		eventually(t, func() error { return gone(places[c.from].Kubectl, "namespace", below) })
		least, _ := o.read() // pods are mirrored late by who stood still
		available, in := w.read()
		if least < 3 || available < 3 || in > 1 {
			t.Errorf("%s: there were moments with %d ready endpoints, %d pods available below, and with what must run once in %d places:\n%s\n%s", what, least, available, in, o.seen(), w.seen())
		}
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

// The place that is left is given up while things are being removed there, and its syncer stands still: the move is over
// at once. The syncer goes on later, and neither removes what counts as gone nor acknowledges anything.
func TestAPlaceIsGivenUpWhileItIsLeft(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t)
	places, syncers := l.startPair(t)
	k := l.newCluster(t)
	served(t, k, "a", 3)
	below := l.homeOf(t, k, "shop", places["a"]).namespace
	o := observe(t, k, "shop")
	pin(t, k, "shop", "b")
	reaches(t, k, placementv1alpha1.TransitionDraining)
	if err := syncers["a"].Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syncers["a"].Thaw() })
	reaches(t, k, placementv1alpha1.TransitionRemoving)
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/a", "--type=merge", "-p", `{"spec":{"forget":true}}`))
	settled(t, k, "shop", "b")
	serves(t, k)
	left := func() string {
		return must(t)(places["a"].Run(ctx, "-n", below, "get", "deployments,statefulsets,services,configmaps,pods", "-o", "name"))
	}
	copies := func() string {
		return must(t)(k.In("shop").Run(ctx, "get", "copies", "-o", `jsonpath={range .items[*]}{.metadata.name} {.spec.physicalCluster} {.status.state}{"\n"}{end}`))
	}
	leftBefore, copiesBefore := left(), copies()
	if err := syncers["a"].Thaw(); err != nil {
		t.Fatal(err)
	}
	consistently(t, 8*time.Second, func() error {
		if err := want("left on a", left(), leftBefore); err != nil {
			return err
		}
		return want("copies", copies(), copiesBefore)
	})
	if least, _ := o.read(); least < 3 {
		t.Errorf("there were moments with %d ready endpoints:\n%s", least, o.seen())
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}
