package simulation

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// ordered is the client of what empties namespaces. The stock deleter goes over the
// resources in the order of a map; here it meets the same results in the same order
// each time: at its first question about anything but pods, all are asked.
type ordered struct {
	metadata.Interface
	lists  []*metav1.APIResourceList
	mu     sync.Mutex
	passes map[context.Context]*emptying
}

// emptying is one pass over a namespace.
type emptying struct {
	made  map[schema.GroupVersionResource]bool // makers that were asked for
	asked bool
	gone  map[schema.GroupVersionResource]error
	left  map[schema.GroupVersionResource]listed
}

type listed struct {
	list *metav1.PartialObjectMetadataList
	err  error
}

func newOrdered(c metadata.Interface, lists []*metav1.APIResourceList) *ordered {
	return &ordered{Interface: c, lists: lists, passes: map[context.Context]*emptying{}}
}

// Resource implements metadata.Interface.
func (o *ordered) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return orderedGetter{o.Interface.Resource(gvr), o, gvr}
}

type orderedGetter struct {
	metadata.Getter
	client *ordered
	gvr    schema.GroupVersionResource
}

// Namespace implements metadata.Getter.
func (g orderedGetter) Namespace(name string) metadata.ResourceInterface {
	return orderedResource{g.Getter.Namespace(name), g.client, g.gvr, name}
}

type orderedResource struct {
	metadata.ResourceInterface
	client    *ordered
	gvr       schema.GroupVersionResource
	namespace string
}

func (o *ordered) pass(ctx context.Context) *emptying {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.passes[ctx]
	if p == nil {
		p = &emptying{made: map[schema.GroupVersionResource]bool{}, gone: map[schema.GroupVersionResource]error{}, left: map[schema.GroupVersionResource]listed{}}
		o.passes[ctx] = p
	}
	return p
}

var podsGVR = corev1.SchemeGroupVersion.WithResource("pods")

// DeleteCollection implements metadata.ResourceInterface. The first call of a pass
// about what makes pods is our own.
func (r orderedResource) DeleteCollection(ctx context.Context, d metav1.DeleteOptions, l metav1.ListOptions) error {
	p := r.client.pass(ctx)
	own := makers[r.gvr] && !p.made[r.gvr]
	p.made[r.gvr] = true
	if own || r.gvr == podsGVR {
		return r.ResourceInterface.DeleteCollection(ctx, d, l)
	}
	if !p.asked {
		p.asked = true
		for _, list := range r.client.lists {
			for _, res := range list.APIResources {
				gvr := schema.GroupVersionResource{Group: res.Group, Version: res.Version, Resource: res.Name}
				if gvr == podsGVR || resources[gvr].typed != nil { // our records are not content
					continue
				}
				client := r.client.Interface.Resource(gvr).Namespace(r.namespace)
				p.gone[gvr] = client.DeleteCollection(ctx, d, l)
				left, err := client.List(ctx, metav1.ListOptions{})
				p.left[gvr] = listed{left, err}
			}
		}
	}
	return p.gone[r.gvr]
}

// List implements metadata.ResourceInterface.
func (r orderedResource) List(ctx context.Context, l metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if known, ok := r.client.pass(ctx).left[r.gvr]; ok {
		return known.list, known.err
	}
	return r.ResourceInterface.List(ctx, l)
}

// makers are the resources that make pods.
var makers = func() map[schema.GroupVersionResource]bool {
	out := map[schema.GroupVersionResource]bool{}
	for _, kind := range kinds.Kinds() {
		if len(kind.PodTemplate) > 0 && (resources[kind.GroupVersionResource()].physical || kind.GroupResource() == statefulSets) {
			out[kind.GroupVersionResource()] = true
		}
	}
	return out
}()
