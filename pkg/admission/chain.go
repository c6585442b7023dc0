package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/admission"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	certapproval "k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	certsigning "k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	certsubjectrestriction "k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	podpriority "k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"

	"github.com/atoll-dev/atoll/pkg/admission/limits"
	"github.com/atoll-dev/atoll/pkg/admission/podsecurity"
	"github.com/atoll-dev/atoll/pkg/admission/quota"
	"github.com/atoll-dev/atoll/pkg/admission/stock"
)

// Names that upstream gives to plugins that have packages of our own here.
const (
	podSecurityName         = "PodSecurity"
	defaultStorageClassName = "DefaultStorageClass"
)

// readyTimeout is how long a user's write waits for the informers, as upstream.
const readyTimeout = 10 * time.Second

// Chain is the whole admission of a request: see docs/admission.md for its order
// and reasons.
type Chain struct {
	own       *plugin
	informers Informers
	// awaited have to be in before a user's write is admitted.
	awaited []informer
	tenants *stock.Tenants
	// mutating and validating are for users' writes, in this order.
	mutating, validating []step
}

// step is one plugin of the chain.
type step struct {
	name string
	admission.Interface
}

var (
	_ admission.MutationInterface   = &Chain{}
	_ admission.ValidationInterface = &Chain{}
)

// New makes a chain of the control plane's own steps alone, which nobody has to run. Until the informers of config are
// in, users' writes are refused.
func New(config Config) (*Chain, error) {
	own, err := newPlugin(config)
	if err != nil {
		return nil, err
	}
	return &Chain{own: own, awaited: config.informers()}, nil
}

// NewChain makes the chain with the plugins of upstream. Its informers and rules are kept by Run; until then
// users' writes are refused.
func NewChain(config Config, i Informers, s stock.Config) (*Chain, error) {
	c, err := New(config)
	if err != nil {
		return nil, err
	}
	s.Viewers = i.viewers(config)
	environment, err := stock.NewEnvironment(s)
	if err != nil {
		return nil, err
	}
	c.follow(i)
	if c.tenants, err = stock.NewTenants(environment, stock.Rules{
		ValidatingBindings: i.ValidatingBindings, MutatingBindings: i.MutatingBindings,
		ValidatingWebhooks: i.ValidatingWebhooks, MutatingWebhooks: i.MutatingWebhooks,
	}); err != nil {
		return nil, err
	}
	plugins, err := c.plugins(config, environment)
	if err != nil {
		return nil, err
	}
	c.arrange(plugins)
	return c, nil
}

// follow has users' writes wait for informers, too.
func (c *Chain) follow(i Informers) {
	c.informers, c.awaited = i, slices.Concat(c.awaited, i.own(), []informer{i.ServiceAccounts})
}

// plugins by name.
func (c *Chain) plugins(config Config, e *stock.Environment) (map[string]admission.Interface, error) {
	plugins, err := e.Plugins(
		serviceaccount.PluginName, nodetaint.PluginName, podpriority.PluginName, defaulttolerationseconds.PluginName,
		resize.PluginName, runtimeclass.PluginName, certapproval.PluginName, certsigning.PluginName, ctbattest.PluginName,
		certsubjectrestriction.PluginName, defaultingressclass.PluginName)
	if err != nil {
		return nil, err
	}
	i := c.informers
	if plugins[podSecurityName], err = podsecurity.New(config.Kube, config.Namespaces); err != nil {
		return nil, fmt.Errorf("making plugin %s: %w", podSecurityName, err)
	}
	if plugins[resourcequota.PluginName], err = quota.New(config.Kube, i.Quotas); err != nil {
		return nil, fmt.Errorf("making plugin %s: %w", resourcequota.PluginName, err)
	}
	plugins[limitranger.PluginName] = limits.New(limits.Config{Kube: config.Kube, Limits: i.Limits, Clock: config.Clock})
	plugins[podpriority.PluginName] = stock.WithSystemPriorities(plugins[podpriority.PluginName], i.PriorityClasses)
	plugins[resize.PluginName] = stock.WithClassesBelow(plugins[resize.PluginName], i.StorageClasses)
	plugins[defaultStorageClassName] = stock.NewDefaultStorageClass(i.StorageClasses)
	plugins[mutatingpolicy.PluginName], plugins[validatingpolicy.PluginName] = c.tenants.MutatingPolicies, c.tenants.ValidatingPolicies
	plugins[mutatingwebhook.PluginName], plugins[validatingwebhook.PluginName] = c.tenants.MutatingWebhooks, c.tenants.ValidatingWebhooks
	return plugins, nil
}

// order is upstream's, of the plugins that we have.
var order = []string{
	limitranger.PluginName,
	serviceaccount.PluginName,
	nodetaint.PluginName,
	podSecurityName,
	podpriority.PluginName,
	defaulttolerationseconds.PluginName,
	defaultStorageClassName,
	resize.PluginName,
	runtimeclass.PluginName,
	certapproval.PluginName,
	certsigning.PluginName,
	ctbattest.PluginName,
	certsubjectrestriction.PluginName,
	defaultingressclass.PluginName,
	mutatingpolicy.PluginName,
	mutatingwebhook.PluginName,
	validatingpolicy.PluginName,
	validatingwebhook.PluginName,
	resourcequota.PluginName,
}

func (c *Chain) arrange(plugins map[string]admission.Interface) {
	for _, name := range order {
		s := step{name, admissionmetrics.WithControllerMetrics(plugins[name], name)}
		if _, ok := plugins[name].(admission.MutationInterface); ok {
			c.mutating = append(c.mutating, s)
		}
		if _, ok := plugins[name].(admission.ValidationInterface); ok {
			c.validating = append(c.validating, s)
		}
	}
}

// Handles implements admission.Interface.
func (c *Chain) Handles(admission.Operation) bool { return true }

// Admit implements admission.MutationInterface.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	r, err := c.own.request(ctx, a)
	if err != nil {
		return err
	}
	if c.own.Handles(a.GetOperation()) {
		if err := c.own.permit(ctx, r); err != nil {
			return err
		}
	}
	if r.groupResource() == podReviewsResource {
		return c.reviewPod(ctx, r)
	}
	if r.user() && !r.virtual() {
		if err := c.mutate(ctx, c.mutating, a, o); err != nil {
			return err
		}
	}
	if !c.own.Handles(a.GetOperation()) {
		return nil
	}
	if err := c.own.stamp(ctx, r); err != nil {
		return err
	}
	c.noteAdmitsPods(r)
	return nil
}

// mutate runs the plugins, and once more if a webhook or a policy that was
// called early wants to see what others did after it.
func (c *Chain) mutate(ctx context.Context, steps []step, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := c.ready(ctx); err != nil {
		return admission.NewForbidden(a, err)
	}
	if err := mutateOnce(ctx, steps, a, o); err != nil {
		return err
	}
	again := a.GetReinvocationContext()
	if !again.ShouldReinvoke() {
		return nil
	}
	again.SetIsReinvoke()
	return mutateOnce(ctx, steps, a, o)
}

func mutateOnce(ctx context.Context, steps []step, a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, s := range steps {
		if !s.Handles(a.GetOperation()) {
			continue
		}
		if err := s.Interface.(admission.MutationInterface).Admit(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}

// Validate implements admission.ValidationInterface. Our own check is first:
// what it refuses is charged to no quota and shown to no webhook.
func (c *Chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	r, err := c.own.request(ctx, a)
	if err != nil {
		return err
	}
	if r.groupResource() == podReviewsResource {
		return nil // is answered already, and nothing is stored
	}
	if c.own.Handles(a.GetOperation()) {
		if err := c.own.check(ctx, r); err != nil {
			return err
		}
	}
	if !r.user() || r.virtual() {
		return nil
	}
	if err := c.ready(ctx); err != nil {
		return admission.NewForbidden(a, err)
	}
	return validate(ctx, c.validating, a, o)
}

func validate(ctx context.Context, steps []step, a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, s := range steps {
		if !s.Handles(a.GetOperation()) {
			continue
		}
		if err := s.Interface.(admission.ValidationInterface).Validate(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}

// Informers are those that the chain runs, for others to use.
func (c *Chain) Informers() Informers { return c.informers }

// Run keeps the informers and the tenants' rules until ctx ends.
func (c *Chain) Run(ctx context.Context) { c.informers.run(ctx, c.tenants.Run) }

// WaitForSync returns when users' writes can be admitted.
func (c *Chain) WaitForSync(ctx context.Context) error {
	for _, informer := range c.awaited {
		if err := informer.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until all rules are known, and where everything is: a server that has just started answers users
// before its informers have anything, and skips no rule for that, nor takes a physical cluster, or what was decided,
// for something that there is not.
func (c *Chain) ready(ctx context.Context) error {
	if !slices.ContainsFunc(c.awaited, func(i informer) bool { return !i.HasSynced() }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := c.WaitForSync(ctx); err != nil {
		return errors.New("not yet ready to handle request")
	}
	return nil
}
