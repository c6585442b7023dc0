package election

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// Terms are how long the Lease of a physical cluster is good for. Its renewals
// are the heartbeat, too.
type Terms struct {
	// Duration is how long others wait for a holder that says nothing, Renewal how
	// long the holder writes without having renewed it: what it has asked for has
	// ended when others begin.
	Duration, Renewal time.Duration
	// Retry is how often the holder renews it; others look at least half as often.
	Retry time.Duration
}

// DefaultTerms: a holder that was killed is succeeded after 20 s at the most.
func DefaultTerms() Terms {
	return Terms{Duration: 12 * time.Second, Renewal: 8 * time.Second, Retry: 3 * time.Second}
}

// releasing bounds the wait for a server that may be on its way out itself.
const releasing = 2 * time.Second

// namespaceDelay is when the namespace of the Leases is looked for again.
const namespaceDelay = 100 * time.Millisecond

// Election is that of the syncer that serves a physical cluster.
type Election struct {
	// PhysicalCluster is its name.
	PhysicalCluster string
	// Leases renews the Lease, over a connection and at a priority of its own.
	Leases coordinationclient.LeasesGetter
	// Fence is open while the Lease is held.
	Fence *Fence
	Terms Terms
}

// Lead does work while this agent, me, holds the Lease of the physical cluster:
// two who write to one at a time would undo what the other one has just reported.
//
// When the Lease cannot be renewed the fence keeps all writes back, and work goes on:
// if the Lease is had again before anybody else held it, nothing has to be read anew.
// Lead returns when work has ended, when it has been ended as ctx is done or somebody
// else was the holder. Who ends gracefully releases the Lease after the last request.
func (e *Election) Lead(ctx context.Context, me Identity, work func(context.Context)) error {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer e.Fence.Close()
	lock := e.lock(me, cancel)
	// Whoever puts something into began first decides: work has begun, or never will.
	began, ended := make(chan struct{}, 1), make(chan struct{})
	config := leaderelection.LeaderElectionConfig{
		Name: e.PhysicalCluster, Lock: lock,
		LeaseDuration: e.Terms.Duration, RenewDeadline: e.Terms.Renewal, RetryPeriod: e.Terms.Retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				select {
				case began <- struct{}{}:
					defer close(ended)
					defer cancel()
					work(ctx)
				default: // it had the Lease before
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != me.Name && holder != "" {
					logger.Info("Another syncer serves the physical cluster, waiting for it to end", "holder", holder)
				}
			},
		},
	}
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			return fmt.Errorf("preparing the election: %w", err)
		}
		elector.Run(klog.NewContext(ctx, klog.Logger{})) // it would log each attempt
		if ctx.Err() == nil {
			logger.Info("Could not renew the Lease, nothing is written until it can be had again")
		}
	}
	select {
	case began <- struct{}{}: // it will not begin any more
	default:
		<-ended
	}
	e.Fence.Close()
	if err := lock.release(ctx); err != nil {
		logger.V(2).Info("Releasing the Lease failed, it will expire", "err", err)
	}
	return nil
}

func (e *Election) lock(me Identity, lost func()) *fencedLock {
	return &fencedLock{
		scope: scope.Scope{Cluster: scope.Root, Target: e.PhysicalCluster},
		me:    me, fence: e.Fence, renewal: e.Terms.Renewal, lost: lost,
		LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: fleetv1alpha1.LeaseNamespace, Name: e.PhysicalCluster},
			Client:     e.Leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: me.Name},
		},
	}
}

// fencedLock is a Lease in the view of a physical cluster. Each renewal keeps the
// fence open. A server that does not answer holds nobody up.
//
// An elector uses it from one goroutine.
type fencedLock struct {
	scope   scope.Scope
	me      Identity
	fence   *Fence
	renewal time.Duration
	// lost is called when somebody else has held the Lease since we did.
	lost func()
	// held says that we have held it, and term which term that was.
	held bool
	term int
	over bool
	*resourcelock.LeaseLock
}

func (l *fencedLock) in(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(scope.With(ctx, l.scope), connection.QuestionTimeout)
}

// Get implements resourcelock.Interface. A holder that is dead holds nothing.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.in(ctx)
	defer cancel()
	record, raw, err := l.LeaseLock.Get(ctx)
	switch {
	case err != nil:
	case l.me.succeeds(record.HolderIdentity):
		record.HolderIdentity = ""
	case l.held && record.HolderIdentity != l.me.Name:
		l.end() // also if it was given back since: who knows what was written
	}
	return record, raw, err
}

// Create implements resourcelock.Interface. The namespace of the Leases appears
// soon after the first start of a server.
func (l *fencedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.in(ctx)
	defer cancel()
	began := time.Now()
	err := l.LeaseLock.Create(ctx, r)
	for ctx.Err() == nil && syncer.IsNamespaceGone(err) {
		connection.Sleep(ctx, namespaceDelay)
		began = time.Now()
		err = l.LeaseLock.Create(ctx, r)
	}
	if err == nil && l.held {
		l.end() // it was gone: anybody may have held it meanwhile
	} else if err == nil {
		l.renewed(r, began)
	}
	return err
}

// Update implements resourcelock.Interface.
func (l *fencedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.in(ctx)
	defer cancel()
	began := time.Now()
	err := l.LeaseLock.Update(ctx, r)
	if err == nil {
		l.renewed(r, began)
	}
	return err
}

// renewed opens the fence for a while that begins when the renewal was sent: others
// count from when they see it.
func (l *fencedLock) renewed(r resourcelock.LeaderElectionRecord, began time.Time) {
	if l.held && r.LeaderTransitions != l.term {
		l.end()
	}
	if l.over {
		return
	}
	l.held, l.term = true, r.LeaderTransitions
	l.fence.Extend(began.Add(l.renewal))
}

// end ends the work, as somebody else may have held the Lease since it began.
func (l *fencedLock) end() {
	l.over = true
	l.fence.Close()
	l.lost()
}

// release gives the Lease back at once, if we hold it.
func (l *fencedLock) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasing)
	defer cancel()
	ctx = scope.With(ctx, l.scope)
	record, _, err := l.LeaseLock.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != l.me.Name {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Lease: %w", err)
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	if err := l.LeaseLock.Update(ctx, *record); err != nil {
		return fmt.Errorf("writing the Lease: %w", err)
	}
	return nil
}
