package logicalclusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// bootstrapTimeout is how long a new logical cluster is left to the request that
	// creates it.
	bootstrapTimeout = 5 * time.Second
	// recheckInterval is when a terminating logical cluster is looked at again at the
	// latest, batchDelay how long to wait for more to go.
	recheckInterval = 5 * time.Second
	batchDelay      = 100 * time.Millisecond
)

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// Config is what the controller needs.
type Config struct {
	// The clients act in the logical cluster of the context.
	Client         versioned.Interface
	Kube           kubernetes.Interface
	MetadataClient metadata.Interface
	// Metadata knows the content; it must have namespaces.
	Metadata *controller.Metadata
	// Clusters are the LogicalClusters. Whoever composes runs it.
	Clusters *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	// Discover lists the resources of a logical cluster, each group in its
	// preferred version.
	Discover func(context.Context, logicalcluster.Name) ([]*metav1.APIResourceList, error)
	// Fill makes what every namespace has, in the logical cluster of the context.
	Fill func(ctx context.Context, namespace string) error
	// URL is where a logical cluster is served.
	URL func(logicalcluster.Name) string
	// Workers defaults to 4.
	Workers int
}

// Controller leads logical clusters through their lives.
type Controller struct {
	Config
	bindings   *controller.Informer[*rbacv1.ClusterRoleBinding]
	namespaces *controller.Informer[*metav1.PartialObjectMetadata]
	queue      *controller.Controller[controller.Request]
	urls       urls
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 4
	}
	c := &Controller{Config: config, namespaces: config.Metadata.For(namespaces)}
	c.queue = controller.New("logicalclusters", config.Workers, c.reconcile)
	c.bindings = controller.NewInformer("logicalclusters/owners", &rbacv1.ClusterRoleBinding{},
		controller.Lists(config.Kube.RbacV1().ClusterRoleBindings()),
		controller.InformerOptions[*rbacv1.ClusterRoleBinding]{Transform: ownersOnly})
	c.Clusters.Handle(func(old, lc *tenancyv1alpha1.LogicalCluster) {
		if lc == nil || old != nil && old.DeletionTimestamp != nil && apiequality.Semantic.DeepEqual(old.Finalizers, lc.Finalizers) {
			return // our own reports of what is left
		}
		c.queue.Enqueue(controller.RequestFor(lc))
	})
	c.bindings.Handle(func(old, binding *rbacv1.ClusterRoleBinding) {
		if binding == nil {
			binding = old
		}
		c.queue.Enqueue(requestFor(logicalcluster.From(binding)))
	})
	c.namespaces.Handle(func(old, ns *metav1.PartialObjectMetadata) {
		if ns != nil {
			return
		}
		if cluster := logicalcluster.From(old); slices.Contains(systemNamespaces(cluster), old.Name) {
			c.queue.Enqueue(requestFor(cluster))
		}
	})
	config.Metadata.Follow(func(gvr schema.GroupVersionResource, informer *controller.Informer[*metav1.PartialObjectMetadata]) {
		informer.Handle(func(old, obj *metav1.PartialObjectMetadata) {
			if obj != nil {
				return
			}
			cluster := logicalcluster.From(old)
			c.gone(informer, cluster)
			if ofServer(gvr.GroupResource(), old) {
				c.queue.Enqueue(requestFor(cluster))
			}
		})
	})
	return c
}

func requestFor(name logicalcluster.Name) controller.Request {
	return controller.Request{Cluster: scope.Root, Name: name.String()}
}

// gone looks again at a terminating logical cluster when the last object of a
// resource has left it.
func (c *Controller) gone(informer *controller.Informer[*metav1.PartialObjectMetadata], name logicalcluster.Name) {
	lc, ok := c.Clusters.Get(requestFor(name))
	if ok && lc.DeletionTimestamp != nil && !informer.HasCluster(name) {
		c.queue.EnqueueAfter(requestFor(name), batchDelay)
	}
}

// Run works until ctx is done. It waits for all informers.
func (c *Controller) Run(ctx context.Context) {
	var informers sync.WaitGroup
	defer informers.Wait()
	informers.Go(func() { c.bindings.Run(ctx) })
	for _, wait := range []func(context.Context) error{c.Clusters.WaitForSync, c.bindings.WaitForSync, c.Metadata.WaitForSync} {
		if wait(ctx) != nil {
			return
		}
	}
	c.queue.Run(ctx)
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	lc, ok := c.Clusters.Get(key)
	if !ok || key.Cluster != scope.Root {
		c.urls.forget(key.Name)
		return controller.Result{}, nil
	}
	name := logicalcluster.Name(lc.Name)
	if lc.DeletionTimestamp != nil {
		if err := ForbidDeletion(name); err != nil {
			return controller.Result{}, c.setStatus(ctx, lc, permanent(err))
		}
		return c.terminate(ctx, lc)
	}
	if lc.Status.Phase != tenancyv1alpha1.LogicalClusterReady {
		if wait := bootstrapTimeout - time.Since(lc.CreationTimestamp.Time); wait > 0 {
			return controller.Result{RequeueAfter: wait}, nil
		}
		if err := Bootstrap(ctx, c.Config, name); err != nil {
			if statusErr := c.setStatus(ctx, lc, broken(err)); statusErr != nil {
				return controller.Result{}, fmt.Errorf("%w; and %w", err, statusErr)
			}
			return controller.Result{}, err
		}
		return controller.Result{}, nil
	}
	lc, err := ensureFinalizer(ctx, c.Config, lc)
	if err != nil {
		return controller.Result{}, err
	}
	binding, _ := c.bindings.Get(controller.Request{Cluster: name, Name: OwnersBinding})
	if !bound(binding, lc.Spec.Owners) {
		if err := c.bindOwners(within(ctx, name), lc.Spec.Owners); err != nil {
			return controller.Result{}, err
		}
	}
	wait, err := c.restore(ctx, lc)
	if err != nil {
		return controller.Result{}, err
	}
	url := c.URL(name)
	if lc.Status.URL != url {
		if rest := c.urls.wait(lc.Name, time.Now()); rest > 0 {
			url, wait = lc.Status.URL, sooner(wait, rest)
		}
	}
	lacks := lacksService(url, func(gr schema.GroupResource) bool { return c.exists(name, gr) })
	if rest := bootstrapTimeout - time.Since(lc.CreationTimestamp.Time); lacks && rest > 0 {
		lacks, wait = false, sooner(wait, rest) // the informer may not have them yet
	}
	if name != scope.Root && (lacks || url != lc.Status.URL) {
		inside := within(ctx, name)
		err := c.serveAt(inside, url)
		if !c.exists(name, serviceCIDRs) {
			err = errors.Join(err, c.makeServiceRange(inside))
		}
		if err != nil {
			c.urls.forget(lc.Name)
			return controller.Result{}, err
		}
	}
	if url == lc.Status.URL {
		url = "" // another server may have written its own since
	}
	if err := c.setStatus(ctx, lc, ready(url)); err != nil {
		c.urls.forget(lc.Name)
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: wait}, nil
}

// exists says that what a logical cluster has for its Service is there, see lacksService, or that nobody knows.
func (c *Controller) exists(name logicalcluster.Name, gr schema.GroupResource) bool {
	informer := c.Metadata.ForResource(gr)
	if informer == nil {
		return true
	}
	key := controller.Request{Cluster: name, Namespace: metav1.NamespaceDefault, Name: serviceName}
	if gr == serviceCIDRs {
		key.Namespace = ""
	}
	_, ok := informer.Get(key)
	return ok
}

// sooner is the shorter one of two times to wait, of which zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
