package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/skew"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/election"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/podadmission"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/report"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Config says what an Agent works on.
type Config struct {
	// PhysicalCluster is the name of the PhysicalCluster.
	PhysicalCluster string
	// Upstream is the way to the control plane, without a scope in its host.
	Upstream *rest.Config
	// Physical is the way to the physical cluster.
	Physical *rest.Config
	// Kinds are those of Kubernetes that have copies, or are mirrored. What is declared
	// besides, the agent sees in the control plane.
	Kinds workload.Source
	// Resync is how often the status of the PhysicalCluster is compared with what
	// there is, when nothing is seen to change; default 10 s.
	Resync time.Duration
	// ExcessDelay is how long nothing is synced after the physical cluster has shown more than
	// is kept of it, and how long a session has to last for that to be over; default 30 s.
	ExcessDelay time.Duration
	// Admission is where the API server of the physical cluster asks about pods, while this
	// agent syncs; nil if it does not.
	Admission *podadmission.Server
	// Identify names this agent in the election, as no other is named; free is called
	// when the name is not used any more. A name may begin with a place, up to an "@",
	// that one living agent has: a holder whose name began with it is dead.
	Identify func(controlPlane, physicalCluster string) (me string, free func())
	// Handshake tells the server the version of this syncer, and knows whether they work
	// together; default: that of this build.
	Handshake *connection.Handshake
	// Watching says how it is noticed that one of the two servers went back in time.
	Watching controller.ServerOptions
	// Plan, Place and Observe decide; default: those of pkg/syncer. The simulation plants
	// mistakes here.
	Plan    func(syncer.Input) []syncer.Action
	Place   func(in syncer.Input, namespace, made *unstructured.Unstructured) syncer.Place
	Observe func(syncer.Observation) []syncer.Action
}

// complete sets the defaults.
func (c *Config) complete() {
	c.Resync = cmp.Or(c.Resync, reportInterval)
	c.ExcessDelay = cmp.Or(c.ExcessDelay, excessDelay)
	if c.Identify == nil {
		c.Identify = election.Identify
	}
	if c.Handshake == nil {
		c.Handshake = connection.NewHandshake(skew.Current())
	}
}

const (
	// reportInterval is how often the status is compared with what there is, by default.
	reportInterval = 10 * time.Second
	// excessDelay is the default of Config.ExcessDelay.
	excessDelay = 30 * time.Second
	// registrationDelay is when a control plane is asked again that does not know the
	// physical cluster yet.
	registrationDelay = 500 * time.Millisecond
	// incompatibleDelay is added while the server and this syncer do not work together: one of
	// them has to be upgraded.
	incompatibleDelay = 5 * time.Second
)

// Agent keeps the copies of one physical cluster.
type Agent struct {
	Config
	election election.Election
	gate     *connection.Gate
	up       connection.ControlPlane
	down     connection.Physical
	report   *report.Reporter
	// kinds are those of Config with what is declared.
	kinds *controller.Variable[workload.Catalog]
	// me is the name in the election.
	me string
}

// New makes an Agent. It does not connect: Run does, for as long as it takes.
func New(c Config) (*Agent, error) {
	if problem := scope.ValidateName(c.PhysicalCluster); problem != "" {
		return nil, fmt.Errorf("physical cluster %q: %s", c.PhysicalCluster, problem)
	}
	if c.Upstream == nil || c.Physical == nil {
		return nil, errors.New("an agent needs the way to the control plane and to the physical cluster")
	}
	if c.Kinds == nil {
		return nil, errors.New("an agent needs the kinds that there are")
	}
	c.complete()
	kinds := controller.NewVariable(c.Kinds.Current())
	fence := &election.Fence{}
	upstream := c.Handshake.Wrap(c.Upstream)
	leases, err := connection.NewLeases(upstream)
	if err != nil {
		return nil, err
	}
	a := &Agent{Config: c, kinds: kinds, election: election.Election{PhysicalCluster: c.PhysicalCluster, Leases: leases, Fence: fence, Terms: election.DefaultTerms()}}
	if a.up, err = connection.NewControlPlane(upstream, fence.Guard, c.Watching); err != nil {
		return nil, err
	}
	if a.down, a.gate, err = connection.NewPhysical(c.Physical, func(next http.RoundTripper) http.RoundTripper { return fence.Guard(c.Handshake.Guard(next)) }, c.Watching); err != nil {
		return nil, err
	}
	return a, nil
}

// Run works until ctx is done; it returns when everything that it started has
// ended. Whatever cannot be reached is tried again for ever.
func (a *Agent) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("target", a.PhysicalCluster)
	ctx = scope.WithTarget(klog.NewContext(ctx, logger), a.PhysicalCluster)
	for ctx.Err() == nil {
		controlPlane, ok := a.registered(ctx)
		if !ok {
			break
		}
		me := election.Named(a.Identify(controlPlane, a.PhysicalCluster))
		a.me = me.Name
		err := a.election.Lead(ctx, me, a.work)
		me.Free()
		if err != nil {
			return err
		}
	}
	return nil
}

// registered waits until the control plane knows the physical cluster, and returns
// its id; ok is false if ctx is done before.
func (a *Agent) registered(ctx context.Context) (controlPlane string, ok bool) {
	ctx = scope.WithCluster(ctx, scope.Root)
	said := ""
	for ctx.Err() == nil {
		pc, err := a.readRegistration(ctx)
		switch {
		case err == nil && pc.Status.ControlPlane != "":
			return pc.Status.ControlPlane, true
		case connection.IsIncompatible(err):
			connection.Sleep(ctx, incompatibleDelay) // the handshake has said so
		case err != nil && err.Error() != said && ctx.Err() == nil:
			said = err.Error()
			klog.FromContext(ctx).Info("The control plane does not show the PhysicalCluster, will ask until it does", "err", err)
		}
		connection.Sleep(ctx, registrationDelay)
	}
	return "", false
}

func (a *Agent) readRegistration(ctx context.Context) (*fleetv1alpha1.PhysicalCluster, error) {
	ctx, cancel := context.WithTimeout(ctx, connection.QuestionTimeout)
	defer cancel()
	return a.up.Atoll.FleetV1alpha1().PhysicalClusters().Get(ctx, a.PhysicalCluster, metav1.GetOptions{})
}

// work reports and syncs until ctx is done or the physical cluster is not
// registered any more.
func (a *Agent) work(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	a.gate.Admit("", "", false) // who it was when we last held the Lease says nothing
	a.report = report.New(report.Config{
		PhysicalCluster: a.PhysicalCluster, Interval: a.Resync, Up: a.up, Down: a.down, Gate: a.gate, Kinds: a.kinds, Name: a.me, Version: a.Handshake.Mine(),
	})
	var reports sync.WaitGroup
	defer reports.Wait()
	defer cancel()
	reports.Go(func() {
		defer cancel()
		a.report.Run(ctx)
	})
	reports.Go(func() { a.up.Server.Run(ctx) })
	reports.Go(func() { a.followDeclared(ctx) })
	reports.Go(func() { a.down.Server.Run(ctx) })

	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 7, Cap: 15 * time.Second}
	retry := backoff
	for ctx.Err() == nil {
		started := time.Now()
		if err := a.session(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Syncing stopped, will start again")
		}
		if time.Since(started) > time.Minute {
			retry = backoff
		}
		if a.report.Excessive() {
			connection.Sleep(ctx, a.ExcessDelay)
			continue
		}
		connection.Sleep(ctx, retry.Step())
	}
}

// session learns who the control plane is and what the physical cluster serves,
// and syncs until one of them changes.
func (a *Agent) session(ctx context.Context) error {
	world, err := a.report.Await(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newSession(a, world)
	go func() { // ends with ctx, which ends with the session
		a.report.Changed(ctx, world)
		cancel()
	}()
	return s.run(ctx)
}
