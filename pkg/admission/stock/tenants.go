package stock

import (
	"context"
	"errors"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// Rules are the informers of what tenants rule with. Policies without bindings
// rule nothing.
type Rules struct {
	ValidatingBindings *controller.Informer[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]
	MutatingBindings   *controller.Informer[*admissionregistrationv1.MutatingAdmissionPolicyBinding]
	ValidatingWebhooks *controller.Informer[*admissionregistrationv1.ValidatingWebhookConfiguration]
	MutatingWebhooks   *controller.Informer[*admissionregistrationv1.MutatingWebhookConfiguration]
}

// Tenants are the plugins that run what tenants wrote.
type Tenants struct {
	ValidatingPolicies, MutatingPolicies admission.Interface
	ValidatingWebhooks, MutatingWebhooks admission.Interface

	all   []*lazy
	queue *controller.Controller[logicalcluster.Name]
}

// NewTenants makes the plugins; none has an instance yet.
func NewTenants(e *Environment, r Rules) (*Tenants, error) {
	if r.ValidatingBindings == nil || r.MutatingBindings == nil || r.ValidatingWebhooks == nil || r.MutatingWebhooks == nil {
		return nil, errors.New("stock admission needs informers of bindings and webhook configurations")
	}
	every := admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update)
	changes := admission.NewHandler(admission.Connect, admission.Create, admission.Update)
	vap := newLazy(e, r.ValidatingBindings, every, func(*setup) (admission.Interface, error) { return validating.NewPlugin(nil) })
	mutatingPolicies := newLazy(e, r.MutatingBindings, changes, func(s *setup) (admission.Interface, error) {
		if err := s.withSchemas(); err != nil {
			return nil, err
		}
		return mutating.NewPlugin(nil)
	})
	validatingWebhooks := newLazy(e, r.ValidatingWebhooks, every, func(s *setup) (admission.Interface, error) {
		p, err := validatingwebhook.NewValidatingAdmissionWebhook(nil)
		if err == nil {
			callers(s, p.Webhook)
		}
		return p, err
	})
	mutatingWebhooks := newLazy(e, r.MutatingWebhooks, every, func(s *setup) (admission.Interface, error) {
		p, err := mutatingwebhook.NewMutatingWebhook(nil)
		if err == nil {
			callers(s, p.Webhook)
		}
		return p, err
	})
	t := &Tenants{
		ValidatingPolicies: &evaluating{vap}, MutatingPolicies: &evaluating{mutatingPolicies},
		ValidatingWebhooks: &matching{validatingWebhooks, conditions(r.ValidatingWebhooks, func(w *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
			return slices.ContainsFunc(w.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return len(w.MatchConditions) > 0 })
		})},
		MutatingWebhooks: &matching{mutatingWebhooks, conditions(r.MutatingWebhooks, func(w *admissionregistrationv1.MutatingWebhookConfiguration) bool {
			return slices.ContainsFunc(w.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return len(w.MatchConditions) > 0 })
		})},
		all: []*lazy{vap, mutatingPolicies, validatingWebhooks, mutatingWebhooks},
	}
	t.queue = controller.New("admission-rules", 1, t.reconcile)
	subscribe(t.queue, r.ValidatingBindings)
	subscribe(t.queue, r.MutatingBindings)
	subscribe(t.queue, r.ValidatingWebhooks)
	subscribe(t.queue, r.MutatingWebhooks)
	return t, nil
}

// conditions says which logical clusters have an object of which has is true.
func conditions[T controller.Object](i *controller.Informer[T], has func(T) bool) func(logicalcluster.Name) bool {
	return func(c logicalcluster.Name) bool { return slices.ContainsFunc(i.ListCluster(c), has) }
}

// subscribe looks at a logical cluster when its rules come and go.
func subscribe[T controller.Object](q *controller.Controller[logicalcluster.Name], i *controller.Informer[T]) {
	var none T
	i.Handle(func(old, next T) {
		switch {
		case any(old) == any(none):
			q.Enqueue(logicalcluster.From(next))
		case any(next) == any(none):
			q.Enqueue(logicalcluster.From(old))
		}
	})
}

// Run keeps instances where there are rules, until ctx ends.
func (t *Tenants) Run(ctx context.Context) {
	t.queue.Run(ctx)
	for _, l := range t.all {
		l.close()
	}
}

func (t *Tenants) reconcile(_ context.Context, c logicalcluster.Name) (controller.Result, error) {
	var errs []error
	for _, l := range t.all {
		errs = append(errs, l.reconcile(c))
	}
	return controller.Result{}, errors.Join(errs...)
}

// webhook is what both kinds of webhook plugins embed.
type webhook interface {
	SetAuthenticationInfoResolverWrapper(webhookutil.AuthenticationInfoResolverWrapper)
	SetServiceResolver(webhookutil.ServiceResolver)
}

// callers says how webhooks are called: without credentials, at addresses that
// mean something to the server and that a tenant may have it call.
func callers(s *setup, w webhook) {
	services := egress.Services{Kube: s.kube, Cluster: s.cluster}
	w.SetServiceResolver(services)
	w.SetAuthenticationInfoResolverWrapper(s.environment.config.Egress.AdmissionWebhooks(services))
}
