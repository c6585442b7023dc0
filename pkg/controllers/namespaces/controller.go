package namespaces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"

	"github.com/atoll-dev/atoll/pkg/controller"
)

const (
	// settle is how long a deleted namespace is left alone, so that requests
	// that were admitted before its deletion have stored what they create.
	settle = 500 * time.Millisecond
	// gather is how long to wait for more to go before looking again.
	gather = 100 * time.Millisecond
)

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// Config is what the controller needs.
type Config struct {
	// Kube and Client act in the logical cluster of the context.
	Kube   kubernetes.Interface
	Client metadata.Interface
	// Metadata must have namespaces. Deletions that it sees in any resource
	// speed up the namespaces they happened in.
	Metadata *controller.Metadata
	// Discover lists the resources of a logical cluster, each group in its
	// preferred version.
	Discover func(context.Context, logicalcluster.Name) ([]*metav1.APIResourceList, error)
	// Workers defaults to 4.
	Workers int
}

// Controller empties namespaces that are being deleted.
type Controller struct {
	Config
	live  *controller.Informer[*metav1.PartialObjectMetadata]
	queue *controller.Controller[controller.Request]
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 4
	}
	c := &Controller{Config: config, live: config.Metadata.For(namespaces)}
	c.queue = controller.New("namespaces", config.Workers, c.reconcile)
	c.live.Handle(func(_, ns *metav1.PartialObjectMetadata) {
		if ns != nil && ns.DeletionTimestamp != nil {
			c.queue.EnqueueAfter(controller.RequestFor(ns), settle)
		}
	})
	config.Metadata.Follow(func(_ schema.GroupVersionResource, informer *controller.Informer[*metav1.PartialObjectMetadata]) {
		informer.Handle(func(old, obj *metav1.PartialObjectMetadata) {
			if obj == nil && old.Namespace != "" {
				c.gone(informer, old)
			}
		})
	})
	return c
}

// gone looks again at a terminating namespace when the last object of a
// resource has left it, rather than after the estimate.
func (c *Controller) gone(informer *controller.Informer[*metav1.PartialObjectMetadata], obj *metav1.PartialObjectMetadata) {
	cluster := logicalcluster.From(obj)
	key := controller.Request{Cluster: cluster, Name: obj.Namespace}
	ns, ok := c.live.Get(key)
	if ok && ns.DeletionTimestamp != nil && informer.CountNamespace(cluster, obj.Namespace) == 0 {
		c.queue.EnqueueAfter(key, gather)
	}
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	if err := c.live.WaitForSync(ctx); err != nil {
		return
	}
	c.queue.Run(ctx)
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	ns, ok := c.live.Get(key)
	if !ok || ns.DeletionTimestamp == nil {
		return controller.Result{}, nil
	}
	all, err := c.Discover(ctx, key.Cluster)
	if err != nil {
		return controller.Result{}, fmt.Errorf("discovering resources: %w", err)
	}
	resources := content(all)
	if len(resources) == 0 { // the stock deleter ends the process for this
		return controller.Result{}, errors.New("discovering resources: there are none")
	}
	if err := c.deleteWorkloads(ctx, key.Name, workloads(resources)); err != nil {
		return controller.Result{}, err
	}
	err = deletion.NewNamespacedResourcesDeleter(ctx, c.Kube.CoreV1().Namespaces(), c.Client, c.Kube.CoreV1(),
		func() ([]*metav1.APIResourceList, error) { return resources, nil },
		corev1.FinalizerKubernetes).Delete(ctx, key.Name)
	var remaining *deletion.ResourcesRemainingError
	if errors.As(err, &remaining) {
		return controller.Result{RequeueAfter: time.Duration(remaining.Estimate/2+1) * time.Second}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("deleting content: %w", err)
	}
	return controller.Result{}, nil
}

// deleteWorkloads deletes all objects that make pods. The namespace is checked
// by a live read first: the informer may know one that is gone and made again.
func (c *Controller) deleteWorkloads(ctx context.Context, namespace string, resources []schema.GroupVersionResource) error {
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
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			return fmt.Errorf("deleting %s: %w", gvr.Resource, err)
		}
	}
	return nil
}
