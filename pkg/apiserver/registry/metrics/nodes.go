package metrics

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/core"
	metricsapi "k8s.io/metrics/pkg/apis/metrics"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// Nodes serves what is used of the physical clusters, which are the Nodes of a logical
// cluster: by its own pods; in root, which has none, by all.
type Nodes struct {
	rest.TableConvertor
	Config
}

var (
	_ rest.Storage              = &Nodes{}
	_ rest.Scoper               = &Nodes{}
	_ rest.Getter               = &Nodes{}
	_ rest.Lister               = &Nodes{}
	_ rest.SingularNameProvider = &Nodes{}
)

// New implements rest.Storage.
func (*Nodes) New() runtime.Object { return &metricsapi.NodeMetrics{} }

// NewList implements rest.Lister.
func (*Nodes) NewList() runtime.Object { return &metricsapi.NodeMetricsList{} }

// Destroy implements rest.Storage.
func (*Nodes) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*Nodes) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider; upstream's has none.
func (*Nodes) GetSingularName() string { return "" }

// List implements rest.Lister. Selectors are about the Nodes.
func (n *Nodes) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	if _, err := clusterOf(ctx); err != nil {
		return nil, err
	}
	wide := &internalversion.ListOptions{ResourceVersion: cached.ResourceVersion}
	if options != nil {
		wide.LabelSelector, wide.FieldSelector = options.LabelSelector, options.FieldSelector
	}
	obj, err := n.Config.Nodes.List(ctx, wide)
	if err != nil {
		return nil, err
	}
	nodes, ok := obj.(*api.NodeList)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a list of nodes is a %T", obj))
	}
	list := &metricsapi.NodeMetricsList{Items: []metricsapi.NodeMetrics{}}
	found, missing, err := n.of(ctx, nodes.Items)
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		if m, ok := found[nodes.Items[i].Name]; ok {
			list.Items = append(list.Items, metricsOf(&nodes.Items[i], m))
		}
	}
	missing.warn(ctx)
	return list, nil
}

// Get implements rest.Getter.
func (n *Nodes) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if _, err := clusterOf(ctx); err != nil {
		return nil, err
	}
	obj, err := n.Config.Nodes.Get(ctx, name, cached)
	if err != nil {
		return nil, err
	}
	node, ok := obj.(*api.Node)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no node", obj))
	}
	found, missing, err := n.of(ctx, []api.Node{*node})
	if err != nil {
		return nil, err
	}
	if m, ok := found[name]; ok {
		out := metricsOf(node, m)
		return &out, nil
	}
	return nil, missing[name]
}

// of finds what is used of nodes:
//
//	in root    what all nodes of the physical cluster use together
//	elsewhere  what the pods of the logical cluster use there, which is nothing if it
//	           has none there
//
// One of which a part is missing has no figure.
func (n *Nodes) of(ctx context.Context, nodes []api.Node) (map[string]total, silent, error) {
	found, missing := map[string]total{}, silent{}
	if cluster, err := clusterOf(ctx); err != nil {
		return nil, nil, err
	} else if cluster == scope.Root {
		n.whole(ctx, nodes, found, missing)
		return found, missing, nil
	}
	all, err := n.pods(request.WithNamespace(ctx, ""), nil)
	if err != nil {
		return nil, nil, err
	}
	answered, absent, err := n.ask(ctx, all)
	if err != nil {
		return nil, nil, err
	}
	for i := range nodes {
		name := nodes[i].Name
		if err := absent[name]; err != nil {
			missing[name] = err
			continue
		}
		var t total
		for _, pod := range answered[name] {
			for _, c := range pod.Containers {
				t.add(c.Usage, pod.Timestamp, pod.Window)
			}
		}
		if t.usage == nil {
			t = total{usage: none(), timestamp: metav1.Now()}
		}
		found[name] = t
	}
	return found, missing, nil
}

// whole asks for what all of nodes use, a few at a time.
func (n *Nodes) whole(ctx context.Context, nodes []api.Node, found map[string]total, missing silent) {
	type said struct {
		name string
		total
		err error
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers, places := make(chan said), make(chan struct{}, atATime)
	for i := range nodes {
		go func() { // ends with its answer, which is waited for
			places <- struct{}{}
			t, err := n.askNode(ctx, nodes[i].Name)
			<-places
			answers <- said{nodes[i].Name, t, err}
		}()
	}
	for range nodes {
		if a := <-answers; a.err != nil {
			missing[a.name] = a.err
		} else {
			found[a.name] = a.total
		}
	}
}

func metricsOf(node *api.Node, t total) metricsapi.NodeMetrics {
	return metricsapi.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, CreationTimestamp: t.timestamp},
		Timestamp:  t.timestamp, Window: t.window, Usage: t.usage,
	}
}
