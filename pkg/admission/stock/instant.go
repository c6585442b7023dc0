package stock

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	certapproval "k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest"
	certsigning "k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	certsubjectrestriction "k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	podpriority "k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Informers of these types must be among the Viewers for the instant plugins.
var _ = []controller.Viewer{
	(*controller.Informer[*corev1.ServiceAccount])(nil), (*controller.Informer[*schedulingv1.PriorityClass])(nil),
	(*controller.Informer[*storagev1.StorageClass])(nil), (*controller.Informer[*nodev1.RuntimeClass])(nil),
	(*controller.Informer[*networkingv1.IngressClass])(nil),
}

// concern are the resources that an instant plugin looks at.
var concern = map[string][]schema.GroupResource{
	serviceaccount.PluginName:      {corev1.Resource("pods")},
	podpriority.PluginName:         {corev1.Resource("pods"), schedulingv1.Resource("priorityclasses")},
	runtimeclass.PluginName:        {corev1.Resource("pods")},
	resize.PluginName:              {corev1.Resource("persistentvolumeclaims")},
	defaultingressclass.PluginName: {networkingv1.Resource("ingresses")},
}

// registry makes instances of plugins by name.
func registry() *admission.Plugins {
	r := admission.NewPlugins()
	for _, register := range []func(*admission.Plugins){
		serviceaccount.Register, nodetaint.Register, podpriority.Register, defaulttolerationseconds.Register,
		resize.Register, runtimeclass.Register, certapproval.Register, certsigning.Register,
		ctbattest.Register, certsubjectrestriction.Register, defaultingressclass.Register,
	} {
		register(r)
	}
	return r
}

// Plugins makes the plugins of these names, shared or instant.
func (e *Environment) Plugins(names ...string) (map[string]admission.Interface, error) {
	r := registry()
	out := make(map[string]admission.Interface, len(names))
	for _, name := range names {
		resources, reads := concern[name]
		if !reads {
			p, err := r.InitPlugin(name, nil, setup{environment: e})
			if err != nil {
				return nil, err
			}
			out[name] = p
			continue
		}
		// One instance answers Handles; it belongs to no logical cluster.
		probe, err := r.InitPlugin(name, nil, e.brief(""))
		if err != nil {
			return nil, err
		}
		out[name] = &instant{environment: e, registry: r, name: name, resources: resources, probe: probe}
	}
	return out, nil
}

// instant is a plugin that is made for each request that concerns it.
type instant struct {
	environment *Environment
	registry    *admission.Plugins
	name        string
	resources   []schema.GroupResource
	probe       admission.Interface
}

var (
	_ admission.MutationInterface   = &instant{}
	_ admission.ValidationInterface = &instant{}
)

// Handles implements admission.Interface.
func (i *instant) Handles(o admission.Operation) bool { return i.probe.Handles(o) }

// Admit implements admission.MutationInterface.
func (i *instant) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if _, mutates := i.probe.(admission.MutationInterface); !mutates || !i.concerns(a) {
		return nil
	}
	p, err := i.make(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	return p.(admission.MutationInterface).Admit(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (i *instant) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if _, validates := i.probe.(admission.ValidationInterface); !validates || !i.concerns(a) {
		return nil
	}
	p, err := i.make(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	return p.(admission.ValidationInterface).Validate(ctx, a, o)
}

func (i *instant) concerns(a admission.Attributes) bool {
	for _, r := range i.resources {
		if r == a.GetResource().GroupResource() {
			return true
		}
	}
	return false
}

func (i *instant) make(ctx context.Context) (admission.Interface, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok || c == scope.Wildcard {
		return nil, scope.ErrNoCluster
	}
	p, err := i.registry.InitPlugin(i.name, nil, i.environment.brief(c))
	if err != nil {
		return nil, fmt.Errorf("making plugin %s: %w", i.name, err)
	}
	return p, nil
}
