package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/utils/clock"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// noneTTL is how long it is remembered that a namespace has no LimitRange.
	noneTTL = 30 * time.Second
	maxLive = 10000
)

// Config is what the plugin works with.
type Config struct {
	// Kube takes the logical cluster from the context.
	Kube   kubernetes.Interface
	Limits *controller.Informer[*corev1.LimitRange]
	// Clock is the real one by default.
	Clock clock.PassiveClock
}

// New makes the plugin.
func New(c Config) admission.Interface {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return &plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update),
		actions: &limitranger.DefaultLimitRangerActions{},
		kube:    c.Kube, limits: c.Limits,
		none: utilcache.NewLRUExpireCacheWithClock(maxLive, c.Clock),
	}
}

type plugin struct {
	*admission.Handler
	actions limitranger.LimitRangerActions
	kube    kubernetes.Interface
	limits  *controller.Informer[*corev1.LimitRange]
	// none are the namespaces that had no LimitRange lately.
	none *utilcache.LRUExpireCache
}

type namespace struct {
	cluster logicalcluster.Name
	name    string
}

var (
	_ admission.MutationInterface   = &plugin{}
	_ admission.ValidationInterface = &plugin{}
)

// Admit implements admission.MutationInterface.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.each(ctx, a, func(l *corev1.LimitRange) error {
		return p.actions.MutateLimit(l, a.GetResource().Resource, a.GetObject())
	})
}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.each(ctx, a, func(l *corev1.LimitRange) error {
		return p.actions.ValidateLimit(l, a.GetResource().Resource, a.GetObject())
	})
}

func (p *plugin) each(ctx context.Context, a admission.Attributes, f func(*corev1.LimitRange) error) error {
	if !limited(a) || !p.actions.SupportsAttributes(a) || leaving(a) {
		return nil
	}
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return admission.NewForbidden(a, scope.ErrNoCluster)
	}
	ranges, err := p.of(ctx, namespace{c, a.GetNamespace()})
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	for _, l := range ranges {
		if !p.actions.SupportsLimit(l) {
			continue
		}
		if err := f(l); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

// limited are the objects that upstream's actions know limits for: nothing has to
// be read for others.
func limited(a admission.Attributes) bool {
	switch a.GetResource().GroupResource() {
	case corev1.Resource("pods"), corev1.Resource("persistentvolumeclaims"):
		return true
	}
	return false
}

func leaving(a admission.Attributes) bool {
	old := a.GetOldObject()
	if old == nil {
		return false
	}
	m, err := meta.Accessor(old)
	return err == nil && m.GetDeletionTimestamp() != nil
}

// of lists the LimitRanges of a namespace. One that was made a moment ago may
// not be in the informer, so an empty answer is checked.
func (p *plugin) of(ctx context.Context, n namespace) ([]*corev1.LimitRange, error) {
	if ranges := p.limits.ListNamespace(n.cluster, n.name); len(ranges) > 0 {
		return ranges, nil
	}
	if _, ok := p.none.Get(n); ok {
		return nil, nil
	}
	list, err := p.kube.CoreV1().LimitRanges(n.name).List(scope.With(ctx, scope.Scope{Cluster: n.cluster}), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the limit ranges of namespace %s: %w", n.name, err)
	}
	if len(list.Items) == 0 {
		p.none.Add(n, true, noneTTL)
		return nil, nil
	}
	ranges := make([]*corev1.LimitRange, 0, len(list.Items))
	for i := range list.Items {
		ranges = append(ranges, &list.Items[i])
	}
	return ranges, nil
}
