package admissionpolicies

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Config is what the controller needs.
type Config struct {
	// Kube acts in the logical cluster of the context.
	Kube     kubernetes.Interface
	Policies *controller.Informer[*admissionregistrationv1.ValidatingAdmissionPolicy]
	// Loopback is not scoped: schemas are read from one logical cluster.
	Loopback *rest.Config
	// Mapper knows the kinds of a logical cluster.
	Mapper func(context.Context, logicalcluster.Name) (meta.RESTMapper, error)
}

// Controller checks policies.
type Controller struct {
	Config
	queue *controller.Controller[controller.Request]
}

// New makes the controller.
func New(config Config) *Controller {
	c := &Controller{Config: config}
	c.queue = controller.New("admissionpolicies", 1, c.reconcile)
	config.Policies.Handle(func(_, policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
		if policy != nil && !checked(policy) {
			c.queue.Enqueue(controller.RequestFor(policy))
		}
	})
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) { c.queue.Run(ctx) }

func checked(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return p.Generation <= p.Status.ObservedGeneration
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	policy, ok := c.Policies.Get(key)
	if !ok || checked(policy) {
		return controller.Result{}, nil
	}
	warnings, err := c.check(ctx, key.Cluster, policy)
	if err != nil {
		return controller.Result{}, fmt.Errorf("checking the types: %w", err)
	}
	changed := policy.DeepCopy()
	changed.Status.ObservedGeneration = policy.Generation
	changed.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: warnings}
	_, err = c.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	return controller.Result{}, nil
}

func (c *Controller) check(ctx context.Context, cluster logicalcluster.Name, p *admissionregistrationv1.ValidatingAdmissionPolicy) ([]admissionregistrationv1.ExpressionWarning, error) {
	mapper, err := c.Mapper(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("finding the kinds: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(scope.PinnedConfig(c.Loopback, scope.Scope{Cluster: cluster}))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	checker := &validating.TypeChecker{SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: client}, RestMapper: mapper}
	return checker.Check(p), nil
}
