package endpoints

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

var (
	services       = corev1.SchemeGroupVersion.WithResource("services")
	endpoints      = corev1.SchemeGroupVersion.WithResource("endpoints")
	endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

// batchDelay is how long events are gathered before the slices of a Service are read: rollouts and moves
// write several within it.
const batchDelay = 50 * time.Millisecond

// Config is what the controller needs.
type Config struct {
	// Kube acts in the logical cluster of the context.
	Kube kubernetes.Interface
	// Metadata must have services, endpoints and endpointslices.
	Metadata *controller.Metadata
	// Workers defaults to 4.
	Workers int
}

// Controller keeps Endpoints and EndpointSlices in step.
type Controller struct {
	Config
	informers []*controller.Informer[*metav1.PartialObjectMetadata]
	queue     *controller.Controller[controller.Request]
	// written remembers the Endpoints that were written.
	written *controller.Written[controller.Request, *corev1.Endpoints]
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 4
	}
	c := &Controller{Config: config, written: controller.NewWritten[controller.Request, *corev1.Endpoints]()}
	c.queue = controller.New("endpoints", config.Workers, c.reconcile)
	for _, gvr := range []struct {
		informer *controller.Informer[*metav1.PartialObjectMetadata]
		service  func(*metav1.PartialObjectMetadata) string
	}{
		{config.Metadata.For(services), (*metav1.PartialObjectMetadata).GetName},
		{config.Metadata.For(endpoints), (*metav1.PartialObjectMetadata).GetName},
		{config.Metadata.For(endpointSlices), func(o *metav1.PartialObjectMetadata) string { return o.Labels[discoveryv1.LabelServiceName] }},
	} {
		c.informers = append(c.informers, gvr.informer)
		isEndpoints := gvr.informer == config.Metadata.For(endpoints)
		gvr.informer.Handle(func(old, obj *metav1.PartialObjectMetadata) {
			if isEndpoints && obj != nil && c.written.Arrived(controller.RequestFor(obj), obj) {
				return
			}
			if obj == nil {
				obj = old
			}
			r := controller.RequestFor(obj)
			if r.Name = gvr.service(obj); r.Name != "" && !stamp.OfServer(services.GroupResource(), r.Namespace, r.Name) {
				c.queue.EnqueueAfter(r, batchDelay)
			}
		})
	}
	return c
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	for _, i := range c.informers {
		if i.WaitForSync(ctx) != nil {
			return
		}
	}
	c.queue.Run(ctx)
}

// seen is what there is for the name of a Service.
type seen struct {
	service   *corev1.Service
	endpoints *corev1.Endpoints
	slices    []discoveryv1.EndpointSlice
}

func (c *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	s, err := c.read(ctx, key)
	if err != nil {
		return controller.Result{}, err
	}
	selects := s.service != nil && s.service.Spec.Selector != nil
	var want map[string]*discoveryv1.EndpointSlice
	if s.service != nil && !selects && s.endpoints != nil && s.endpoints.DeletionTimestamp == nil &&
		s.endpoints.Labels[managedBy] == "" && s.endpoints.Labels[skipMirror] != "true" {
		want = mirrors(s.endpoints)
	}
	errs := []error{c.mirror(ctx, key.Namespace, s.slices, want)}
	switch {
	case selects && s.service.DeletionTimestamp == nil:
		errs = append(errs, c.write(ctx, key, s))
	case s.service == nil && s.endpoints != nil && s.endpoints.Labels[managedBy] == manager:
		uid := s.endpoints.UID
		err := c.Kube.CoreV1().Endpoints(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		errs = append(errs, controller.Unexpected("deleting the Endpoints", err))
	}
	return controller.Result{}, errors.Join(errs...)
}

// read asks the watch cache. That of one resource is at least as new as the event that
// led here, those of the others may be older: what is missing there is read from etcd
// if something would be deleted for it.
func (c *Controller) read(ctx context.Context, key controller.Request) (s seen, err error) {
	cached := metav1.GetOptions{ResourceVersion: "0"}
	if s.service, err = c.Kube.CoreV1().Services(key.Namespace).Get(ctx, key.Name, cached); apierrors.IsNotFound(err) {
		s.service = nil
	} else if err != nil {
		return s, fmt.Errorf("reading the Service: %w", err)
	}
	if s.endpoints, err = c.Kube.CoreV1().Endpoints(key.Namespace).Get(ctx, key.Name, cached); apierrors.IsNotFound(err) {
		s.endpoints = nil
	} else if err != nil {
		return s, fmt.Errorf("reading the Endpoints: %w", err)
	}
	list, err := c.Kube.DiscoveryV1().EndpointSlices(key.Namespace).List(ctx, metav1.ListOptions{
		ResourceVersion: "0", LabelSelector: labels.Set{discoveryv1.LabelServiceName: key.Name}.String(),
	})
	if err != nil {
		return s, fmt.Errorf("reading the EndpointSlices: %w", err)
	}
	s.slices = list.Items
	return s, c.confirm(ctx, key, &s)
}

// confirm reads anew what is missing.
func (c *Controller) confirm(ctx context.Context, key controller.Request, s *seen) (err error) {
	mirrored := slices.ContainsFunc(s.slices, func(e discoveryv1.EndpointSlice) bool { return e.Labels[discoveryv1.LabelManagedBy] == mirrorer })
	if s.service == nil && (mirrored || s.endpoints != nil && s.endpoints.Labels[managedBy] == manager) {
		if s.service, err = c.Kube.CoreV1().Services(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			s.service = nil
		} else if err != nil {
			return fmt.Errorf("reading the Service: %w", err)
		}
	}
	if s.endpoints == nil && mirrored {
		if s.endpoints, err = c.Kube.CoreV1().Endpoints(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			s.endpoints = nil
		} else if err != nil {
			return fmt.Errorf("reading the Endpoints: %w", err)
		}
	}
	return nil
}

// write makes the Endpoints say what the slices say.
func (c *Controller) write(ctx context.Context, key controller.Request, s seen) error {
	client := c.Kube.CoreV1().Endpoints(s.service.Namespace)
	want := maps.Clone(s.service.Labels)
	if want == nil {
		want = map[string]string{}
	}
	want[managedBy] = manager
	if s.service.Spec.ClusterIP == corev1.ClusterIPNone {
		want[corev1.IsHeadlessService] = ""
	}
	current := subsets(s.slices, s.service.Spec.IPFamilies)
	if s.endpoints == nil {
		made, err := client.Create(ctx, &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Name: s.service.Name, Namespace: s.service.Namespace, Labels: want}, Subsets: current,
		}, metav1.CreateOptions{})
		c.wrote(key, made, err)
		return controller.Unexpected("making the Endpoints", err)
	}
	if apiequality.Semantic.DeepEqual(s.endpoints.Subsets, current) && maps.Equal(s.endpoints.Labels, want) {
		return nil
	}
	changed := s.endpoints.DeepCopy()
	changed.Subsets, changed.Labels = current, want
	updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
	c.wrote(key, updated, err)
	return controller.Unexpected("writing the Endpoints", err)
}

// wrote remembers what was written: its event says nothing that is not known.
func (c *Controller) wrote(key controller.Request, written *corev1.Endpoints, err error) {
	if err == nil {
		c.written.Put(key, written)
	}
}

// mirror makes the mirrored slices those that are wanted.
func (c *Controller) mirror(ctx context.Context, namespace string, have []discoveryv1.EndpointSlice, want map[string]*discoveryv1.EndpointSlice) error {
	client := c.Kube.DiscoveryV1().EndpointSlices(namespace)
	var errs []error
	missing := maps.Clone(want)
	for i := range have {
		s := &have[i]
		if s.Labels[discoveryv1.LabelManagedBy] != mirrorer {
			continue
		}
		w, ok := want[s.Name]
		if !ok {
			errs = append(errs, controller.Unexpected("deleting a mirrored EndpointSlice", client.Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})))
			continue
		}
		delete(missing, s.Name)
		if apiequality.Semantic.DeepEqual(s.Endpoints, w.Endpoints) && apiequality.Semantic.DeepEqual(s.OwnerReferences, w.OwnerReferences) &&
			maps.Equal(s.Labels, w.Labels) && maps.Equal(s.Annotations, w.Annotations) {
			continue
		}
		changed := s.DeepCopy()
		changed.Endpoints, changed.Labels, changed.Annotations, changed.OwnerReferences = w.Endpoints, w.Labels, w.Annotations, w.OwnerReferences
		_, err := client.Update(ctx, changed, metav1.UpdateOptions{})
		errs = append(errs, controller.Unexpected("writing a mirrored EndpointSlice", err))
	}
	for _, w := range missing {
		_, err := client.Create(ctx, w, metav1.CreateOptions{})
		errs = append(errs, controller.Unexpected("mirroring the Endpoints", err))
	}
	return errors.Join(errs...)
}
