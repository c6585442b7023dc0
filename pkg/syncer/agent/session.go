package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/dispatch"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/down"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/imports"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/isolation"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/orphans"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/podadmission"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/report"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/supplies"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/up"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Workers of the queues. They mostly wait for one of the two servers, and a webhook of the physical cluster
// may have each write of a kind, or of a tenant's pods, take half a minute.
const (
	objectWorkers = 36
	mirrorWorkers = 24
	eventWorkers  = 2
	orphanWorkers = 2
	// isolationWorkers write one policy for each namespace, mostly when a session begins.
	isolationWorkers = 4
	importWorkers    = 4
	// elsewhereDelay is how long changes of pods elsewhere are gathered.
	elsewhereDelay = 250 * time.Millisecond
)

// session is one run of the syncer in a known world: what it knows, what works on it,
// and the queues between.
type session struct {
	view     *view.View
	dispatch *dispatch.Dispatcher
	report   *report.Reporter
	kinds    workload.Source
	gate     *connection.Gate

	// excessDelay is how long a session lasts before the one that ended for its size counts as
	// over.
	excessDelay time.Duration

	supplies *supplies.Keeper
	admits   *podadmission.Keeper

	objects   *controller.Controller[view.ObjectKey]
	mirrors   *controller.Controller[view.MirrorKey]
	events    *controller.Controller[controller.Request]
	orphans   *controller.Controller[string]
	isolation *controller.Controller[string]
	elsewhere *controller.Controller[controller.Request]
	imports   *controller.Controller[controller.Request]
}

func newSession(a *Agent, w report.World) *session {
	s := &session{report: a.report, gate: a.gate, kinds: a.kinds, excessDelay: a.ExcessDelay}
	s.view = view.New(view.Config{
		Target: a.PhysicalCluster, ControlPlane: w.ControlPlane, Up: a.up, Down: a.down,
		Least: mostHeld(w.Bounds, 0), More: func(placed int) controller.Held { return mostHeld(w.Bounds, placed) },
	}, a.kinds.Current().Undeclared(), w.Serves) // what is declared comes by follow, and holds up nothing
	unplaced := orphans.New(orphans.Config{
		View: s.view, Up: a.up, Down: a.down,
		Counted: func(n fleetv1alpha1.OrphanCounts) { s.report.Orphans(n) },
	})
	s.supplies = supplies.New(supplies.Config{View: s.view, Up: a.up, Down: a.down, Server: s.server,
		Names: s.names, NamesChanged: func() { s.dispatch.All() }})
	s.admits = podadmission.New(podadmission.Config{View: s.view, Up: a.up, Down: a.down, Server: a.Admission,
		Wanted: s.admission, Permits: s.permits, Report: s.report.Admitting})
	isolating := isolation.New(isolation.Config{View: s.view, Down: a.down, Permits: s.permits, Lacking: s.report.Lacking,
		Enqueue: func(namespace string) { s.isolation.Enqueue(namespace) }})
	copies := down.New(down.Config{
		View: s.view, Up: a.up, Down: a.down, Plan: a.Plan, Place: a.Place, Permits: s.permits, Offered: s.offered, Classes: s.classes, Server: s.server, Supplies: s.supplies, Isolate: isolating.Prepare,
		Confirm: s.gate.Confirm, Forbidden: s.report.Notify, Orphans: unplaced,
	})
	mirrors := up.New(up.Config{
		View: s.view, Up: a.up, Down: a.down, Observe: a.Observe, Confirm: s.gate.Confirm, Permits: s.permits,
		Mirrored: func(key view.MirrorKey) { s.dispatch.OwnedBy(key.UID) },
	})
	s.objects = controller.New("syncer/objects", objectWorkers, copies.Reconcile, controller.WithShares)
	s.mirrors = controller.New("syncer/mirrors", mirrorWorkers, mirrors.Reconcile, controller.WithShares, controller.WithClusters(s.view.ClusterOf))
	s.events = controller.New("syncer/events", eventWorkers, mirrors.Event,
		controller.WithClusters(func(r controller.Request) logicalcluster.Name { return s.view.ClusterIn(r.Namespace) }))
	s.orphans = controller.New("syncer/orphans", orphanWorkers, unplaced.Reconcile)
	s.isolation = controller.New("syncer/isolation", isolationWorkers, isolating.Reconcile, controller.WithClusters(s.view.ClusterIn))
	s.elsewhere = controller.New("syncer/elsewhere", 1, isolating.Elsewhere)
	imported := imports.New(imports.Config{View: s.view, Down: a.down, Names: s.names, Permits: s.permits})
	s.imports = controller.New("syncer/imports", importWorkers, imported.Reconcile)
	s.dispatch = dispatch.New(s.view, dispatch.Queues{
		Objects: s.objects.Enqueue, Mirrors: s.mirrors.Enqueue, Events: s.events.Enqueue, Orphans: s.orphans.Enqueue,
		Isolation:      s.isolation.Enqueue,
		Imports:        s.imports.Enqueue,
		Pods:           func(r controller.Request) { s.elsewhere.EnqueueAfter(r, elsewhereDelay) },
		OrphansChanged: unplaced.Count,
	})
	return s
}

// queue is what run runs.
type queue interface {
	Run(context.Context)
	ShutDown()
}

// run syncs until ctx is done, and returns when all that it started has ended.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer s.view.OnWentBack(cancel)()
	running.Go(func() {
		select {
		case <-s.view.Exceeded():
			s.report.TooLarge(s.view.Excess())
			cancel()
		case <-ctx.Done():
		}
	})
	queues := []queue{s.objects, s.mirrors, s.events, s.orphans, s.isolation, s.elsewhere, s.imports, s.supplies}
	for _, q := range queues {
		defer q.ShutDown() // also if they are never run
	}
	s.report.Begins(s.view)
	if err := s.view.Start(ctx, &running); err != nil {
		return errors.Join(s.view.Excess(), err)
	}
	if err := s.report.Meet(ctx, s.view.CountNamespaces); err != nil {
		return err
	}
	defer s.gate.Expect(nil)
	s.view.StartEvents(ctx, &running)
	s.dispatch.Start()
	for _, q := range queues {
		running.Go(func() { q.Run(ctx) })
	}
	running.Go(func() { s.follow(ctx, &running) })
	running.Go(func() { s.admits.Run(ctx) })
	running.Go(func() { imports.Sweep(ctx, s.view, s.imports.Enqueue) })
	s.report.Syncing(true)
	defer s.report.Syncing(false)
	klog.FromContext(ctx).Info("Syncing", "controlPlane", s.view.ControlPlane)
	held := time.AfterFunc(s.excessDelay, func() { s.report.TooLarge(s.view.Excess()) })
	defer held.Stop()
	<-ctx.Done()
	return s.view.Excess()
}

// offered are the classes that the physical cluster reports now.
func (s *session) offered() boundary.Classes {
	world, _ := s.report.World()
	return world.Classes
}

// permits is what the physical cluster permits now.
func (s *session) permits() boundary.Permits {
	world, _ := s.report.World()
	return world.Tenancy
}

// classes is what an admin declared of the volumes of a storage class.
func (s *session) classes(class string) fleetv1alpha1.ClassVolumes {
	world, _ := s.report.World()
	return (&fleetv1alpha1.PhysicalCluster{Spec: fleetv1alpha1.PhysicalClusterSpec{Volumes: world.Volumes, Tenancy: world.Tenancy}}).VolumesOf(class)
}

// server is how pods on the physical cluster reach the control plane now.
func (s *session) server() syncer.Server {
	world, _ := s.report.World()
	return world.Server
}

// admission is how the API server of the physical cluster asks about pods.
func (s *session) admission() (*fleetv1alpha1.PodAdmission, <-chan struct{}) {
	world, changed := s.report.World()
	return world.Admission, changed
}

// names is the namespace of the physical cluster where names are answered now.
func (s *session) names() string {
	world, _ := s.report.World()
	return world.Names
}

// follow has the view show the kinds that there are, as far as the physical cluster
// serves them, and everything looked at anew that other permits, other classes, or another way
// to the server, are for, until ctx is done.
func (s *session) follow(ctx context.Context, running *sync.WaitGroup) {
	before, _ := s.report.World()
	for ctx.Err() == nil {
		kinds := s.kinds.Current()
		world, changed := s.report.World()
		if decidesAnew(before, world) {
			before = world
			s.dispatch.All()
		}
		s.view.Follow(ctx, running, kinds, world.Serves)
		select {
		case <-ctx.Done():
		case <-s.kinds.Changed(kinds):
		case <-changed:
		}
	}
}

// decidesAnew says that copies may be others than they were in the world before.
func decidesAnew(before, now report.World) bool {
	return !equality.Semantic.DeepEqual(before.Tenancy, now.Tenancy) || before.RuntimeClasses != now.RuntimeClasses ||
		!equality.Semantic.DeepEqual(before.Classes, now.Classes) ||
		before.Server != now.Server || before.Names != now.Names || !equality.Semantic.DeepEqual(before.Volumes, now.Volumes)
}
