package controller

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// contentKey names the objects of a kind in a namespace.
type contentKey struct {
	resource  string
	namespace controller.Request
}

// content is what a list had, with the versions of all in it.
type content struct {
	versions string
	objects  []*unstructured.Unstructured
}

// remembered are the objects of a kind in the namespace of a unit, as the watch caches have
// them. They are asked for when the informer knows that they are others than those that were
// read last: who looks at what moves looks often, and little changes in between. Who gets them
// must not change them.
func (c *Controller) remembered(ctx context.Context, kind workload.Kind, u *unit) ([]*unstructured.Unstructured, error) {
	now, known := c.versionsOf(kind, u)
	if !known || !c.moves.in(u.key) {
		return c.listOf(ctx, kind, u, cached)
	}
	key := contentKey{kind.GroupVersionResource().String(), controller.Request{Cluster: u.key.Cluster, Namespace: u.key.Namespace}}
	if has, ok := c.contents.Get(key); ok && has.(content).versions == now {
		return has.(content).objects, nil
	}
	list, err := c.listOf(ctx, kind, u, cached)
	if err != nil {
		return nil, err
	}
	c.contents.Add(key, content{versions(list), list}, rememberedFor)
	return list, nil
}

// versionsOf says which objects of which versions an informer knows; known is false if there is
// none.
func (c *Controller) versionsOf(kind workload.Kind, u *unit) (_ string, known bool) {
	if kind.Role == workload.Container {
		return string(u.namespace.UID) + " " + u.namespace.ResourceVersion, true
	}
	informer := placed.Of(c.Objects, kind)
	if informer == nil {
		return "", false
	}
	places := workload.Places(c.Kinds, u.key.Cluster, kind)
	var all []string
	for _, o := range informer.ListNamespace(u.key.Cluster, u.key.Namespace) {
		if places || stamp.HasTargets(o) {
			all = append(all, string(o.UID)+" "+o.ResourceVersion)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), true
}

func versions(list []*unstructured.Unstructured) string {
	all := make([]string, 0, len(list))
	for _, o := range list {
		all = append(all, string(o.GetUID())+" "+o.GetResourceVersion())
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
