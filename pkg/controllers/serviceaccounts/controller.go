package serviceaccounts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// yield leaves the namespace "default" to whoever creates a logical cluster and
// fills it in the same breath.
const yield = 2 * time.Second

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	accounts   = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
)

// Config is what the controller needs.
type Config struct {
	// Kube acts in the logical cluster of the context.
	Kube kubernetes.Interface
	// Metadata must have namespaces and serviceaccounts.
	Metadata *controller.Metadata
	// RootCA is the bundle of PEM certificates that verify the server.
	RootCA []byte
	// Workers defaults to 4.
	Workers int
}

// configMap is what is kept of a root CA: its metadata, and whether its content
// is as it should be.
type configMap struct {
	metav1.PartialObjectMetadata
	current bool
}

// Controller keeps both objects in every namespace.
type Controller struct {
	Config
	namespaces, accounts *controller.Informer[*metav1.PartialObjectMetadata]
	rootCAs              *controller.Informer[*configMap]
	queue                *controller.Controller[controller.Request]
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 4
	}
	c := &Controller{
		Config:     config,
		namespaces: config.Metadata.For(namespaces),
		accounts:   config.Metadata.For(accounts),
	}
	c.queue = controller.New("serviceaccounts", config.Workers, c.reconcile)
	c.rootCAs = controller.NewInformer("serviceaccounts/root-ca", &corev1.ConfigMap{},
		controller.Lists(config.Kube.CoreV1().ConfigMaps(metav1.NamespaceAll)),
		controller.InformerOptions[*configMap]{
			Transform: c.keep,
			Tweak: func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, rootCAName).String()
			},
		})
	c.namespaces.Handle(func(old, ns *metav1.PartialObjectMetadata) {
		switch {
		case ns == nil || old != nil: // only what is new lacks anything
		case ns.Name == metav1.NamespaceDefault:
			c.queue.EnqueueAfter(controller.RequestFor(ns), yield)
		default:
			c.queue.Enqueue(controller.RequestFor(ns))
		}
	})
	c.accounts.Handle(func(old, account *metav1.PartialObjectMetadata) {
		if account == nil && old.Name == accountName {
			c.enqueueNamespace(old)
		}
	})
	c.rootCAs.Handle(func(old, cm *configMap) {
		switch {
		case cm == nil:
			c.enqueueNamespace(old)
		case !cm.current:
			c.enqueueNamespace(cm)
		}
	})
	return c
}

// keep is the transform of the informer of root CAs.
func (c *Controller) keep(obj runtime.Object) (*configMap, error) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	if cm.Name != rootCAName { // a source that ignores the selector
		return nil, nil
	}
	kept := &configMap{current: current(cm, c.RootCA)}
	kept.ObjectMeta = metav1.ObjectMeta{
		Name: cm.Name, Namespace: cm.Namespace, UID: cm.UID, ResourceVersion: cm.ResourceVersion,
		Annotations: cm.Annotations,
	}
	delete(kept.Annotations, descriptionAnnotation)
	return kept, nil
}

func (c *Controller) enqueueNamespace(obj metav1.Object) {
	r := controller.RequestFor(obj)
	c.queue.Enqueue(controller.Request{Cluster: r.Cluster, Name: r.Namespace})
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	var informers sync.WaitGroup
	defer informers.Wait()
	informers.Go(func() { c.rootCAs.Run(ctx) })
	for _, wait := range []func(context.Context) error{c.namespaces.WaitForSync, c.accounts.WaitForSync, c.rootCAs.WaitForSync} {
		if wait(ctx) != nil {
			return
		}
	}
	c.queue.Run(ctx)
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	ns, ok := c.namespaces.Get(key)
	if !ok || ns.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	var failures []error
	if _, ok := c.accounts.Get(controller.Request{Cluster: key.Cluster, Namespace: key.Name, Name: accountName}); !ok {
		failures = append(failures, createAccount(ctx, c.Kube, key.Name))
	}
	cm, ok := c.rootCAs.Get(controller.Request{Cluster: key.Cluster, Namespace: key.Name, Name: rootCAName})
	switch {
	case !ok:
		failures = append(failures, createRootCA(ctx, c.Kube, c.RootCA, key.Name))
	case !cm.current:
		failures = append(failures, c.repair(ctx, cm))
	}
	return controller.Result{}, errors.Join(failures...)
}

// repair gives a root CA the content that it should have.
func (c *Controller) repair(ctx context.Context, known *configMap) error {
	client := c.Kube.CoreV1().ConfigMaps(known.Namespace)
	cm, err := client.Get(ctx, rootCAName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // its deletion is on the way to the informer
	}
	if err != nil {
		return fmt.Errorf("reading config map %s: %w", rootCAName, err)
	}
	if current(cm, c.RootCA) {
		return nil
	}
	want := rootCA(c.RootCA)
	cm.Data, cm.BinaryData = want.Data, nil
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, descriptionAnnotation, description)
	if _, err := client.Update(ctx, cm, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("repairing config map %s: %w", rootCAName, err)
	}
	return nil
}
