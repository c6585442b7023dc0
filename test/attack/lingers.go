package attack

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

const (
	// lingersAtLeast and lingersAtMost are how long ready endpoints that nobody takes back hold a drain: a
	// minute, and what the rest of a move takes.
	lingersAtLeast, lingersAtMost = 45 * time.Second, 2 * time.Minute
	// leavesAtMost is how long a drain takes of what is reported as it is.
	leavesAtMost = 40 * time.Second
)

var lingers = Attack{
	Name: "a physical cluster keeps what leaves it by no endpoint and no address that it goes on reporting, nor leads anybody there, and nothing of others at all",
	Real: true, // it waits
	Fence: func(ctx context.Context, w *World) error {
		lies, honest, err := w.drained(ctx, w.linger)
		switch {
		case err != nil:
			return err
		case lies > lingersAtMost:
			return fmt.Errorf("it is kept for %s", lies)
		case lies < lingersAtLeast: // clients may still be sent there: else this proves nothing
			return fmt.Errorf("it is kept for %s only", lies)
		case honest > leavesAtMost:
			return fmt.Errorf("another logical cluster is kept for %s", honest)
		}
		return nil
	},
}

// drained drains the hostile physical cluster of the namespaces of two logical clusters, about one of which its syncer lies
// all the time, and returns how long each took to be somewhere else.
func (w *World) drained(ctx context.Context, lie func(context.Context) error) (lies, honest time.Duration, err error) {
	about, err := w.serving(ctx, `{"loadBalancer":{"ingress":[{"ip":"`+Elsewhere+`"}]}}`)
	if err != nil {
		return 0, 0, err
	}
	other, err := w.serving(ctx, `{"loadBalancer":{}}`)
	if err != nil {
		return 0, 0, err
	}
	if err := lie(about); err != nil {
		return 0, 0, fmt.Errorf("lying: %w", err)
	}
	for _, ctx := range []context.Context{about, other} {
		if err := w.unpin(ctx); err != nil {
			return 0, 0, err
		}
	}
	root := scope.WithCluster(ctx, scope.Root)
	drain := func(ctx context.Context, requested string) error {
		_, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Patch(ctx, Mallory, types.MergePatchType, []byte(`{"spec":{"drain":{"requested":`+requested+`}}}`), metav1.PatchOptions{})
		return err
	}
	if err := drain(root, "true"); err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, drain(context.WithoutCancel(root), "false")) }()
	began := time.Now()
	err = eventually(ctx, "the drain", func() error {
		if err := errors.Join(lie(about), w.acknowledge(about, true), w.acknowledge(other, true)); err != nil {
			return err
		}
		var errs []error
		for ctx, took := range map[context.Context]*time.Duration{about: &lies, other: &honest} {
			if *took > 0 {
				continue
			}
			switch left, err := w.hasLeft(ctx); {
			case err != nil:
				errs = append(errs, err)
			case left:
				*took = time.Since(began)
			}
		}
		if lies == 0 || honest == 0 {
			errs = append(errs, fmt.Errorf("after %s the one is gone: %t, the other: %t", time.Since(began).Round(time.Second), lies > 0, honest > 0))
		}
		return errors.Join(errs...)
	})
	if err == nil {
		err = eventually(ctx, "nothing to lead there", func() error { return w.leadsElsewhere(about) })
	}
	return lies, honest, err
}

// serving makes a logical cluster as placed does, with a Service that is recorded to be in place with a status.
func (w *World) serving(ctx context.Context, status string) (context.Context, error) {
	ctx, err := w.placed(ctx)
	if err != nil {
		return nil, err
	}
	service, err := w.admin.kube.CoreV1().Services("web").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "front"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "app"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a Service: %w", err)
	}
	ns, err := w.admin.kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	record := recordOfObject(corev1.SchemeGroupVersion.WithResource("services"), "Service", service)
	record.Status.State, record.Status.PhysicalNamespace = placementv1alpha1.CopySynced, ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
	record.Status.Observed = &runtime.RawExtension{Raw: []byte(status)}
	if _, err := w.mallory.atoll.PlacementV1alpha1().Copies("web").Create(withTarget(ctx), record, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("recording a Service: %w", err)
	}
	return ctx, nil
}

func recordOfObject(gvr schema.GroupVersionResource, kind string, o metav1.Object) *placementv1alpha1.Copy {
	return &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(gvr.GroupResource(), o.GetName(), Mallory)},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: Mallory, Object: placementv1alpha1.ObjectReference{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: kind, Name: o.GetName(), UID: o.GetUID(),
		}},
	}
}

// linger reports a ready endpoint of the Service, whatever the server has made of it since.
func (w *World) linger(ctx context.Context) error {
	slices := w.mallory.kube.DiscoveryV1().EndpointSlices("web")
	slice := sliceOf(map[string]string{placementv1alpha1.UIDAnnotation: "1"})
	slice.Labels[discoveryv1.LabelServiceName] = "front"
	_, err := slices.Create(withTarget(ctx), slice, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		is, getErr := slices.Get(withTarget(ctx), slice.Name, metav1.GetOptions{})
		if getErr != nil {
			return ignoreRefusal(getErr)
		}
		is.Endpoints = slice.Endpoints
		_, err = slices.Update(withTarget(ctx), is, metav1.UpdateOptions{})
	}
	return ignoreRefusal(err)
}

// ignoreRefusal is for what a syncer may do as long as something is placed on its physical cluster.
func ignoreRefusal(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (w *World) unpin(ctx context.Context) error {
	patch := `{"metadata":{"annotations":{"` + placementv1alpha1.PhysicalClusterAnnotation + `":null}}}`
	_, err := w.admin.kube.CoreV1().Namespaces().Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// acknowledge says of what is to go that it is gone, also of the Namespace in the end if that is whole.
func (w *World) acknowledge(ctx context.Context, whole bool) error {
	kube := w.admin.kube
	ns, err := kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	records := []*placementv1alpha1.Copy{}
	add := func(gvr schema.GroupVersionResource, kind string, o metav1.Object) {
		if stamp.TargetsOf(o.GetAnnotations())[Mallory].State == placementv1alpha1.TargetStateRemoving {
			records = append(records, recordOfObject(gvr, kind, o))
		}
	}
	core := corev1.SchemeGroupVersion
	services, err := kube.CoreV1().Services("web").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		add(core.WithResource("services"), "Service", &services.Items[i])
	}
	deployments, err := kube.AppsV1().Deployments("web").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range deployments.Items {
		add(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", &deployments.Items[i])
	}
	if len(records) == 0 && whole {
		add(core.WithResource("namespaces"), "Namespace", ns)
	}
	copies := w.mallory.atoll.PlacementV1alpha1().Copies("web")
	for _, c := range records {
		c.Status.State = placementv1alpha1.CopyRemoved
		c.Status.PhysicalNamespace = ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]
		_, err := copies.Create(withTarget(ctx), c, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			var is *placementv1alpha1.Copy
			if is, err = copies.Get(withTarget(ctx), c.Name, metav1.GetOptions{}); err == nil {
				is.Status.State = placementv1alpha1.CopyRemoved
				_, err = copies.Update(withTarget(ctx), is, metav1.UpdateOptions{})
			}
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("acknowledging %s: %w", c.Spec.Object.Name, err)
		}
	}
	return nil
}

// hasLeft says that the namespace is nowhere but on other physical clusters, and on no way.
func (w *World) hasLeft(ctx context.Context) (bool, error) {
	p, err := w.admin.atoll.PlacementV1alpha1().Placements("web").Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	there, err := w.isPlaced(ctx, "web")
	return !there && p.Spec.Transition == nil, err
}

// leadsElsewhere fails if the Service has an address or endpoints that the syncer reports.
func (w *World) leadsElsewhere(ctx context.Context) error {
	service, err := w.admin.kube.CoreV1().Services("web").Get(ctx, "front", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		return fmt.Errorf("the Service has the addresses %v", service.Status.LoadBalancer.Ingress)
	}
	slices, err := w.admin.kube.DiscoveryV1().EndpointSlices("web").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range slices.Items {
		if _, ok := stamp.TargetsOf(slices.Items[i].Annotations)[Mallory]; ok {
			return fmt.Errorf("the Service has the endpoints %v", slices.Items[i].Endpoints)
		}
	}
	return nil
}
