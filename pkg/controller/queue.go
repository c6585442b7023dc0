package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// Backoff of a key that fails again and again.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = 30 * time.Second
)

// Result is what a reconcile function asks for when it succeeds.
type Result struct {
	// RequeueAfter asks for another call after this time; zero for none.
	RequeueAfter time.Duration
}

// Controller calls a reconcile function for each key that is enqueued: one call
// at a time for a key, equal keys that wait are one, and the queue is
// round robin over logical clusters.
type Controller[K comparable] struct {
	name      string
	workers   int
	reconcile func(context.Context, K) (Result, error)
	shares    *shares
	queue     workqueue.TypedRateLimitingInterface[K]
}

// Option is a choice that New offers.
type Option[K comparable] func(*fair[K])

// WithPriority has every second call within a logical cluster be with a key for which first returned true when
// it was enqueued, if there is one. It must not enqueue anything.
func WithPriority[K comparable](first func(K) bool) Option[K] {
	return func(q *fair[K]) { q.priority = first }
}

// WithShares leaves workers to logical clusters that have none, for calls that may take long: see shares.
func WithShares[K comparable](q *fair[K]) {
	q.shares = newShares()
}

// WithClusters has the queue ask of which logical cluster a key is that does not name it, when it is enqueued. It must
// not enqueue anything.
func WithClusters[K comparable](of func(K) logicalcluster.Name) Option[K] {
	return func(q *fair[K]) { q.cluster = of }
}

// scoped is a key that names a logical cluster.
type scoped interface {
	LogicalCluster() logicalcluster.Name
}

// New makes a controller. A key that has the method LogicalCluster, as Request
// has, is reconciled with a context in the scope of that logical cluster. An
// error is logged once and the key retried with growing delays; a conflict is
// retried quietly; a TerminalError is not retried.
func New[K comparable](name string, workers int, reconcile func(context.Context, K) (Result, error), options ...Option[K]) *Controller[K] {
	order := newFair[K]()
	for _, o := range options {
		o(order)
	}
	if order.shares != nil {
		order.shares.workers = workers
	}
	return &Controller[K]{
		name: name, workers: workers, reconcile: reconcile, shares: order.shares,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](minRetry, maxRetry),
			workqueue.TypedRateLimitingQueueConfig[K]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{
				Name: name, Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: order}),
			})}),
	}
}

// Name is the name given to New.
func (c *Controller[K]) Name() string { return c.name }

// Enqueue asks for a call with key.
func (c *Controller[K]) Enqueue(key K) { c.queue.Add(key) }

// EnqueueAfter asks for a call with key after d.
func (c *Controller[K]) EnqueueAfter(key K, d time.Duration) { c.queue.AddAfter(key, d) }

// Len is the number of keys that wait; 0 if none of them may be taken.
func (c *Controller[K]) Len() int { return c.queue.Len() }

// ShutDown ends what New has started. Run does it, too: it is for who may end
// without a Run.
func (c *Controller[K]) ShutDown() { c.queue.ShutDown() }

// Run works until ctx is done and returns when the last call has returned. A
// controller runs once.
func (c *Controller[K]) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("controller", c.name))
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
}

func (c *Controller[K]) next(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer func() {
		c.shares.end(key)
		c.queue.Done(key)
	}()
	if ctx.Err() != nil {
		return true // drain without work
	}
	logger := klog.FromContext(ctx).WithValues(describe(key)...)
	keyCtx := klog.NewContext(ctx, logger)
	if s, ok := any(key).(scoped); ok {
		keyCtx = scope.WithCluster(keyCtx, s.LogicalCluster())
	}
	result, err := c.call(keyCtx, key)
	var terminal *terminalError
	switch {
	case err == nil:
		c.queue.Forget(key)
		if result.RequeueAfter > 0 {
			c.queue.AddAfter(key, result.RequeueAfter)
		}
	case ctx.Err() != nil: // the failure is the shutdown
	case errors.As(err, &terminal):
		c.queue.Forget(key)
		logger.Error(err, "Reconciling failed for good")
	case apierrors.IsConflict(err):
		c.queue.AddRateLimited(key)
	default:
		logger.Error(err, "Reconciling failed, will retry")
		c.queue.AddRateLimited(key)
	}
	return true
}

// call turns a panic into an error: one object that a controller cannot digest
// must not take the server down.
func (c *Controller[K]) call(ctx context.Context, key K) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return c.reconcile(ctx, key)
}

func describe(key any) []any {
	if r, ok := key.(Request); ok {
		return []any{"cluster", r.Cluster, "namespace", r.Namespace, "name", r.Name}
	}
	return []any{"key", fmt.Sprint(key)}
}

type terminalError struct{ err error }

// TerminalError marks err as one that no retry can heal.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
