package imports

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/backends"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

func (c *Controller) podsIn(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("reading pods: %w", err)
	}
	return list.Items, nil
}

// where is what a namespace is looked at with.
type where struct {
	// present are the physical clusters on which namespaces of the logical cluster are.
	present []string
	fleet   Fleet
	// pods of the namespace; none are read of a logical cluster that is in no network twice.
	pods []corev1.Pod
}

// cached has a list or an object come from the watch cache.
var cached = metav1.ListOptions{ResourceVersion: "0"}

func (c *Controller) keepServices(ctx context.Context, key controller.Request, w where) (behind bool, err error) {
	client := c.Client.PlacementV1alpha1().ServiceImports(key.Namespace)
	list := &placementv1alpha1.ServiceImportList{}
	if c.has(serviceImports, key) {
		if list, err = client.List(ctx, cached); err != nil {
			return false, fmt.Errorf("reading ServiceImports: %w", err)
		}
	}
	wanted, err := c.wantedServices(ctx, key, w)
	if err != nil {
		return false, err
	}
	var errs []error
	for i := range list.Items {
		have := &list.Items[i]
		want := wanted[have.Name]
		delete(wanted, have.Name)
		switch {
		case want == nil:
			errs = append(errs, c.removeService(ctx, have, w))
		case !apiequality.Semantic.DeepEqual(have.Spec, want.Spec) || !sameTargets(have, want):
			changed := have.DeepCopy()
			changed.Spec, changed.OwnerReferences = want.Spec, want.OwnerReferences
			stamp.Show(changed, stamp.TargetsOf(want.Annotations))
			_, err := client.Update(ctx, changed, metav1.UpdateOptions{})
			if apierrors.IsConflict(err) {
				behind = true
				break
			}
			errs = append(errs, controller.Unexpected("writing a ServiceImport", err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) { // in an order, for who repeats a run
		_, err := client.Create(ctx, wanted[name], metav1.CreateOptions{})
		behind = behind || apierrors.IsAlreadyExists(err)
		errs = append(errs, controller.Unexpected("making a ServiceImport", err))
	}
	return behind, errors.Join(errs...)
}

// showTo has the syncers of importers see an import.
func showTo[T any](imp metav1.Object, importers []T, name func(T) string) {
	targets := placementv1alpha1.Targets{}
	for _, importer := range importers {
		targets[name(importer)] = placementv1alpha1.Target{}
	}
	stamp.Show(imp, targets)
}

func sameTargets(a, b metav1.Object) bool {
	return stamp.Equal(stamp.TargetsOf(a.GetAnnotations()), stamp.TargetsOf(b.GetAnnotations()))
}

// wantedServices are the imports of Services that there should be in a namespace, by name.
func (c *Controller) wantedServices(ctx context.Context, key controller.Request, w where) (map[string]*placementv1alpha1.ServiceImport, error) {
	if len(w.present) == 0 || !c.has(services, key) {
		return nil, nil
	}
	all, err := c.Kube.CoreV1().Services(key.Namespace).List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("reading Services: %w", err)
	}
	of, err := c.sourcesOf(ctx, key, all.Items, w)
	if err != nil {
		return nil, err
	}
	wanted := map[string]*placementv1alpha1.ServiceImport{}
	for i := range all.Items {
		s := &all.Items[i]
		spec := Decide(s, of, w.present, w.fleet)
		if spec == nil || stamp.OfServer(services.GroupResource(), s.Namespace, s.Name) {
			continue
		}
		imp := &placementv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID}},
		}, Spec: *spec}
		showTo(imp, spec.Importers, func(i placementv1alpha1.Importer) string { return i.PhysicalCluster })
		wanted[s.Name] = imp
	}
	return wanted, nil
}

// sourcesOf reads what the Services of a namespace lead to.
func (c *Controller) sourcesOf(ctx context.Context, key controller.Request, all []corev1.Service, w where) (of Sources, err error) {
	if slices.ContainsFunc(all, func(s corev1.Service) bool { return Imported(&s) && LeadsToPods(&s) }) {
		of.Pods = backends.Candidates(w.pods)
	}
	if slices.ContainsFunc(all, func(s corev1.Service) bool {
		return Imported(&s) && len(s.Spec.Selector) == 0 && s.Spec.Type != corev1.ServiceTypeExternalName
	}) {
		list, err := c.Kube.DiscoveryV1().EndpointSlices(key.Namespace).List(ctx, cached)
		if err != nil {
			return of, fmt.Errorf("reading EndpointSlices: %w", err)
		}
		of.Slices = list.Items
	}
	if !slices.ContainsFunc(of.Slices, func(s discoveryv1.EndpointSlice) bool { return writtenByUser(&s) && len(s.Endpoints) > 0 }) {
		return of, nil
	}
	pods := w.pods
	if !w.fleet.Joined(w.present) {
		if pods, err = c.podsIn(ctx, key.Namespace); err != nil {
			return of, err
		}
	}
	of.Homes = HomesOf(pods, w.fleet)
	return of, nil
}

// removeService deletes an import that nobody wants. That its Service is gone is asked of etcd: a
// watch cache may be behind.
func (c *Controller) removeService(ctx context.Context, have *placementv1alpha1.ServiceImport, w where) error {
	s, err := c.Kube.CoreV1().Services(have.Namespace).Get(ctx, have.Name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the Service of a ServiceImport: %w", err)
	case err == nil && s.UID == have.Spec.Service && Decide(s, Sources{}, w.present, w.fleet) != nil:
		return nil // the event is on its way
	}
	err = c.Client.PlacementV1alpha1().ServiceImports(have.Namespace).Delete(ctx, have.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.UID))})
	if apierrors.IsConflict(err) {
		return nil // its successor: the event is on its way
	}
	return controller.Unexpected("removing a ServiceImport", err)
}

func (c *Controller) keepPods(ctx context.Context, key controller.Request, w where) (behind bool, err error) {
	client := c.Client.PlacementV1alpha1().PodImports(key.Namespace)
	var have *placementv1alpha1.PodImport
	if c.has(podImports, key) {
		have, err = client.Get(ctx, placementv1alpha1.PodImportName, metav1.GetOptions{ResourceVersion: cached.ResourceVersion})
		if apierrors.IsNotFound(err) {
			have = nil
		} else if err != nil {
			return false, fmt.Errorf("reading a PodImport: %w", err)
		}
	}
	var want *placementv1alpha1.PodImport
	if namespace, ok := c.Namespaces.Get(controller.Request{Cluster: key.Cluster, Name: key.Namespace}); ok {
		if spec := PodsOf(namespace.Labels, w.pods, w.present, w.fleet); spec != nil {
			want = &placementv1alpha1.PodImport{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: placementv1alpha1.PodImportName}, Spec: *spec}
			showTo(want, spec.Importers, func(i placementv1alpha1.PodImporter) string { return i.PhysicalCluster })
		}
	}
	doing := ""
	switch {
	case want == nil && have != nil:
		doing = "removing a PodImport"
		err = client.Delete(ctx, have.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.UID))})
	case want != nil && have == nil:
		doing = "making a PodImport"
		_, err = client.Create(ctx, want, metav1.CreateOptions{})
	case want != nil && (!apiequality.Semantic.DeepEqual(have.Spec, want.Spec) || !sameTargets(have, want)):
		doing = "writing a PodImport"
		changed := have.DeepCopy()
		changed.Spec = want.Spec
		stamp.Show(changed, stamp.TargetsOf(want.Annotations))
		_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
	default:
		return false, nil
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return true, nil
	}
	return false, controller.Unexpected(doing, err)
}
