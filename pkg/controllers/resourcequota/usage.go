package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/atoll-dev/atoll/pkg/controller"
)

const countPrefix = "count/"

var (
	pods     = corev1.SchemeGroupVersion.WithResource("pods")
	services = corev1.SchemeGroupVersion.WithResource("services")
	claims   = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

// measured reports whether an object of a resource uses more than its number,
// which may change with the object.
func measured(gvr schema.GroupVersionResource) bool {
	return gvr == pods || gvr == services || gvr == claims
}

func ignored(gr schema.GroupResource) bool {
	_, ok := install.DefaultIgnoredResources()[gr]
	return ok
}

// enabled says which evaluators core has: those that need no objects besides
// their own.
func enabled(gvr schema.GroupVersionResource) bool { return gvr.Group == "" }

// names are the evaluators without lists: they know which names a resource has in
// quotas.
var names = func() quotav1.Registry {
	evaluators, err := core.NewEvaluators(nil, nil, enabled)
	if err != nil {
		panic(fmt.Sprintf("evaluators that read nothing: %v", err))
	}
	return generic.NewRegistry(evaluators)
}()

// tracks reports whether a quota is about a resource.
func tracks(quota *corev1.ResourceQuota, gr schema.GroupResource) bool {
	if e := names.Get(gr); e != nil {
		return len(e.MatchingResources(quotav1.ResourceNames(quota.Spec.Hard))) > 0
	}
	_, ok := quota.Spec.Hard[generic.ObjectCountQuotaResourceNameFor(gr)]
	return ok
}

// count is what the objects of the quota's namespace use of what the quota
// limits. What nobody can count is left out: admission refuses it.
func (c *Controller) count(ctx context.Context, quota *corev1.ResourceQuota) (corev1.ResourceList, error) {
	evaluators, err := core.NewEvaluators(func(gvr schema.GroupVersionResource) (cache.GenericLister, error) {
		return lister{func(namespace string) ([]runtime.Object, error) { return c.list(ctx, quota, gvr, namespace) }}, nil
	}, nil, enabled)
	if err != nil {
		return nil, fmt.Errorf("making the evaluators: %w", err)
	}
	registry := generic.NewRegistry(evaluators)
	for name := range quota.Spec.Hard {
		gr, counted := strings.CutPrefix(string(name), countPrefix)
		if !counted {
			continue
		}
		resource := schema.ParseGroupResource(gr)
		informer := c.Metadata.ForResource(resource)
		if informer == nil || ignored(resource) || registry.Get(resource) != nil {
			continue
		}
		registry.Add(generic.NewObjectCountEvaluator(resource, func(namespace string) ([]runtime.Object, error) {
			return known(informer, logicalcluster.From(quota), namespace)
		}, ""))
	}
	used, err := quotav1.CalculateUsage(quota.Namespace, quota.Spec.Scopes, quota.Spec.Hard, registry, quota.Spec.ScopeSelector)
	if err != nil {
		return nil, err
	}
	return quotav1.Mask(used, quotav1.ResourceNames(quota.Spec.Hard)), nil
}

// list are the objects of a resource in the quota's namespace: whole ones from
// the watch cache if their content matters, else their metadata.
func (c *Controller) list(ctx context.Context, quota *corev1.ResourceQuota, gvr schema.GroupVersionResource, namespace string) ([]runtime.Object, error) {
	cached := metav1.ListOptions{ResourceVersion: "0"}
	var list runtime.Object
	var err error
	switch gvr {
	case pods:
		list, err = c.Kube.CoreV1().Pods(namespace).List(ctx, cached)
	case services:
		list, err = c.Kube.CoreV1().Services(namespace).List(ctx, cached)
	case claims:
		list, err = c.Kube.CoreV1().PersistentVolumeClaims(namespace).List(ctx, cached)
	default:
		informer := c.Metadata.For(gvr)
		if informer == nil {
			return nil, fmt.Errorf("%s is not served", gvr.GroupResource())
		}
		return known(informer, logicalcluster.From(quota), namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", gvr.Resource, err)
	}
	return meta.ExtractList(list)
}

func known(informer *controller.Informer[*metav1.PartialObjectMetadata], cluster logicalcluster.Name, namespace string) ([]runtime.Object, error) {
	if !informer.HasSynced() {
		return nil, fmt.Errorf("the list of %s is not in yet", informer.Name())
	}
	var objs []runtime.Object
	for _, obj := range informer.ListNamespace(cluster, namespace) {
		objs = append(objs, obj)
	}
	return objs, nil
}

// lister is what evaluators list with: everything in a namespace.
type lister struct {
	list func(namespace string) ([]runtime.Object, error)
}

var errUnused = errors.New("evaluators list namespaces only")

func (l lister) List(labels.Selector) ([]runtime.Object, error) { return nil, errUnused }
func (l lister) Get(string) (runtime.Object, error)             { return nil, errUnused }
func (l lister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return namespaceLister{l, namespace}
}

type namespaceLister struct {
	lister
	namespace string
}

func (l namespaceLister) List(labels.Selector) ([]runtime.Object, error) { return l.list(l.namespace) }
