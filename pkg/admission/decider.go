package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// decider decides units and stores the decisions. Whoever stores first
// wins; everybody else takes what is stored.
type decider struct {
	kube         kubernetes.Interface
	client       versioned.Interface
	lookup       *lookup
	rules        *rules
	controlPlane func(context.Context) (string, error)
	assumptions  *assumptions
}

func newDecider(config Config, lookup *lookup, rules *rules) *decider {
	return &decider{
		kube: config.Kube, client: config.Client, lookup: lookup, rules: rules, controlPlane: config.ControlPlane,
		assumptions: newAssumptions(config.Clock, config.Decide, config.Placements),
	}
}

// question is about a unit of a namespace, as read live, and the object that asks.
type question struct {
	cluster   logicalcluster.Name
	kinds     workload.Catalog
	namespace *corev1.Namespace
	// unit is the name of the Placement.
	unit string
	// pin is where a user would want the unit, if that is supposed.
	pin    *string
	kind   workload.Kind
	object runtime.Object
	dryRun bool
	// retried: the control plane asks once more for an object that waits.
	retried bool
	// mayRefuse: the object does not exist yet, so a policy may refuse it.
	mayRefuse bool
	// reserved is when who asks has reserved last; nil: it does not decide.
	reserved *metav1.MicroTime
}

// outcome has the targets of the unit, or says why there are none.
type outcome struct {
	unit stamp.Unit
	// division is how its replicas are divided.
	division *placementv1alpha1.DecidedDivision
	// overrides are what changes of its copies.
	overrides []placementv1alpha1.DecidedOverride
	message   string
	refused   bool
}

// errNamespaceLeaves: the namespace was deleted while it was decided.
var errNamespaceLeaves = errors.New("the namespace is being deleted")

// maxTries bounds the races that one request loses against others.
const maxTries = 5

func (d *decider) decide(ctx context.Context, q question) (outcome, error) {
	var err error
	q.reserved = new(metav1.MicroTime)
	for range maxTries {
		var o outcome
		if o, err = d.try(ctx, q); err == nil {
			return o, nil
		}
		if _, late, final := isLate(err); final {
			break
		} else if late {
			continue // what others have is known now
		}
		if other := new(otherUnit); errors.As(err, other) {
			q.unit = other.name
			continue
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return outcome{}, err
		}
		namespace, readErr := d.lookup.liveNamespace(ctx, q.cluster, q.namespace.Name)
		if readErr != nil {
			return outcome{}, fmt.Errorf("reading the namespace again: %w", readErr)
		}
		if namespace.UID != q.namespace.UID || namespace.DeletionTimestamp != nil {
			// Who asked meant the one that is gone, or going: it takes no stamp any more,
			// and without one what is placed in it could neither be copied nor end.
			return outcome{}, errNamespaceLeaves
		}
		q.namespace = namespace
	}
	late, is, _ := isLate(err)
	if !is {
		return outcome{}, err
	}
	o, err := d.settle(ctx, q, late.stored, late.without())
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return q.outcome(late.without()), nil // somebody else decides, or says why not
	}
	return o, err
}

func (d *decider) try(ctx context.Context, q question) (outcome, error) {
	stored, err := d.unreserved(ctx, q)
	if err != nil {
		return outcome{}, err
	}
	if unit := stamp.UnitOf(stored); unit != nil {
		return outcome{unit: unit, division: stamp.DivisionOf(stored), overrides: stamp.OverridesOf(stored)}, d.stampNamespace(ctx, q, unit, stamp.OverridesOf(stored))
	}
	read, err := d.lookup.snapshot(ctx, q)
	if err != nil {
		return outcome{}, err
	}
	snapshot, unit := read.Snapshot, read.unit
	unit.Bound, unit.BoundBy = placement.BoundOf(stored)
	if err := q.belongsElsewhere(read.selectors); err != nil {
		return outcome{}, err
	}
	obj, err := external(q.kind, q.object)
	if err != nil {
		return outcome{}, err
	}
	if err := include(&unit.Needs, q.kind, obj); err != nil {
		return outcome{}, err
	}
	restrict(&unit, snapshot, q.kind, obj)
	if n := len(snapshot.PhysicalClusters); q.mayRefuse && n > 0 && len(unit.NotPermitted) == n {
		// Waiting, it would keep all else from being placed.
		return outcome{refused: true, message: notPermitted(snapshot.PhysicalClusters[0].Name, unit.NotPermitted[snapshot.PhysicalClusters[0].Name])}, nil
	}
	waits := q.awaitsPods(stored)
	// Others may wait already. What they need can only leave fewer physical clusters.
	if stored.UID != "" && !waits && placement.Decide(snapshot, unit).Possible() {
		if err := d.includeWaiting(ctx, q, read, &unit); err != nil {
			return outcome{}, fmt.Errorf("looking for what else waits: %w", err)
		}
	}
	decision, reservation, forget := d.assumptions.decide(snapshot, unit, q.id())
	began, err := d.begin(ctx, q, read, &decision)
	if err != nil {
		forget()
		return outcome{}, fmt.Errorf("looking for what runs already: %w", err)
	}
	if waits && !began && (decision.Possible() || decision.Scheduler != "") {
		forget()
		return d.await(ctx, q, stored)
	}
	if began {
		forget() // it takes nothing that it has not, and nobody looked whether that fits
		reservation, decision.Requests = nil, nil
	}
	if o := q.outcome(decision); q.dryRun || o.refused {
		forget()
		return o, nil
	}
	if reservation != nil {
		if stored, err = d.reserve(ctx, q, stored, read.Snapshot, unit, decision, reservation); err != nil {
			forget()
			return outcome{}, err
		}
	}
	o, err := d.settle(ctx, q, stored, decision)
	if err != nil {
		forget() // what is stored, the informer has
	}
	return o, err
}

// outcome is what a decision comes to for who asks.
func (q question) outcome(decision placement.Decision) outcome {
	o := outcome{message: decision.Message(), refused: decision.Refuse && !decision.Possible() && q.mayRefuse}
	if decision.Possible() {
		o.unit, o.division, o.overrides = stamp.UnitOn(decision.PhysicalClusters), decision.Division, decision.Overrides
	}
	return o
}

// settle stores a decision, says why, and stamps the Namespace.
func (d *decider) settle(ctx context.Context, q question, stored *placementv1alpha1.Placement, decision placement.Decision) (outcome, error) {
	o := q.outcome(decision)
	if o.refused {
		return o, nil
	}
	stored, err := d.store(ctx, q, stored, decision)
	if err != nil {
		return outcome{}, fmt.Errorf("storing the decision: %w", err)
	}
	if err := d.explain(ctx, q, stored, decision); err != nil {
		return outcome{}, fmt.Errorf("explaining the decision: %w", err)
	}
	if !decision.Possible() {
		return o, nil
	}
	return o, d.stampNamespace(ctx, q, o.unit, o.overrides)
}

// stored reads the placement of the unit; one without UID means that there is none.
// One that was left by an earlier namespace of the same name is removed.
func (d *decider) stored(ctx context.Context, q question) (*placementv1alpha1.Placement, error) {
	none := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{
		Name: q.unit, Namespace: q.namespace.Name,
		OwnerReferences: []metav1.OwnerReference{owner(q.namespace)},
	}}
	p, err := d.lookup.stored().Placement(ctx, q.cluster, q.namespace.Name, q.unit)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return nil, fmt.Errorf("reading the placement: %w", err)
	case stamp.BelongsTo(p, q.namespace.UID):
		return p, nil
	case q.dryRun:
		return none, nil
	}
	err = d.client.PlacementV1alpha1().Placements(q.namespace.Name).Delete(at(ctx, q.cluster), p.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("removing the placement of an earlier namespace: %w", err)
	}
	return none, nil
}

// includeObject adds to the needs of a unit those of an object of admission.
func includeObject(n *placement.Needs, kind workload.Kind, object runtime.Object) error {
	obj, err := external(kind, object)
	if err != nil {
		return err
	}
	return include(n, kind, obj)
}

// external turns an object of admission, which has an internal type, into the
// form in which people write it. A custom resource is in that form, in the version of the
// request.
func external(kind workload.Kind, obj runtime.Object) (map[string]any, error) {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return runtime.DeepCopyJSON(custom.Object), nil
	}
	versioned, err := legacyscheme.Scheme.ConvertToVersion(obj, kind.GroupVersion())
	if err != nil {
		return nil, fmt.Errorf("converting to %s: %w", kind.GroupVersionKind, err)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", kind.GroupVersionKind, err)
	}
	return out, nil
}

// store writes the decision if it is not there; an impossible one leaves an
// undecided placement.
func (d *decider) store(ctx context.Context, q question, p *placementv1alpha1.Placement, decision placement.Decision) (*placementv1alpha1.Placement, error) {
	p = p.DeepCopy()
	p.Spec.Decision = placement.KeepCounted(decision.API(), p.Spec.Decision)
	if decision.Possible() && decision.Scheduler == "" {
		p.Spec.Bound = nil // it is overruled
	}
	if p.UID != "" && !decision.Possible() {
		return p, nil
	}
	return d.write(ctx, q, p)
}

// stampNamespace makes the Namespace, and before it what rules it, carry what the
// decision wants, beside those of the other units of the namespace. Whoever crashes in between leaves it to the next object or to the
// placement controller.
func (d *decider) stampNamespace(ctx context.Context, q question, unit stamp.Unit, overrides []placementv1alpha1.DecidedOverride) error {
	if q.dryRun {
		return nil
	}
	id, err := d.id(ctx)
	if err != nil {
		return err
	}
	others, overrides := d.lookup.otherUnits(q, overrides)
	unit = stamp.Merge(append(others, unit)...)
	patch := stamp.Restamp(q.namespace, func(obj metav1.Object) {
		stamp.Set(obj, stamp.Targets(q.kinds.Container(), q.cluster, obj, stamp.Source{Unit: unit, Overrides: overrides}))
		stamp.NamePhysicalNamespace(obj, id, q.cluster)
	})
	if patch == nil {
		return nil
	}
	err = d.rules.stamp(ctx, q.cluster, q.kinds, q.namespace, func() (stamp.Unit, error) { return unit, nil })
	if err != nil {
		return err
	}
	_, err = d.kube.CoreV1().Namespaces().Patch(at(ctx, q.cluster), q.namespace.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("stamping the namespace: %w", err)
	}
	return nil
}

// id is that of the control plane.
func (d *decider) id(ctx context.Context) (string, error) {
	id, err := d.controlPlane(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the id of the control plane: %w", err)
	}
	if id == "" {
		return "", errors.New("the control plane has no id yet")
	}
	return id, nil
}
