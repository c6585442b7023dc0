package namespaces

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// verifiers is how many resources are listed at a time before a namespace goes.
const verifiers = 8

// vacant are the resources of which a namespace has no object, as far as informers
// know: a pass leaves them alone, since a namespace uses a few of all resources,
// and a request for each costs more than everything else. Before the namespace goes,
// each is asked for (verify). Pods are always asked for: while there are some, what
// they use must stay.
func (c *Controller) vacant(key controller.Request, resources map[schema.GroupVersionResource]bool) map[schema.GroupVersionResource]bool {
	out := map[schema.GroupVersionResource]bool{}
	for gvr := range resources {
		informer := c.Metadata.ForResource(gvr.GroupResource())
		if gvr != pods && informer != nil && informer.HasSynced() && !informer.HasNamespace(key.Cluster, key.Name) {
			out[gvr] = true
		}
	}
	return out
}

// empty says that informers know no object in a namespace, without the records of
// placement, which outlive it.
func (c *Controller) empty(key controller.Request) bool {
	for gvr, informer := range c.Metadata.All() {
		if !isRecord(gvr.GroupResource()) && informer.HasNamespace(key.Cluster, key.Name) {
			return false
		}
	}
	return true
}

// verify fails with errFound if a namespace has an object of one of the resources:
// each is asked for at the server.
func (c *Controller) verify(ctx context.Context, namespace string, resources map[schema.GroupVersionResource]bool) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(verifiers)
	for _, gvr := range slices.SortedFunc(maps.Keys(resources), byName) {
		g.Go(func() error {
			list, err := c.Client.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			switch {
			case absent(err):
				return nil
			case err != nil:
				return fmt.Errorf("listing %s: %w", gvr.GroupResource(), err)
			case len(list.Items) > 0:
				return errFound
			}
			return nil
		})
	}
	return g.Wait()
}
