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

// yieldDelay leaves the namespace "default" to whoever creates a logical cluster and
// fills it in the same breath.
const yieldDelay = 2 * time.Second

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	accounts   = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// Config is what the controller needs.
type Config struct {
	// Kube acts in the logical cluster of the context.
	Kube kubernetes.Interface
	// Metadata must have namespaces, serviceaccounts and configmaps.
	Metadata *controller.Metadata
	// RootCA is the bundle of PEM certificates that verify the server.
	RootCA []byte
	// Workers defaults to 4.
	Workers int
}

// Controller keeps both objects in every namespace.
type Controller struct {
	Config
	namespaces, accounts, configMaps *controller.Informer[*metav1.PartialObjectMetadata]
	// broken holds the root CAs whose content is not as it should be: none, most
	// of the time.
	broken *controller.Informer[*corev1.ConfigMap]
	queue  *controller.Controller[controller.Request]
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
		configMaps: config.Metadata.For(configMaps),
	}
	c.queue = controller.New("serviceaccounts", config.Workers, c.reconcile)
	c.broken = controller.NewInformer("serviceaccounts/root-ca", &corev1.ConfigMap{},
		controller.Lists(config.Kube.CoreV1().ConfigMaps(metav1.NamespaceAll)),
		controller.InformerOptions[*corev1.ConfigMap]{
			Transform: c.keepBroken,
			Tweak: func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, rootCAName).String()
			},
		})
	c.namespaces.Handle(func(old, ns *metav1.PartialObjectMetadata) {
		switch {
		case ns == nil || old != nil: // only what is new lacks anything
		case ns.Name == metav1.NamespaceDefault:
			c.queue.EnqueueAfter(controller.RequestFor(ns), yieldDelay)
		default:
			c.queue.Enqueue(controller.RequestFor(ns))
		}
	})
	for informer, name := range map[*controller.Informer[*metav1.PartialObjectMetadata]]string{
		c.accounts: accountName, c.configMaps: rootCAName,
	} {
		informer.Handle(func(old, obj *metav1.PartialObjectMetadata) {
			if obj == nil && old.Name == name {
				c.enqueueNamespace(old)
			}
		})
	}
	c.broken.Handle(func(_, cm *corev1.ConfigMap) {
		if cm != nil {
			c.enqueueNamespace(cm)
		}
	})
	return c
}

// keepBroken is the transform of the informer of broken root CAs.
func (c *Controller) keepBroken(obj runtime.Object) (*corev1.ConfigMap, error) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	if cm.Name != rootCAName || current(cm, c.RootCA) { // a source may ignore the selector
		return nil, nil
	}
	return cm, nil
}

func (c *Controller) enqueueNamespace(obj metav1.Object) {
	r := controller.RequestFor(obj)
	c.queue.Enqueue(controller.Request{Cluster: r.Cluster, Name: r.Namespace})
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	var informers sync.WaitGroup
	defer informers.Wait()
	informers.Go(func() { c.broken.Run(ctx) })
	for _, wait := range []func(context.Context) error{
		c.namespaces.WaitForSync, c.accounts.WaitForSync, c.configMaps.WaitForSync, c.broken.WaitForSync,
	} {
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
	rootCA := controller.Request{Cluster: key.Cluster, Namespace: key.Name, Name: rootCAName}
	if _, ok := c.configMaps.Get(rootCA); !ok {
		failures = append(failures, createRootCA(ctx, c.Kube, c.RootCA, key.Name))
	}
	if _, ok := c.broken.Get(rootCA); ok {
		failures = append(failures, c.repair(ctx, key.Name))
	}
	return controller.Result{}, errors.Join(failures...)
}

// repair gives a root CA the content that it should have.
func (c *Controller) repair(ctx context.Context, namespace string) error {
	client := c.Kube.CoreV1().ConfigMaps(namespace)
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
