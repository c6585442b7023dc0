package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/atoll-dev/atoll/pkg/controller"
)

const (
	// unknownKindDelay is when an object is looked at again whose owner has a kind
	// that is not served: it may be served by then.
	unknownKindDelay = time.Minute
	// absences is how many proofs of absence are kept.
	absences = 4096
)

// Config is what the controller needs.
type Config struct {
	// Client acts in the logical cluster of the context.
	Client metadata.Interface
	// Metadata is what is collected: every resource that it has, save events.
	Metadata *controller.Metadata
	// Mapper finds the resources of the kinds that a logical cluster serves.
	Mapper func(context.Context, logicalcluster.Name) (meta.RESTMapper, error)
	// Workers defaults to 8.
	Workers int
}

// item is an object to look at.
type item struct {
	Cluster         logicalcluster.Name
	Resource        schema.GroupVersionResource
	Namespace, Name string
	UID             types.UID

	// served is the resource in a version that the logical cluster serves; it is
	// not part of the key.
	served schema.GroupVersionResource
}

// LogicalCluster is the scope in which the item is looked at.
func (i item) LogicalCluster() logicalcluster.Name { return i.Cluster }

// String names the item in logs.
func (i item) String() string {
	r := controller.Request{Cluster: i.Cluster, Namespace: i.Namespace, Name: i.Name}
	return fmt.Sprintf("%s %s (%s)", i.Resource.GroupResource(), r, i.UID)
}

// Controller is the garbage collector.
type Controller struct {
	Config
	absent *lru.Cache
	queue  *controller.Controller[item]
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 8
	}
	c := &Controller{Config: config, absent: lru.New(absences)}
	c.queue = controller.New("garbagecollector", config.Workers, c.reconcile)
	config.Metadata.Follow(func(gvr schema.GroupVersionResource, informer *controller.Informer[*metav1.PartialObjectMetadata]) {
		if !collected(gvr) {
			return
		}
		informer.Handle(func(old, obj *metav1.PartialObjectMetadata) { c.changed(gvr, old, obj) })
	})
	return c
}

// collected says whether a resource takes part: events own nothing and expire.
func collected(gvr schema.GroupVersionResource) bool { return gvr.Resource != "events" }

// Run works until ctx is done. It waits for all informers, so that no owner is
// doubted only because its kind is not listed yet.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	if err := c.Metadata.WaitForSync(ctx); err != nil {
		return
	}
	c.queue.Run(ctx)
}

func (c *Controller) reconcile(ctx context.Context, key item) (controller.Result, error) {
	informer := c.Metadata.For(key.Resource)
	if informer == nil {
		return controller.Result{}, nil // no longer served
	}
	known, ok := informer.Get(controller.Request{Cluster: key.Cluster, Namespace: key.Namespace, Name: key.Name})
	if !ok || known.UID != key.UID {
		return controller.Result{}, nil // gone: its deletion was an event of its own
	}
	mapper, err := c.Mapper(ctx, key.Cluster)
	if err != nil {
		return controller.Result{}, fmt.Errorf("discovering kinds: %w", err)
	}
	if key.served, err = c.served(key.Resource, mapper); err != nil {
		klog.FromContext(ctx).V(4).Info("A resource is not served", "err", err)
		return controller.Result{RequeueAfter: unknownKindDelay}, nil
	}
	if known.DeletionTimestamp == nil && c.obvious(key, known.OwnerReferences, mapper) {
		return controller.Result{}, nil
	}
	latest, err := c.get(ctx, key)
	if latest == nil || err != nil {
		return controller.Result{}, err
	}
	var owners []owner
	if latest.DeletionTimestamp == nil {
		owners, err = c.classify(ctx, key, latest.OwnerReferences, mapper)
		switch {
		case meta.IsNoMatchError(err):
			klog.FromContext(ctx).V(4).Info("The kind of an owner is not served", "err", err)
			return controller.Result{RequeueAfter: unknownKindDelay}, nil
		case errors.Is(err, errUnanswerable):
			klog.FromContext(ctx).V(2).Info("Leaving an object alone", "err", err)
			return controller.Result{}, nil
		case err != nil:
			return controller.Result{}, err
		}
	}
	found := c.dependentsOf(key)
	return controller.Result{}, c.act(ctx, key, latest, decide(latest.DeletionTimestamp != nil, latest.Finalizers, owners, found))
}

// dependentsOf says what the informers know of the dependents of an item.
func (c *Controller) dependentsOf(key item) []dependent {
	var found []dependent
	c.dependents(key.Cluster, key.UID, func(_ schema.GroupVersionResource, d *metav1.PartialObjectMetadata) {
		if !mayOwn(key, d) {
			return
		}
		for _, ref := range d.OwnerReferences {
			if ref.UID == key.UID {
				found = append(found, dependent{uid: d.UID, blocking: blocks(ref), deletingDependents: deletesDependents(d)})
				break
			}
		}
	})
	return found
}

// served is the resource in a version that the logical cluster of mapper serves.
// A resource that users define is watched in one version for all of them.
func (c *Controller) served(gvr schema.GroupVersionResource, mapper meta.RESTMapper) (schema.GroupVersionResource, error) {
	if !c.Metadata.Added(gvr) {
		return gvr, nil
	}
	return mapper.ResourceFor(gvr.GroupResource().WithVersion(""))
}

// mayOwn says whether the reference of d to the item can be true: an object in
// a namespace owns only there.
func mayOwn(key item, d *metav1.PartialObjectMetadata) bool {
	return key.Namespace == "" || key.Namespace == d.Namespace
}

// get reads an item from the server; nil if it is gone.
func (c *Controller) get(ctx context.Context, key item) (*metav1.PartialObjectMetadata, error) {
	o, err := c.Client.Resource(key.served).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && o.UID != key.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading: %w", err)
	}
	return o, nil
}
