package down

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// fixture is a Reconciler between two servers in memory, with notes of what it asks of
// other rooms.
type fixture struct {
	*viewtest.World
	*Reconciler
	// confirmed is what comes of asking who answers below.
	confirmed error
	forbidden int
	found     []view.ObjectKey
	settled   []view.ObjectKey
}

func newFixture(t *testing.T, above, below []runtime.Object, records ...runtime.Object) *fixture {
	t.Helper()
	return fixtureOf(viewtest.New(t, above, below, records...))
}

// newFixtureOver is one over a physical cluster that is asked by HTTP.
func newFixtureOver(t *testing.T, p *viewtest.Physical, above []runtime.Object, records ...runtime.Object) *fixture {
	t.Helper()
	return fixtureOf(viewtest.NewOver(t, p, above, records...))
}

func fixtureOf(w *viewtest.World) *fixture {
	f := &fixture{World: w}
	f.Reconciler = New(Config{
		View: f.World.View, Up: f.World.Up(), Down: f.World.Down(),
		Confirm:   func(context.Context) error { return f.confirmed },
		Forbidden: func() { f.forbidden++ },
		Orphans:   f,
	})
	return f
}

// Found implements Orphans.
func (f *fixture) Found(_ context.Context, _ workload.Kind, key view.ObjectKey) (time.Duration, error) {
	f.found = append(f.found, key)
	return time.Hour, nil
}

// Settled implements Orphans.
func (f *fixture) Settled(key view.ObjectKey) { f.settled = append(f.settled, key) }

// reconcile brings one object up to date, and returns when it asks to look again.
func (f *fixture) reconcile(t *testing.T, key view.ObjectKey) time.Duration {
	t.Helper()
	result, err := f.Reconcile(f.Ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}
