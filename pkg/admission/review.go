package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// review answers a PlacementReview with the code that places, from what it would read.
// It stores nothing.
func (p *placing) review(ctx context.Context, r *request) error {
	review, ok := r.GetObject().(*placementv1alpha1.PlacementReview)
	if !ok || r.GetOperation() != admission.Create {
		return nil
	}
	namespace, err := r.getLiveNamespace(ctx)
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	}
	spec, path := &review.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if spec.Policy != nil {
		errs = placement.ValidateRules(spec.Policy, path.Child("policy"))
	}
	if spec.Replaces != nil {
		errs = append(errs, validateName(spec.Replaces, path.Child("replaces"))...)
	}
	errs = append(errs, placement.ValidateSupposed(spec, r.system || slices.Contains(r.GetUserInfo().GetGroups(), user.SystemPrivilegedGroup), path)...)
	q := question{cluster: r.cluster, kinds: r.kinds, namespace: namespace, dryRun: true}
	var needs placement.Needs
	invalid := q.suppose(review)
	if invalid == nil && q.object != nil {
		if err := p.decider.supposeHandler(ctx, q); err != nil {
			return err
		}
		invalid = includeObject(&needs, q.kind, q.object)
	}
	if err := invalid; err != nil {
		errs = append(errs, field.Invalid(path.Child("object"), "", err.Error()))
	} else if err := p.decider.reviewed(ctx, &q, spec); err != nil {
		errs = append(errs, field.Invalid(path.Child("unit"), spec.Unit, err.Error()))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(placementv1alpha1.SchemeGroupVersion.WithKind("PlacementReview").GroupKind(), review.Name, errs)
	}
	if review.Status, err = p.decider.answer(ctx, q, spec, needs); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reviewing the placement of namespace %s: %w", namespace.Name, err))
	}
	return nil
}

// suppose has the object of a review ask. Only objects of kinds that are placed need
// anything.
func (q *question) suppose(review *placementv1alpha1.PlacementReview) error {
	raw := review.Spec.Object
	if raw == nil {
		return nil
	}
	var obj unstructured.Unstructured
	if err := obj.UnmarshalJSON(raw.Raw); err != nil {
		return err
	}
	kind, ok := q.kinds.ByKind(obj.GroupVersionKind().GroupKind())
	if !ok || kind.Role != workload.Placed || kind.Version != obj.GroupVersionKind().Version || kind.Carries != (q.cluster == scope.Root) {
		return fmt.Errorf("%s is no kind that is placed in logical cluster %s", obj.GroupVersionKind(), q.cluster)
	}
	q.kind, q.object = kind, &obj
	return nil
}

// answer decides as the first object of the namespace would have it decided.
func (d *decider) answer(ctx context.Context, q question, spec *placementv1alpha1.PlacementReviewSpec, needs placement.Needs) (placementv1alpha1.PlacementReviewStatus, error) {
	var status placementv1alpha1.PlacementReviewStatus
	stored, err := d.stored(ctx, q)
	if err != nil {
		return status, err
	}
	if forgets(spec, q.unit) { // what is in it would be of the namespace
		q.unit = placementv1alpha1.NamespaceUnit
	}
	snapshot, err := d.lookup.snapshot(ctx, q)
	if err != nil {
		return status, err
	}
	unit := snapshot.unit
	if unit.Others == nil && spec.Policy != nil && len(spec.Policy.Affinity) > 0 {
		if unit.Others, err = d.lookup.others(ctx, q.cluster, q.namespace.Name); err != nil {
			return status, err
		}
	}
	unit.Needs = needs
	if obj, ok := q.object.(*unstructured.Unstructured); ok {
		restrict(&unit, snapshot.Snapshot, q.kind, obj.Object)
	}
	status.Unit, status.Decided = stored.Name, stamp.Decided(stored).Names()
	q.unit = stored.Name
	if !spec.Anew {
		unit.Decided = status.Decided
		unit.Bound, unit.BoundBy = placement.BoundOf(stored)
	}
	var objects []transition.Object // of what may have to move
	switch {
	case len(status.Decided) > 0:
		if objects, err = d.objectsOf(ctx, q, snapshot, &unit); err != nil {
			return status, fmt.Errorf("looking for what it has: %w", err)
		}
	case stored.UID != "":
		if err := d.includeWaiting(ctx, q, snapshot, &unit); err != nil {
			return status, fmt.Errorf("looking for what waits: %w", err)
		}
	}
	snapshot.Policies = supposed(snapshot.Policies, spec, unit.Name)
	snapshot.PhysicalClusters = candidates(snapshot.PhysicalClusters, spec)
	decision := d.assumptions.ask(snapshot.Snapshot, unit, q.id(), spec.Assumed)
	if spec.Return && !spec.Anew {
		if a := stored.Status.Awaited; a != nil {
			unit.Awaited = a.PhysicalClusters
		}
		if preferred := d.assumptions.prefer(snapshot.Snapshot, unit, q.id(), spec.Assumed); preferred.Better {
			decision = preferred.Decision
		}
	}
	status.PhysicalClusters, status.Message, status.Policies = decision.PhysicalClusters, decision.Message(), decision.Policies
	status.Requests = decision.Requests
	status.SchedulerName, status.Permitted = decision.Scheduler, decision.Permitted
	status.Division, status.Overrides, status.Rollout = decision.Division, decision.Overrides, decision.Rollout
	if obj, ok := q.object.(*unstructured.Unstructured); ok && decision.Division != nil {
		status.Shares = stamp.SharesOf(decision.Division, q.kind, obj.Object)
	}
	status.Move = cmp.Or(decision.Move.Mode, placementv1alpha1.MoveAuto)
	status.MoveTimes = transition.TimesOf(decision.Move)
	if from := left(status.Decided, status.PhysicalClusters); len(from) > 0 {
		shared := shared(snapshot, status.Decided, status.PhysicalClusters)
		status.Obstacles = transition.Obstacles(objects, from, handed(snapshot, status.PhysicalClusters, len(snapshot.selectors) > 0, shared), snapshot.forgotten)
		status.StopsFirst = transition.StopsFirst(objects, from, shared)
	}
	for _, no := range decision.Rejected {
		status.Rejected = append(status.Rejected, no.API())
	}
	return status, nil
}

// candidates are the physical clusters as a review has them.
func candidates(all []placement.PhysicalCluster, spec *placementv1alpha1.PlacementReviewSpec) []placement.PhysicalCluster {
	var out []placement.PhysicalCluster
	for _, c := range all {
		if slices.Contains(spec.Without, c.Name) {
			continue
		}
		if slices.Contains(spec.Drained, c.Name) {
			c.PhysicalCluster = c.PhysicalCluster.DeepCopy()
			c.Spec.Drain.Requested = true
		}
		out = append(out, c)
	}
	return out
}

// supposed are the policies as a review has them.
func supposed(policies []placement.Policy, spec *placementv1alpha1.PlacementReviewSpec, unit string) []placement.Policy {
	name := placementv1alpha1.PolicyName{Level: placementv1alpha1.PolicyNamespace, Name: "spec.policy"}
	if spec.Replaces != nil {
		name = *spec.Replaces
		policies = slices.DeleteFunc(policies, func(p placement.Policy) bool { return p.Level == name.Level && p.Name == name.Name })
	}
	if spec.Policy == nil {
		return policies
	}
	p := placement.Policy{PolicyReference: placementv1alpha1.PolicyReference{Level: name.Level, Name: name.Name}, Rules: spec.Policy}
	if unit != placementv1alpha1.NamespaceUnit {
		p.Unit = unit
	}
	return append(policies, p)
}

// forgets says that a review supposes that the policy that makes a unit is gone.
func forgets(spec *placementv1alpha1.PlacementReviewSpec, unit string) bool {
	return spec.Policy == nil && spec.Replaces != nil && *spec.Replaces == placementv1alpha1.PolicyName{Level: placementv1alpha1.PolicyNamespace, Name: unit}
}

func validateName(n *placementv1alpha1.PolicyName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	levels := []placementv1alpha1.PolicyLevel{placementv1alpha1.PolicyGlobal, placementv1alpha1.PolicyLogicalCluster, placementv1alpha1.PolicyNamespace}
	if !slices.Contains(levels, n.Level) {
		errs = append(errs, field.NotSupported(path.Child("level"), n.Level, levels))
	}
	if n.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "which policy it is"))
	}
	return errs
}

// left are the physical clusters that a unit would leave; none if it can go nowhere.
func left(decided, next []string) []string {
	if len(next) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(decided), func(name string) bool { return slices.Contains(next, name) })
}

// objectsOf are the placed objects of a unit, also those that are mirrored. It adds to the unit what they need.
func (d *decider) objectsOf(ctx context.Context, q question, read snapshot, u *placement.Unit) ([]transition.Object, error) {
	include, err := q.including(read, u)
	if err != nil {
		return nil, err
	}
	var objects []transition.Object
	err = d.eachMember(ctx, q, read.selectors, func(kind workload.Kind, obj *unstructured.Unstructured) error {
		objects = append(objects, transition.Object{Kind: kind, Logical: obj})
		return include(kind, obj)
	})
	return objects, err
}
