package agent

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// terms are how long the Lease of a physical cluster is good for. Its renewals
// are the heartbeat, too.
type terms struct {
	// duration is how long others wait for a holder that says nothing, renewal how
	// long the holder works on without having renewed it: what it has asked for has
	// ended when others begin.
	duration, renewal time.Duration
	// retry is how often the holder renews it; others look at least half as often.
	retry time.Duration
}

// usual terms: a holder that was killed is succeeded after 20 s at the most.
func usual() terms {
	return terms{duration: 12 * time.Second, renewal: 8 * time.Second, retry: 3 * time.Second}
}

// releasing bounds the wait for a server that may be on its way out itself.
const releasing = 2 * time.Second

// lead does work while this agent, me, holds the Lease of the physical cluster:
// two who work on one at a time would undo what the other one has just reported.
// It returns when work has ended, or has been ended because the Lease was lost or
// ctx is done. Who ends gracefully releases the Lease after the last request.
func (a *Agent) lead(ctx context.Context, me string, work func(context.Context)) error {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lock := a.lock(me)
	// Whoever puts something into began first decides: work has begun, or never will.
	began, ended := make(chan struct{}, 1), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: a.target, Lock: lock,
		LeaseDuration: a.terms.duration, RenewDeadline: a.terms.renewal, RetryPeriod: a.terms.retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				select {
				case began <- struct{}{}:
					defer close(ended)
					defer cancel()
					work(klog.NewContext(leading, logger))
				default:
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != me && holder != "" {
					logger.Info("Another syncer serves the physical cluster, waiting for it to end", "holder", holder)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	elector.Run(klog.NewContext(ctx, klog.Logger{})) // it would log each attempt
	lost := ctx.Err() == nil
	select {
	case began <- struct{}{}: // it will not begin any more
	default:
		<-ended
	}
	if lost {
		logger.Info("Could not renew the Lease, stopped until it can be had again")
		return nil
	}
	if err := release(ctx, lock); err != nil {
		logger.V(2).Info("Releasing the Lease failed, it will expire", "err", err)
	}
	return nil
}

// release gives the Lease back at once, if we hold it.
func release(ctx context.Context, lock resourcelock.Interface) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasing)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) || err == nil && record.HolderIdentity != lock.Identity() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Lease: %w", err)
	}
	record.HolderIdentity, record.LeaseDurationSeconds = "", 1
	if err := lock.Update(ctx, *record); err != nil {
		return fmt.Errorf("writing the Lease: %w", err)
	}
	return nil
}

func (a *Agent) lock(me string) resourcelock.Interface {
	return &scopedLock{
		scope: scope.Scope{Cluster: scope.Root, Target: a.target},
		LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: fleetv1alpha1.LeaseNamespace, Name: a.target},
			Client:     a.up.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: me},
		},
	}
}

// scopedLock is a Lease in the view of a physical cluster. A server that does not
// answer holds nobody up.
type scopedLock struct {
	scope scope.Scope
	*resourcelock.LeaseLock
}

func (l *scopedLock) in(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(scope.With(ctx, l.scope), asking)
}

// Get implements resourcelock.Interface.
func (l *scopedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.in(ctx)
	defer cancel()
	return l.LeaseLock.Get(ctx)
}

// Create implements resourcelock.Interface. The namespace of the Leases appears
// soon after the first start of a server.
func (l *scopedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.in(ctx)
	defer cancel()
	err := l.LeaseLock.Create(ctx, r)
	for ctx.Err() == nil && isNamespaceGone(err) {
		sleep(ctx, soon)
		err = l.LeaseLock.Create(ctx, r)
	}
	return err
}

// Update implements resourcelock.Interface.
func (l *scopedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.in(ctx)
	defer cancel()
	return l.LeaseLock.Update(ctx, r)
}
