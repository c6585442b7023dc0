package namespaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// settleDelay is how long a deleted namespace is left alone, so that requests
	// that were admitted before its deletion have stored what they create.
	settleDelay = 500 * time.Millisecond
	// batchDelay is how long to wait for more to go before looking again.
	batchDelay = 100 * time.Millisecond
	// lateDelay is when to delete what came into a namespace after the last pass: what
	// happens on physical clusters is reported to the end.
	lateDelay = time.Second
)

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	pods       = corev1.SchemeGroupVersion.WithResource("pods")

	logicalClusters = tenancyv1alpha1.SchemeGroupVersion.WithResource("logicalclusters")
)

// Config is what the controller needs.
type Config struct {
	// Kube and Client act in the logical cluster of the context.
	Kube   kubernetes.Interface
	Client metadata.Interface
	// Kinds say what makes pods.
	Kinds workload.Source
	// Metadata must have namespaces. Deletions that it sees in any resource
	// speed up the namespaces they happened in.
	Metadata *controller.Metadata
	// Discover lists the resources of a logical cluster, each group in its
	// preferred version.
	Discover func(context.Context, logicalcluster.Name) ([]*metav1.APIResourceList, error)
	// Elsewhere is what other servers keep; its informer has synced when Run is called.
	Elsewhere Elsewhere
	// Clusters are the LogicalClusters. Whoever composes runs it.
	Clusters *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	// Workers defaults to 4.
	Workers int
}

// Controller empties namespaces that are being deleted.
type Controller struct {
	Config
	live  *controller.Informer[*metav1.PartialObjectMetadata]
	pods  *controller.Informer[*metav1.PartialObjectMetadata]
	queue *controller.Controller[controller.Request]
	// again are the logical clusters whose terminating namespaces to look at again.
	again *controller.Controller[logicalcluster.Name]

	mu sync.Mutex
	// holds are the namespaces that only other servers hold.
	holds map[controller.Request]*hold
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 4
	}
	c := &Controller{Config: config, live: config.Metadata.For(namespaces), pods: config.Metadata.For(pods), holds: map[controller.Request]*hold{}}
	c.queue = controller.New("namespaces", config.Workers, c.reconcile)
	c.again = controller.New("namespaces/again", 1, c.all)
	c.live.Handle(func(old, ns *metav1.PartialObjectMetadata) {
		switch {
		case ns == nil && old.DeletionTimestamp != nil:
			c.queue.Enqueue(controller.RequestFor(old)) // to forget it
		case ns != nil && ns.DeletionTimestamp != nil:
			c.queue.EnqueueAfter(controller.RequestFor(ns), settleDelay)
		}
	})
	config.Elsewhere.Notify(func(cluster logicalcluster.Name, namespace string) {
		if namespace != "" {
			c.queue.Enqueue(controller.Request{Cluster: cluster, Name: namespace})
			return
		}
		c.again.EnqueueAfter(cluster, batchDelay)
	})
	config.Clusters.Handle(func(old, lc *tenancyv1alpha1.LogicalCluster) {
		if lc != nil && lc.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
			c.again.Enqueue(logicalcluster.Name(lc.Name))
		}
	})
	config.Metadata.Follow(func(gvr schema.GroupVersionResource, informer *controller.Informer[*metav1.PartialObjectMetadata]) {
		if isRecord(gvr.GroupResource()) {
			return
		}
		informer.Handle(func(old, obj *metav1.PartialObjectMetadata) {
			switch {
			case obj == nil && old.Namespace != "":
				c.gone(gvr, informer, old)
			case old == nil && obj.Namespace != "" && obj.DeletionTimestamp == nil:
				c.came(obj)
			}
		})
	})
	return c
}

// gone looks again at a terminating namespace when there is something to do: the
// last pod has left it, so that the rest can be deleted, or the last object of all,
// so that it can go. In between, a pass would change nothing.
func (c *Controller) gone(gvr schema.GroupVersionResource, informer *controller.Informer[*metav1.PartialObjectMetadata], obj *metav1.PartialObjectMetadata) {
	key, ok := c.terminating(obj)
	if ok && !informer.HasNamespace(key.Cluster, key.Name) && (gvr == pods || c.empty(key)) {
		c.queue.EnqueueAfter(key, batchDelay)
	}
}

// came looks again at a terminating namespace that has something new.
func (c *Controller) came(obj *metav1.PartialObjectMetadata) {
	if key, ok := c.terminating(obj); ok {
		c.queue.EnqueueAfter(key, lateDelay)
	}
}

// terminating is the namespace of obj, if it is being deleted.
func (c *Controller) terminating(obj *metav1.PartialObjectMetadata) (controller.Request, bool) {
	key := controller.Request{Cluster: logicalcluster.From(obj), Name: obj.Namespace}
	ns, ok := c.live.Get(key)
	return key, ok && ns.DeletionTimestamp != nil
}

// all looks again at the terminating namespaces of a logical cluster.
func (c *Controller) all(_ context.Context, cluster logicalcluster.Name) (controller.Result, error) {
	for _, ns := range c.live.ListCluster(cluster) {
		if ns.DeletionTimestamp != nil {
			c.queue.Enqueue(controller.RequestFor(ns))
		}
	}
	return controller.Result{}, nil
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	defer c.again.ShutDown()
	for _, wait := range []func(context.Context) error{c.live.WaitForSync, c.pods.WaitForSync, c.Clusters.WaitForSync} {
		if wait(ctx) != nil {
			return
		}
	}
	var again sync.WaitGroup
	defer again.Wait()
	again.Go(func() { c.again.Run(ctx) })
	c.queue.Run(ctx)
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	ns, ok := c.live.Get(key)
	if !ok || ns.DeletionTimestamp == nil {
		c.forget(key)
		return controller.Result{}, nil
	}
	saw, err := c.look(ctx, key, ns.UID)
	if err != nil {
		return controller.Result{}, err
	}
	plan := saw.plan()
	if plan.wait {
		return controller.Result{RequeueAfter: recheckInterval}, nil
	}
	if pause := c.pause(key, plan.held); pause > 0 {
		return controller.Result{RequeueAfter: pause}, nil
	}
	all, err := c.Discover(ctx, key.Cluster)
	if err != nil {
		return controller.Result{}, fmt.Errorf("discovering resources: %w", err)
	}
	resources := content(all)
	vacant := c.vacant(key, gvrs(resources))
	if err := c.deleteWorkloads(ctx, key.Name, workloads(c.Kinds.Current(), resources), vacant); err != nil {
		return controller.Result{}, err
	}
	result, err := c.pass(ctx, key, ns.UID, resources, saw, plan, vacant)
	if errors.Is(err, errFound) { // the informers were behind
		result, err = c.pass(ctx, key, ns.UID, resources, saw, plan, nil)
	}
	return result, err
}

// look reads what other servers keep in a namespace.
func (c *Controller) look(ctx context.Context, key controller.Request, uid types.UID) (saw sight, err error) {
	if saw.others = c.Elsewhere.Has(key.Cluster); saw.others {
		if saw.others, err = c.stays(ctx, key.Cluster); err != nil {
			return saw, err
		}
	}
	if !saw.others {
		c.forget(key)
		return saw, nil
	}
	if saw.pods, err = c.countPods(ctx, key); err != nil {
		return saw, err
	}
	if saw.pods > 0 {
		saw.unknown = c.Elsewhere.Unknown(key.Cluster)
		return saw, nil
	}
	saw.left, saw.failed, saw.unknown, saw.swept = c.Elsewhere.Sweep(ctx, key.Cluster, key.Name, uid)
	return saw, nil
}

// countPods counts the pods in a namespace: at least one if the server has any. That the
// informer lacks them proves nothing, and what they use must stay.
func (c *Controller) countPods(ctx context.Context, key controller.Request) (int, error) {
	if n := c.pods.CountNamespace(key.Cluster, key.Name); n > 0 {
		return n, nil
	}
	list, err := c.Client.Resource(pods).Namespace(key.Name).List(scope.WithCluster(ctx, key.Cluster), metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("listing pods: %w", err)
	}
	return len(list.Items), nil
}

// stays says whether a logical cluster is there and not being deleted. That the
// informer lacks it proves nothing: what other servers keep in it counts.
func (c *Controller) stays(ctx context.Context, cluster logicalcluster.Name) (bool, error) {
	if lc, ok := c.Clusters.Get(controller.Request{Cluster: scope.Root, Name: cluster.String()}); ok {
		return lc.DeletionTimestamp == nil, nil
	}
	lc, err := c.Client.Resource(logicalClusters).Get(scope.WithCluster(ctx, scope.Root), cluster.String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the logical cluster: %w", err)
	}
	return lc.DeletionTimestamp == nil, nil
}

func (c *Controller) forget(key controller.Request) {
	c.Elsewhere.Forget(key.Cluster, key.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, key)
}

func (c *Controller) pause(key controller.Request, held string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds[key].pause(held, time.Now())
}

// pass has the stock deleter go over a namespace once, without what is vacant.
func (c *Controller) pass(ctx context.Context, key controller.Request, uid types.UID, resources []*metav1.APIResourceList, saw sight, plan plan, vacant map[schema.GroupVersionResource]bool) (controller.Result, error) {
	client := &joint{Interface: c.Client, own: gvrs(resources), vacant: vacant, sight: saw, remaining: map[schema.GroupVersionResource]int{}}
	open := gate{NamespaceInterface: c.Kube.CoreV1().Namespaces(), verify: func(ctx context.Context) error { return c.verify(ctx, key.Name, vacant) }}
	if plan.finalize {
		open.uid = uid
	}
	if plan.pods {
		resources = only(pods, resources)
	}
	if resources = append(resources, saw.lists()...); len(resources) == 0 { // the stock deleter ends the process for this
		return controller.Result{}, errors.New("discovering resources: there are none")
	}
	begun := false
	err := deletion.NewNamespacedResourcesDeleter(ctx, open, client, c.Kube.CoreV1(), func() ([]*metav1.APIResourceList, error) {
		if !begun { // it asks for the verbs, and would log what the condition says
			begun = true
			return resources, nil
		}
		return resources, saw.unknown
	}, corev1.FinalizerKubernetes).Delete(ctx, key.Name)

	alone := plan.held != "" && !client.ours()
	c.remember(key, plan.held, alone)
	var remaining *deletion.ResourcesRemainingError
	var several utilerrors.Aggregate
	switch {
	case err == nil:
		return controller.Result{}, nil
	case errors.Is(err, errHeld):
		return controller.Result{RequeueAfter: batchDelay}, nil
	case alone && errors.As(err, &remaining):
		return controller.Result{RequeueAfter: minHeldInterval}, nil
	case errors.As(err, &remaining):
		return controller.Result{RequeueAfter: time.Duration(remaining.Estimate/2+1) * time.Second}, nil
	case errors.Is(err, errFound):
		return controller.Result{}, err
	case client.failure == nil && (plan.held != "" || saw.unknown != nil || client.ours()) && errors.As(err, &several):
		// The conditions say it. What is ours and has no finalizer are pods that take
		// longer than their grace; an event says when they go.
		if alone {
			return controller.Result{RequeueAfter: minHeldInterval}, nil
		}
		return controller.Result{RequeueAfter: passInterval}, nil
	}
	return controller.Result{}, fmt.Errorf("deleting content: %w", err)
}

// remember keeps why only other servers hold a namespace.
func (c *Controller) remember(key controller.Request, why string, alone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !alone {
		delete(c.holds, key)
		return
	}
	tries := 0
	if before := c.holds[key]; before != nil {
		tries = before.tries
	}
	c.holds[key] = &hold{why: why, since: time.Now(), tries: tries}
}

// deleteWorkloads deletes all objects that make pods. The namespace is checked
// by a live read first: the informer may know one that is gone and made again.
func (c *Controller) deleteWorkloads(ctx context.Context, namespace string, resources []schema.GroupVersionResource, vacant map[schema.GroupVersionResource]bool) error {
	resources = slices.DeleteFunc(resources, func(gvr schema.GroupVersionResource) bool { return vacant[gvr] })
	if len(resources) == 0 {
		return nil
	}
	ns, err := c.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	if ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
		return nil
	}
	background := metav1.DeletePropagationBackground
	for _, gvr := range resources {
		err := c.Client.Resource(gvr).Namespace(namespace).DeleteCollection(ctx,
			metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		if err != nil && !absent(err) {
			return fmt.Errorf("deleting %s: %w", gvr.Resource, err)
		}
	}
	return nil
}
