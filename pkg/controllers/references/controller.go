package references

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	name = "references"
	// workers are more than run at a time: most of them wait for a read together, see gather.
	workers = 16
)

// Config is what the controller works with. The clients take the logical
// cluster from the context and act as the system.
type Config struct {
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// Kinds are those that refer to others.
	Kinds workload.Source
	// Objects has the metadata of ConfigMaps and Secrets.
	Objects *controller.Metadata
	// ServiceAccounts tells which Secrets pods get through their service
	// account; nil if that shall not count.
	ServiceAccounts *controller.Informer[*corev1.ServiceAccount]
}

// Controller gives ConfigMaps and Secrets their targets.
type Controller struct {
	Config
	// holders are of the kinds of Kubernetes, later of those that are declared.
	holders []*controller.Informer[*holder]
	later   declaredHolders
	// stored reads what refers to others.
	stored *gather
	queue  *controller.Controller[key]
}

// key names an object that gets targets.
type key struct {
	controller.Request
	resource schema.GroupResource
}

// String names the key in logs.
func (k key) String() string { return k.Request.String() + " (" + k.resource.Resource + ")" }

// New makes the controller and subscribes it to the informers.
func New(config Config) *Controller {
	c := &Controller{Config: config, holders: newHolders(config.Kinds.Current().Undeclared(), config.Dynamic)}
	c.stored = newGather(c.readAll)
	c.queue = controller.New(name, workers, c.reconcile)
	for _, h := range c.holders {
		h.Handle(c.holderChanged)
	}
	for _, resource := range []schema.GroupResource{workload.ConfigMaps, workload.Secrets} {
		if i := c.objects(resource); i != nil {
			i.Handle(func(_, new *metav1.PartialObjectMetadata) {
				if new != nil {
					c.objectChanged(key{controller.RequestFor(new), resource}, new)
				}
			})
		}
	}
	if c.ServiceAccounts != nil {
		c.ServiceAccounts.Handle(c.serviceAccountChanged)
	}
	if accounts := c.accounts(); accounts != nil {
		accounts.Handle(func(_, new *metav1.PartialObjectMetadata) {
			if new != nil {
				c.objectChanged(key{controller.RequestFor(new), workload.ServiceAccounts}, new)
			}
		})
	}
	return c
}

// Run works until ctx is done. Nothing is decided before everything that may
// refer is known: what is not listed yet must not look like not needed.
func (c *Controller) Run(ctx context.Context) {
	defer c.queue.ShutDown()
	var running sync.WaitGroup
	for _, h := range c.holders {
		running.Go(func() { h.Run(ctx) })
	}
	if c.synced(ctx) {
		running.Go(func() { c.followDeclared(ctx) })
		c.queue.Run(ctx)
	}
	running.Wait()
}

func (c *Controller) synced(ctx context.Context) bool {
	for _, h := range c.holders {
		if h.WaitForSync(ctx) != nil {
			return false
		}
	}
	return c.ServiceAccounts == nil || c.ServiceAccounts.WaitForSync(ctx) == nil
}

func (c *Controller) objects(resource schema.GroupResource) *controller.Informer[*metav1.PartialObjectMetadata] {
	kind, _ := c.Kinds.Current().ByResource(resource)
	return c.Objects.For(kind.GroupVersionResource())
}

// objectChanged looks at an object that has targets or is referred to. Most are
// neither, and a queue remembers what it once held; whoever refers to one later
// brings it here (holderChanged).
func (c *Controller) objectChanged(k key, obj *metav1.PartialObjectMetadata) {
	if stamp.HasTargets(obj) || len(c.referrers(k)) > 0 {
		c.queue.Enqueue(k)
	}
}

// holderChanged looks at whatever a placed object refers to or did.
func (c *Controller) holderChanged(old, new *holder) {
	if old != nil && new != nil && old.targets.String() == new.targets.String() && slices.Equal(old.references, new.references) {
		return
	}
	for _, h := range []*holder{old, new} {
		if h == nil {
			continue
		}
		request := controller.RequestFor(h)
		for _, r := range h.references {
			c.enqueue(request.Cluster, request.Namespace, r)
		}
	}
}

// enqueue looks at what is referred to: through a service account, at the
// Secrets that it names.
func (c *Controller) enqueue(cluster logicalcluster.Name, namespace string, r workload.Reference) {
	request := controller.Request{Cluster: cluster, Namespace: namespace, Name: r.Name}
	c.queue.Enqueue(key{request, r.Resource})
	if r.Resource != workload.ServiceAccounts {
		return
	}
	if c.ServiceAccounts == nil {
		return
	}
	if account, ok := c.ServiceAccounts.Get(request); ok {
		c.serviceAccountChanged(nil, account)
	}
}

func (c *Controller) serviceAccountChanged(old, new *corev1.ServiceAccount) {
	if old != nil && new != nil && slices.Equal(secretsOf(old), secretsOf(new)) {
		return
	}
	for _, account := range []*corev1.ServiceAccount{old, new} {
		if account == nil {
			continue
		}
		request := controller.RequestFor(account)
		for _, secret := range secretsOf(account) {
			request.Name = secret
			c.queue.Enqueue(key{request, workload.Secrets})
		}
	}
}

// secretsOf are the Secrets that pods get through a service account.
func secretsOf(account *corev1.ServiceAccount) []string {
	var names []string
	for _, s := range account.ImagePullSecrets {
		names = append(names, s.Name)
	}
	for _, s := range account.Secrets {
		names = append(names, s.Name)
	}
	return names
}

func (c *Controller) reconcile(ctx context.Context, k key) (controller.Result, error) {
	if k.resource == workload.ServiceAccounts {
		return controller.Result{}, c.showAccount(ctx, k)
	}
	informer := c.objects(k.resource)
	if informer == nil {
		return controller.Result{}, nil
	}
	obj, ok := informer.Get(k.Request)
	if !ok || obj.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	kind, _ := c.Kinds.Current().ByResource(k.resource)
	referrers := c.referrers(k)
	if stamp.GoesDown(kind, k.Cluster, obj) {
		var err error
		if referrers, err = c.confirmed(ctx, k, stamp.TargetsOf(obj.Annotations), referrers); err != nil {
			return controller.Result{}, err
		}
	}
	patch := stamp.Restamp(obj, func(o metav1.Object) {
		stamp.Set(o, stamp.Targets(kind, k.Cluster, o, stamp.Source{Referrers: targetsOf(referrers)}))
	})
	if patch == nil {
		return controller.Result{}, nil
	}
	_, err := c.Metadata.Resource(kind.GroupVersionResource()).Namespace(k.Namespace).
		Patch(ctx, k.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("giving %s its targets: %w", k.resource.Resource, err)
	}
	return controller.Result{}, nil
}

// confirmed are the referrers after the server was asked about those that would
// change something: who asks for more has to be there, and who needs nothing any more
// has to be gone.
func (c *Controller) confirmed(ctx context.Context, k key, current placementv1alpha1.Targets, referrers []*holder) ([]*holder, error) {
	var err error
	if stamp.Adds(current, targetsOf(referrers)...) {
		if referrers, err = c.present(ctx, k, current, referrers); err != nil {
			return nil, err
		}
	}
	if stamp.Removes(current, targetsOf(referrers)...) {
		known, err := c.live(ctx, k)
		if err != nil {
			return nil, err
		}
		referrers = append(referrers, known...)
	}
	return referrers, nil
}

func targetsOf(referrers []*holder) []placementv1alpha1.Targets {
	all := make([]placementv1alpha1.Targets, 0, len(referrers))
	for _, h := range referrers {
		all = append(all, h.targets)
	}
	return all
}

// referrers are everything that refers to k, directly or through a service account.
func (c *Controller) referrers(k key) []*holder {
	var all []*holder
	for _, r := range c.references(k) {
		for _, h := range slices.Concat(c.holders, c.later.all()) {
			all = append(all, h.ByIndex(referenceIndex, referenceKey(k.Cluster, k.Namespace, r))...)
		}
	}
	return all
}

// references are those that lead to k: its own, and for a Secret those to service accounts that name it.
func (c *Controller) references(k key) []workload.Reference {
	all := []workload.Reference{{Resource: k.resource, Name: k.Name}}
	if k.resource == workload.Secrets && c.ServiceAccounts != nil && !c.isToken(k) {
		for _, account := range c.ServiceAccounts.ListNamespace(k.Cluster, k.Namespace) {
			if slices.Contains(secretsOf(account), k.Name) {
				all = append(all, workload.Reference{Resource: workload.ServiceAccounts, Name: account.Name})
			}
		}
	}
	return all
}
