package metrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/core"
	metricsapi "k8s.io/metrics/pkg/apis/metrics"
)

// Pods serves what pods use.
type Pods struct {
	rest.TableConvertor
	Config
}

var (
	_ rest.Storage              = &Pods{}
	_ rest.Scoper               = &Pods{}
	_ rest.Getter               = &Pods{}
	_ rest.Lister               = &Pods{}
	_ rest.SingularNameProvider = &Pods{}
)

// New implements rest.Storage.
func (*Pods) New() runtime.Object { return &metricsapi.PodMetrics{} }

// NewList implements rest.Lister.
func (*Pods) NewList() runtime.Object { return &metricsapi.PodMetricsList{} }

// Destroy implements rest.Storage.
func (*Pods) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*Pods) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider; upstream's has none.
func (*Pods) GetSingularName() string { return "" }

// List implements rest.Lister. Selectors are about the pods.
func (p *Pods) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	all, err := p.pods(ctx, options)
	if err != nil {
		return nil, err
	}
	answered, missing, err := p.ask(ctx, all)
	if err != nil {
		return nil, err
	}
	list := &metricsapi.PodMetricsList{Items: []metricsapi.PodMetrics{}}
	for _, said := range answered {
		list.Items = append(list.Items, said...)
	}
	slices.SortFunc(list.Items, func(a, b metricsapi.PodMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	missing.warn(ctx)
	return list, nil
}

// pods are those that are selected. Pages are not served, as upstream.
func (c Config) pods(ctx context.Context, options *internalversion.ListOptions) ([]api.Pod, error) {
	if _, err := clusterOf(ctx); err != nil {
		return nil, err
	}
	wide := &internalversion.ListOptions{ResourceVersion: cached.ResourceVersion}
	if options != nil {
		wide.LabelSelector, wide.FieldSelector = options.LabelSelector, options.FieldSelector
	}
	obj, err := c.Pods.List(ctx, wide)
	if err != nil {
		return nil, err
	}
	list, ok := obj.(*api.PodList)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a list of pods is a %T", obj))
	}
	return list.Items, nil
}

// Get implements rest.Getter.
func (p *Pods) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if _, err := clusterOf(ctx); err != nil {
		return nil, err
	}
	obj, err := p.Config.Pods.Get(ctx, name, cached)
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*api.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no pod", obj))
	}
	answered, missing, err := p.ask(ctx, []api.Pod{*pod})
	if err != nil {
		return nil, err
	}
	for _, said := range answered {
		for i := range said {
			return &said[i], nil
		}
	}
	for _, err := range missing {
		return nil, err
	}
	return nil, apierrors.NewNotFound(metricsapi.Resource("podmetrics"), pod.Namespace+"/"+name)
}
