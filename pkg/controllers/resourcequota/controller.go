package resourcequota

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/controller"
)

const (
	// batchDelay is how long events are gathered before a quota is counted.
	batchDelay = 200 * time.Millisecond
	// settleDelay is how long a charged object may take to be stored.
	settleDelay = 250 * time.Millisecond
	// maxSettle is how often a count waits for charges that do not end.
	maxSettle = 3
	// auditDelay is when a quota is counted after a charge, whatever happened to the
	// object that was charged for.
	auditDelay = 5 * time.Second
)

// Config is what the controller needs.
type Config struct {
	// Kube acts in the logical cluster of the context.
	Kube     kubernetes.Interface
	Quotas   *controller.Informer[*corev1.ResourceQuota]
	Metadata *controller.Metadata
	// Workers defaults to 2.
	Workers int
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// Controller keeps the status of ResourceQuotas.
type Controller struct {
	Config
	charges *charges
	queue   *controller.Controller[controller.Request]
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 2
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	c := &Controller{Config: config, charges: newCharges()}
	c.queue = controller.New("resourcequotas", config.Workers, c.reconcile)
	config.Quotas.Handle(c.quotaChanged)
	config.Metadata.Follow(c.follow)
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

func (c *Controller) quotaChanged(old, quota *corev1.ResourceQuota) {
	switch {
	case quota == nil:
		c.charges.forget(controller.RequestFor(old))
	case old == nil || !quotav1.Equals(old.Spec.Hard, quota.Spec.Hard):
		c.queue.Enqueue(controller.RequestFor(quota))
	case !quotav1.Equals(old.Status.Used, quota.Status.Used):
		key := controller.RequestFor(quota)
		c.charges.note(key, c.Clock.Now())
		c.queue.EnqueueAfter(key, auditDelay)
	}
}

// follow counts the objects of a resource that there is, or that users define
// from now on.
func (c *Controller) follow(gvr schema.GroupVersionResource, informer *controller.Informer[*metav1.PartialObjectMetadata]) {
	gr := gvr.GroupResource()
	if ignored(gr) {
		return
	}
	if c.Metadata.Added(gvr) {
		for _, quota := range c.Quotas.List() {
			if tracks(quota, gr) {
				c.queue.Enqueue(controller.RequestFor(quota))
			}
		}
	}
	informer.Handle(func(old, obj *metav1.PartialObjectMetadata) {
		switch {
		case obj == nil:
			obj = old
		case old != nil && !measured(gvr):
			return // as many as before
		}
		key := controller.RequestFor(obj)
		if key.Namespace == "" || !c.Quotas.HasNamespace(key.Cluster, key.Namespace) {
			return
		}
		for _, quota := range c.Quotas.ListNamespace(key.Cluster, key.Namespace) {
			if tracks(quota, gr) {
				c.queue.EnqueueAfter(controller.RequestFor(quota), batchDelay)
			}
		}
	})
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	quota, ok := c.Quotas.Get(key)
	if !ok {
		return controller.Result{}, nil
	}
	if wait := c.charges.wait(key, c.Clock.Now()); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	used, err := c.count(ctx, quota)
	if err != nil {
		return controller.Result{}, fmt.Errorf("counting: %w", err)
	}
	status := corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: used}
	if apiequality.Semantic.DeepEqual(quota.Status, status) {
		return controller.Result{}, nil
	}
	changed := quota.DeepCopy()
	changed.Status = status
	_, err = c.Kube.CoreV1().ResourceQuotas(key.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("writing the usage: %w", err)
	}
	return controller.Result{}, nil
}
