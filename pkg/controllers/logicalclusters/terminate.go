package logicalclusters

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// page bounds how many objects one request lists.
const page = 500

// terminate takes the next step of removing everything in a logical cluster.
func (c *Controller) terminate(ctx context.Context, lc *tenancyv1alpha1.LogicalCluster) (controller.Result, error) {
	name := logicalcluster.Name(lc.Name)
	if !slices.Contains(lc.Finalizers, ContentFinalizer) {
		return controller.Result{}, nil // what others hold
	}
	// The informer may know one that is gone and made again under its name.
	live, err := c.Client.TenancyV1alpha1().LogicalClusters().Get(ctx, lc.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (live.UID != lc.UID || live.DeletionTimestamp == nil) {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading: %w", err)
	}
	left, err := c.empty(within(ctx, name), name)
	if err != nil {
		return controller.Result{}, fmt.Errorf("removing content: %w", err)
	}
	if err := c.setStatus(ctx, live, terminating(left.String())); err != nil {
		return controller.Result{}, err
	}
	if !left.empty() {
		return controller.Result{RequeueAfter: recheckInterval}, nil
	}
	// Read again: the status that was just written changed its version.
	latest, err := c.Client.TenancyV1alpha1().LogicalClusters().Get(ctx, lc.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && latest.UID != lc.UID {
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("reading: %w", err)
	}
	rest := slices.DeleteFunc(slices.Clone(latest.Finalizers), func(f string) bool { return f == ContentFinalizer })
	if _, err := c.setFinalizers(ctx, latest, rest); err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, err
	}
	return controller.Result{}, nil
}

// empty deletes what can be deleted now and says what is left: first the
// namespaces with all that is in them, then objects without a namespace, then
// what may have been left behind by namespaces.
func (c *Controller) empty(ctx context.Context, name logicalcluster.Name) (remains, error) {
	left := newRemains()
	if err := c.deleteAll(ctx, resource{GroupVersionResource: namespaces}, left); err != nil {
		return left, err
	}
	if !left.empty() {
		c.count(name, left)
		return left, nil
	}
	lists, err := c.Discover(ctx, name)
	if err != nil {
		return left, fmt.Errorf("discovering resources: %w", err)
	}
	resources := deletable(lists)
	if len(resources) == 0 {
		return left, errors.New("discovering resources: there are none")
	}
	var failures []error
	for _, r := range resources {
		failures = append(failures, c.deleteAll(ctx, r, left))
	}
	if err := errors.Join(failures...); err != nil {
		return left, err
	}
	if left.empty() {
		c.count(name, left)
	}
	return left, nil
}

// count adds what the informers know of, save namespaces.
func (c *Controller) count(name logicalcluster.Name, left remains) {
	for gvr, informer := range c.Metadata.All() {
		if gvr == namespaces && !left.empty() {
			continue // counted from the server
		}
		for _, obj := range informer.ListCluster(name) {
			left.add(gvr.GroupResource(), obj)
		}
	}
}

// deleteAll deletes the objects of a resource in the logical cluster of ctx and
// adds those to left that are there still.
func (c *Controller) deleteAll(ctx context.Context, r resource, left remains) error {
	client := c.MetadataClient.Resource(r.GroupVersionResource)
	background := metav1.DeletePropagationBackground
	found := false
	err := c.each(ctx, r.GroupVersionResource, func(obj *metav1.PartialObjectMetadata) error {
		found = true
		if r.record || r.collection || obj.DeletionTimestamp != nil {
			return nil
		}
		err := client.Namespace(obj.Namespace).Delete(ctx, obj.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(obj.UID)), PropagationPolicy: &background,
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
	if err == nil && found && r.collection {
		err = client.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
	}
	if err == nil && found {
		err = c.each(ctx, r.GroupVersionResource, func(obj *metav1.PartialObjectMetadata) error {
			left.add(r.GroupResource(), obj)
			return nil
		})
	}
	if err != nil && !apierrors.IsNotFound(err) { // the resource is no longer served
		return fmt.Errorf("removing %s: %w", r.GroupResource(), err)
	}
	return nil
}

// each calls f with every object of a resource, read from the server.
func (c *Controller) each(ctx context.Context, gvr schema.GroupVersionResource, f func(*metav1.PartialObjectMetadata) error) error {
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := c.MetadataClient.Resource(gvr).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := f(&list.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}
