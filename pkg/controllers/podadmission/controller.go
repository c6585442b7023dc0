package podadmission

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Rules are those about pods of a logical cluster.
type Rules interface {
	// In says whether one of them may say something about pods in a namespace with labels.
	In(labels map[string]string) bool
}

// Config is what the controller needs.
type Config struct {
	// Metadata acts in the logical cluster of the context.
	Metadata   metadata.Interface
	Namespaces *controller.Informer[*corev1.Namespace]
	// Rules of a logical cluster, which are made of the informers below.
	Rules func(logicalcluster.Name) Rules

	MutatingWebhooks   *controller.Informer[*admissionregistrationv1.MutatingWebhookConfiguration]
	ValidatingWebhooks *controller.Informer[*admissionregistrationv1.ValidatingWebhookConfiguration]
	MutatingPolicies   *controller.Informer[*admissionregistrationv1.MutatingAdmissionPolicy]
	MutatingBindings   *controller.Informer[*admissionregistrationv1.MutatingAdmissionPolicyBinding]
	ValidatingPolicies *controller.Informer[*admissionregistrationv1.ValidatingAdmissionPolicy]
	ValidatingBindings *controller.Informer[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]
}

// Controller keeps the notes.
type Controller struct {
	Config
	queue *controller.Controller[controller.Request]
}

// New makes the controller.
func New(config Config) *Controller {
	c := &Controller{Config: config}
	c.queue = controller.New("podadmission", 2, c.reconcile)
	config.Namespaces.Handle(func(_, namespace *corev1.Namespace) {
		if namespace != nil {
			c.queue.Enqueue(controller.RequestFor(namespace))
		}
	})
	follow(c, config.MutatingWebhooks)
	follow(c, config.ValidatingWebhooks)
	follow(c, config.MutatingPolicies)
	follow(c, config.MutatingBindings)
	follow(c, config.ValidatingPolicies)
	follow(c, config.ValidatingBindings)
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

// follow looks at the Namespaces of a logical cluster when one of its rules changes.
func follow[T controller.Object](c *Controller, rules *controller.Informer[T]) {
	var none T
	rules.Handle(func(old, next T) {
		if any(next) == any(none) {
			next = old
		}
		for _, namespace := range c.Namespaces.ListCluster(logicalcluster.From(next)) {
			c.queue.Enqueue(controller.RequestFor(namespace))
		}
	})
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	namespace, ok := c.Namespaces.Get(key)
	if !ok || key.Cluster == scope.Root || namespace.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	does := c.Rules(key.Cluster).In(namespace.Labels)
	patch := stamp.Restamp(namespace, func(o metav1.Object) { stamp.AdmitsPods(o, does) })
	if patch == nil {
		return controller.Result{}, nil
	}
	_, err := c.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("noting whether pods are admitted: %w", err)
	}
	return controller.Result{}, nil
}
