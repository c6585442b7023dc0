package placedkinds

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/pkg/workload/declared"
)

// reconcile writes the status of a declaration, has objects placed that were there before
// it, and ends it.
//
//	being deleted  objects or Copies, by the informers  by lists of the server  then
//	no             any                                  not asked               status; offer what is not placed
//	yes            some                                 not asked               status: it is in use
//	yes            none                                 some                    status: it is in use
//	yes            none                                 none                    our finalizer goes
func (s *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	p, ok := s.Kinds.Get(key)
	if !ok {
		return controller.Result{}, nil
	}
	kind := declared.Kind(p)
	use := s.use(kind)
	if p.DeletionTimestamp != nil && use == (usage{}) {
		var err error
		if use, err = s.confirm(ctx, kind); err != nil {
			return controller.Result{}, err
		}
		if use == (usage{}) {
			return controller.Result{}, s.release(ctx, p)
		}
	}
	if informer := placed.Of(s.Objects, kind); informer != nil && p.DeletionTimestamp == nil {
		for _, obj := range informer.List() {
			s.offer(kind, obj)
		}
	}
	result := controller.Result{}
	if p.DeletionTimestamp != nil {
		result.RequeueAfter = retryInterval
	}
	return result, s.writeStatus(ctx, p, kind, use)
}

// usage counts what is left of a kind.
type usage struct{ objects, copies int }

// use is that which the informers know of.
func (s *Controller) use(kind workload.Kind) usage {
	var u usage
	if informer := placed.Of(s.Objects, kind); informer != nil {
		for _, obj := range informer.List() {
			u.add(obj)
		}
	}
	for _, c := range s.Copies.List() {
		u.addCopy(kind, c)
	}
	return u
}

func (u *usage) add(obj metav1.Object) {
	if stamp.HasTargets(obj) || hasFinalizer(obj) {
		u.objects++
	}
}

func (u *usage) addCopy(kind workload.Kind, c *placementv1alpha1.Copy) {
	if c.Spec.Object.Group == kind.Group && c.Spec.Object.Resource == kind.Resource {
		u.copies++
	}
}

// systemVersion is one in which every custom resource can be listed over all logical
// clusters, whichever versions they serve.
const systemVersion = "v1"

// confirm asks the server, page by page: that informers have nothing proves nothing.
func (s *Controller) confirm(ctx context.Context, kind workload.Kind) (usage, error) {
	ctx = scope.WithCluster(ctx, scope.Wildcard)
	var u usage
	if len(s.Definitions.DefinedIn(kind.GroupResource())) > 0 {
		gvr := kind.GroupResource().WithVersion(systemVersion)
		pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.Metadata.Resource(gvr).List(ctx, o)
		})
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
			m, err := apimeta.Accessor(obj)
			if err == nil {
				u.add(m)
			}
			return err
		})
		if err != nil {
			return u, fmt.Errorf("asking for what is left of kind %s: %w", kind.GroupKind(), err)
		}
	}
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return s.Client.PlacementV1alpha1().Copies("").List(ctx, o)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if c, ok := obj.(*placementv1alpha1.Copy); ok {
			u.addCopy(kind, c)
		}
		return nil
	})
	if err != nil {
		return u, fmt.Errorf("asking for what is left of the copies of kind %s: %w", kind.GroupKind(), err)
	}
	return u, nil
}

// release lets a declaration go.
func (s *Controller) release(ctx context.Context, p *fleetv1alpha1.PlacedKind) error {
	next := p.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == fleetv1alpha1.KindInUseFinalizer })
	if len(next.Finalizers) == len(p.Finalizers) {
		return nil
	}
	_, err := s.Client.FleetV1alpha1().PlacedKinds().Update(ctx, next, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("letting the declaration go: %w", err)
	}
	return nil
}

func (s *Controller) writeStatus(ctx context.Context, p *fleetv1alpha1.PlacedKind, kind workload.Kind, use usage) error {
	next := p.DeepCopy()
	next.Status.ObservedGeneration, next.Status.Objects = p.Generation, int32(use.objects)
	next.Status.PhysicalClusters = s.physicalClusters(kind, use)
	for _, c := range []metav1.Condition{s.accepted(p), s.suitable(kind), inUse(use)} {
		c.ObservedGeneration = p.Generation
		apimeta.SetStatusCondition(&next.Status.Conditions, c)
	}
	if equality.Semantic.DeepEqual(p.Status, next.Status) {
		return nil
	}
	_, err := s.Client.FleetV1alpha1().PlacedKinds().UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// physicalClusters are those whose syncers see a declaration. Where the kind is not defined
// anywhere, they would have nothing to list.
func (s *Controller) physicalClusters(kind workload.Kind, use usage) []string {
	if use == (usage{}) && len(s.Definitions.DefinedIn(kind.GroupResource())) == 0 {
		return nil
	}
	var names []string
	for _, pc := range s.PhysicalClusters.List() {
		names = append(names, pc.Name)
	}
	slices.Sort(names)
	return names
}

func (s *Controller) accepted(p *fleetv1alpha1.PlacedKind) metav1.Condition {
	if r, refused := s.Catalog.Refusal(p.Name); refused {
		return metav1.Condition{Type: fleetv1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: r.Reason, Message: r.Message}
	}
	return metav1.Condition{Type: fleetv1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonAccepted}
}

// suitable speaks of the selected logical clusters that define the kind.
func (s *Controller) suitable(kind workload.Kind) metav1.Condition {
	c := metav1.Condition{Type: fleetv1alpha1.ConditionSuitable, Status: metav1.ConditionUnknown, Reason: fleetv1alpha1.ReasonNotDefined,
		Message: "no selected logical cluster defines it"}
	clusters, differ, first := s.Definitions.DefinedIn(kind.GroupResource()), 0, ""
	slices.Sort(clusters)
	for _, cluster := range clusters {
		if !s.Catalog.selects(cluster, kind) {
			continue
		}
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, fleetv1alpha1.ReasonSuitable, ""
		if problem := declared.Problem(kind, s.Definitions.Defined(cluster, kind.GroupResource())); problem != "" {
			if differ++; differ == 1 {
				first = fmt.Sprintf("logical cluster %s: %s", cluster, problem)
			}
		}
	}
	if differ > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, fleetv1alpha1.ReasonDefinitionsDiffer
		c.Message = fmt.Sprintf("the definitions of %d logical clusters do not suit, where objects stay above; %s", differ, first)
	}
	return c
}

func inUse(use usage) metav1.Condition {
	if use == (usage{}) {
		return metav1.Condition{Type: fleetv1alpha1.ConditionInUse, Status: metav1.ConditionFalse, Reason: fleetv1alpha1.ReasonUnused}
	}
	return metav1.Condition{Type: fleetv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonPlaced,
		Message: fmt.Sprintf("%d objects have targets, of which there are %d records of copies; deleted, the declaration ends with the last of them", use.objects, use.copies)}
}
