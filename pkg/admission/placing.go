package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/atoll-dev/atoll/pkg/admission/protect"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/reads"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// placing stamps on objects the targets that follow from the placements of their
// units; the first object of a placed kind has its unit decided.
type placing struct {
	placements *controller.Informer[*placementv1alpha1.Placement]
	copies     *copyindex.Informer
	decider    *decider
	rules      *rules
	units      *belongings
	scalers    *reads.Shared[controller.Request, stamp.Scalers]
}

func newPlacing(config Config, lookup *lookup) *placing {
	rules := newRules(lookup)
	return &placing{placements: config.Placements, copies: config.Copies, decider: newDecider(config, lookup, rules), rules: rules, units: newBelongings(config, lookup), scalers: newScalers(lookup)}
}

// admit stamps r.obj whenever the targets that it should have are not those that it
// has, so that a new decision reaches it by any write.
//
//	decided  operation  requester  outcome
//	yes      any        any        stamped (informer)
//	no       create     any        decided and stamped, or pending, or refused. What follows
//	                               others is pending, see awaitsPods
//	no       update     system     decided and stamped, or still pending: the placement
//	                               controller sends pending objects through admission
//	no       update     user       still pending, or where it is
//
// Only objects of placed kinds have a unit decided; what rules the namespace, and the
// Namespace itself, are stamped once it is. What a syncer records has to be placed
// already. References are followed by a controller.
func (p *placing) admit(ctx context.Context, r *request) error {
	if r.syncer != "" && r.GetOperation() == admission.Create {
		return p.record(ctx, r)
	}
	if r.groupResource() == reviewsResource {
		return p.review(ctx, r)
	}
	kind, ok := p.stamps(r)
	if !ok || r.obj.GetDeletionTimestamp() != nil {
		return nil
	}
	unit, err := p.known(ctx, r, kind)
	if err != nil {
		return err
	}
	if unit == nil && kind.Role == workload.Placed && p.mayDecide(r) && stamp.GoesDown(kind, r.cluster, r.obj) {
		if unit, err = p.decide(ctx, r, kind); err != nil {
			return err
		}
	}
	if err := p.restamp(ctx, r, kind, r.obj, unit); err != nil {
		return err
	}
	return p.warn(ctx, r, kind, unit)
}

// mayDecide says that a request has its unit decided. What has targets waits for nothing;
// but the unit that it came into may.
func (p *placing) mayDecide(r *request) bool {
	switch {
	case r.belongs.waits:
		return false
	case !stamp.HasTargets(r.obj):
		return r.GetOperation() == admission.Create || r.system
	case !r.system || stamp.Mirrored(r.obj):
		return false
	}
	return r.belongs.divided || p.placements.HasNamespace(r.cluster, r.GetNamespace())
}

// stamps reports whether a request may change the stamp of its object. A Namespace
// that does not exist yet has no placement.
func (p *placing) stamps(r *request) (workload.Kind, bool) {
	kind, ok := r.kinds.ByResource(r.groupResource())
	return kind, ok && kind.Role != workload.Referenced && r.GetSubresource() == "" && r.syncer == "" &&
		(kind.Role != workload.Container || r.old != nil)
}

// restamp gives obj, the object of the request or a copy of it, what the decision
// for its unit wants; nil changes nothing.
func (p *placing) restamp(ctx context.Context, r *request, kind workload.Kind, obj metav1.Object, unit stamp.Unit) error {
	if unit == nil {
		return nil
	}
	runs, mounts, err := p.runsOf(ctx, r, kind, obj, unit)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	wish, err := p.wishOf(ctx, r, kind)
	if apierrors.IsForbidden(err) {
		return err
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	scaling, err := p.scalingOf(ctx, r, kind, obj, unit)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	claim, err := p.handedOver(r, kind, obj, unit)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	targets := stamp.Targets(kind, r.cluster, obj, stamp.Source{
		Unit: unit, Runs: runs, Mounts: mounts, Volume: claim.Volume, Shared: claim.Shared, Volumes: claim.Volumes,
		Division: r.division, Wish: wish, Overrides: r.overrides, Scaling: scaling,
	})
	if !stamp.Equal(targets, stamp.TargetsOf(obj.GetAnnotations())) {
		stamp.Set(obj, targets)
	}
	if kind.Role == workload.Placed {
		stamp.Join(obj, r.belongs.units)
	}
	if kind.Role == workload.Container && targets != nil {
		id, err := p.decider.id(ctx)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		stamp.NamePhysicalNamespace(obj, id, r.cluster)
	}
	return nil
}

// runsOf says how the object of a request runs, and whether it mounts claims that are in one place at a time,
// where that counts: it is on its way, or waits.
func (p *placing) runsOf(ctx context.Context, r *request, kind workload.Kind, obj metav1.Object, unit stamp.Unit) (_ workload.Runs, mounts bool, _ error) {
	if kind.Role != workload.Placed || unit.Settled() && !stamp.Waits(obj) && !unit.Outside(obj) {
		return workload.RunsAnywhere, false, nil
	}
	content, err := external(kind, r.GetObject())
	if err != nil {
		return "", false, err
	}
	if mounts = workload.MountsClaims(kind, content); mounts && !unit.Settled() {
		opens, err := p.opens(ctx, r, kind, content, unit)
		if err != nil {
			return "", false, err
		}
		mounts = !opens
	}
	return workload.RunsOf(kind, content), mounts, nil
}

// allowed reports whether an update by a user changed nothing of the stamp of the
// stored object but what the present decision wants.
func (p *placing) allowed(ctx context.Context, r *request) (bool, error) {
	stamped := stamp.Metadata(r.old)
	if err := p.stage(ctx, r, stamped); err != nil {
		return false, err
	}
	kind, ok := p.stamps(r)
	if !ok {
		return protect.Equal(r.obj, stamped), nil
	}
	unit, err := p.known(ctx, r, kind)
	if err != nil {
		return false, err
	}
	if err := p.restamp(ctx, r, kind, stamped, unit); err != nil {
		return false, err
	}
	return protect.Equal(r.obj, stamped), nil
}

// known is the decision for the units of an object that the informers have, once the
// Namespace has it.
func (p *placing) known(ctx context.Context, r *request, kind workload.Kind) (stamp.Unit, error) {
	of, err := p.units.of(ctx, r, kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	all, err := p.decided(ctx, r, of)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if !all.any() {
		return nil, nil
	}
	if kind.Role == workload.Placed && !stamp.IsIn(r.obj, of.units) && units.Waits(r.obj, of.units, append(all.others, all.first)...) {
		r.belongs = &belonging{units: of.units, divided: of.divided, also: of.also, waits: true}
		return nil, nil
	}
	if kind.Role == workload.Container {
		r.overrides = all.overrides(r.old.GetUID())
		return all.of(r.old.GetUID()), nil
	}
	namespace, err := r.getNamespace(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	}
	unit := all.of(namespace.UID)
	r.division, r.overrides = all.division(namespace.UID), all.overrides(namespace.UID)
	if unit == nil || !stamp.HasTargets(namespace) || of.divided && kind.Role == workload.Placed && !unit.Within(namespace) {
		// Whoever decided has yet to stamp it, and may fail to: it may be deleted first.
		// What had targets in it then could be neither copied nor end.
		return nil, nil
	}
	return unit, nil
}

// decisions are placements of units that have a decision: mostly one.
type decisions struct {
	first  *placementv1alpha1.Placement
	others []*placementv1alpha1.Placement
}

func (d *decisions) add(p *placementv1alpha1.Placement) {
	switch {
	case p.Spec.Decision == nil:
	case d.first == nil:
		d.first = p
	default:
		d.others = append(d.others, p)
	}
}

func (d decisions) any() bool { return d.first != nil }

// of is where what is in these units of a Namespace is; nil if none of them is one of that
// Namespace.
func (d decisions) of(namespace types.UID) stamp.Unit {
	var unit stamp.Unit
	if stamp.BelongsTo(d.first, namespace) {
		unit = stamp.UnitOf(d.first)
	}
	for _, other := range d.others {
		if stamp.BelongsTo(other, namespace) {
			unit = stamp.Merge(unit, stamp.UnitOf(other))
		}
	}
	return unit
}

// division is how the replicas of what is in one unit are divided. What is in several makes
// no pods.
func (d decisions) division(namespace types.UID) *placementv1alpha1.DecidedDivision {
	if len(d.others) > 0 || !stamp.BelongsTo(d.first, namespace) {
		return nil
	}
	return stamp.DivisionOf(d.first)
}

// overrides are what changes of the copies of what is in these units of a Namespace.
func (d decisions) overrides(namespace types.UID) []placementv1alpha1.DecidedOverride {
	if len(d.others) == 0 {
		if !stamp.BelongsTo(d.first, namespace) {
			return nil
		}
		return stamp.OverridesOf(d.first)
	}
	units := append(slices.Clone(d.others), d.first)
	slices.SortFunc(units, func(a, b *placementv1alpha1.Placement) int { return strings.Compare(a.Name, b.Name) })
	var all [][]placementv1alpha1.DecidedOverride
	for _, p := range units {
		if stamp.BelongsTo(p, namespace) {
			all = append(all, stamp.OverridesOf(p))
		}
	}
	return stamp.MergeOverrides(all...)
}

// decided are the decisions for the units of an object. That of a unit on its way is read
// from the server for whatever users write: its phases follow each other within seconds,
// and what is stamped by one that is over would be made where everything is removed. After a
// standstill all are: this server does not know what others decided meanwhile, and what it stamps
// by a phase of before could have removed what they brought back.
func (p *placing) decided(ctx context.Context, r *request, of *belonging) (decisions, error) {
	var all []*placementv1alpha1.Placement
	if of.units == nil {
		all = p.placements.ListNamespace(r.cluster, r.GetNamespace())
	}
	for _, unit := range of.units {
		if one, ok := p.placements.Get(controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace(), Name: unit}); ok {
			all = append(all, one)
		}
	}
	var out decisions
	behind := p.decider.lookup.behind()
	for _, one := range all {
		if one.Spec.Transition != nil && r.user() || behind {
			live, err := p.decider.client.PlacementV1alpha1().Placements(one.Namespace).Get(at(ctx, r.cluster), one.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return decisions{}, fmt.Errorf("reading placement %s: %w", one.Name, err)
			}
			one = live
		}
		out.add(one)
	}
	return out, nil
}

// decide asks the decider and says what the user should know.
func (p *placing) decide(ctx context.Context, r *request, kind workload.Kind) (stamp.Unit, error) {
	namespace, err := r.getLiveNamespace(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, err
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
	case namespace.DeletionTimestamp != nil:
		if r.GetOperation() == admission.Create {
			return nil, terminating(r)
		}
		return nil, nil
	}
	outcome, err := p.decider.decide(ctx, question{
		cluster: r.cluster, kinds: r.kinds, namespace: namespace, kind: kind, object: r.GetObject(), unit: r.belongs.units[0],
		dryRun: r.IsDryRun(), mayRefuse: r.GetOperation() == admission.Create, retried: r.system && r.GetOperation() == admission.Update,
	})
	switch {
	case errors.Is(err, errNamespaceLeaves) && r.GetOperation() == admission.Create:
		return nil, terminating(r)
	case errors.Is(err, errNamespaceLeaves):
		return nil, nil
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("placing namespace %s: %w", namespace.Name, err))
	case outcome.unit != nil:
		r.division, r.overrides = outcome.division, outcome.overrides
		return outcome.unit, nil
	case outcome.refused:
		return nil, admission.NewForbidden(r.Attributes, errors.New("it cannot be placed: "+outcome.message))
	case r.user() && outcome.message != "":
		warning.AddWarning(ctx, "", fmt.Sprintf("%s is not placed yet, the object waits: %s", unitName(namespace.Name, r.belongs.units[0]), outcome.message))
	}
	return nil, nil
}

// unitName names a unit for people.
func unitName(namespace, unit string) string {
	if unit == placementv1alpha1.NamespaceUnit {
		return "namespace " + namespace
	}
	return "what policy " + unit + " of namespace " + namespace + " selects"
}

// owner makes a placement that of a namespace.
func owner(namespace *corev1.Namespace) metav1.OwnerReference {
	isController := true
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID, Controller: &isController}
}
