package controller

import (
	"context"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// maxRemembered bounds the lists that are remembered, rememberedFor how long.
	maxRemembered = 1024
	rememberedFor = 5 * time.Minute
)

// contentKey names the objects of a resource in a namespace.
type contentKey struct {
	resource  schema.GroupVersionResource
	namespace controller.Request
}

// content is what was made of a list, with the versions of all in it.
type content struct {
	versions string
	made     any
}

// remember is what read makes of a list of the watch caches of a resource in the namespace of a unit. It reads when
// the informer knows other objects, now, than those that were read last: who looks at what moves looks often, and
// little changes in between. Who gets it must not change it.
func remember[T any](c *Controller, u *unit, resource schema.GroupVersionResource, now []string, read func() (made T, versions []string, err error)) (T, error) {
	if now == nil || !c.moves.in(u.key) {
		made, _, err := read()
		return made, err
	}
	key, known := contentKey{resource, controller.Request{Cluster: u.key.Cluster, Namespace: u.key.Namespace}}, joined(now)
	if has, ok := c.contents.Get(key); ok && has.(content).versions == known {
		return has.(content).made.(T), nil
	}
	made, versions, err := read()
	if err == nil {
		c.contents.Add(key, content{joined(versions), made}, rememberedFor)
	}
	return made, err
}

// joined are versions in one text, whatever their order.
func joined(versions []string) string {
	slices.Sort(versions)
	return strings.Join(versions, "\n")
}

// version tells an object from what it was before, and from others.
func version(o metav1.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

// remembered are the objects of a kind in the namespace of a unit, as the watch caches have them.
func (c *Controller) remembered(ctx context.Context, kind workload.Kind, u *unit) ([]*unstructured.Unstructured, error) {
	return remember(c, u, kind.GroupVersionResource(), c.versionsOf(kind, u), func() ([]*unstructured.Unstructured, []string, error) {
		list, err := c.listOf(ctx, kind, u, cached)
		versions := make([]string, 0, len(list))
		for _, o := range list {
			versions = append(versions, version(o))
		}
		return list, versions, err
	})
}

// versionsOf says which objects of which versions an informer knows; nil if there is none.
func (c *Controller) versionsOf(kind workload.Kind, u *unit) []string {
	if kind.Role == workload.Container {
		return []string{version(u.namespace)}
	}
	informer := placed.Of(c.Objects, kind)
	if informer == nil {
		return nil
	}
	places := workload.Places(c.Kinds, u.key.Cluster, kind)
	all := []string{}
	for _, o := range informer.ListNamespace(u.key.Cluster, u.key.Namespace) {
		if places || stamp.HasTargets(o) {
			all = append(all, version(o))
		}
	}
	return all
}

var endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")

// rememberedEndpoints are the ready endpoints, as the watch caches have them.
func (c *Controller) rememberedEndpoints(ctx context.Context, u *unit) (map[string]map[string]int, error) {
	var now []string
	if informer := c.Objects.For(endpointSlices); informer != nil {
		now = []string{}
		for _, o := range informer.ListNamespace(u.key.Cluster, u.key.Namespace) {
			now = append(now, version(o))
		}
	}
	return remember(c, u, endpointSlices, now, func() (map[string]map[string]int, []string, error) {
		return c.readEndpoints(ctx, u, cached)
	})
}
