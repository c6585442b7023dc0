package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/rollout"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// unit is all that is known of one unit of a namespace.
type unit struct {
	key       controller.Request
	namespace *corev1.Namespace
	placement *placementv1alpha1.Placement
	split
	objects []placement.Object
	// outside says that an object of the unit has a copy where it is not to be.
	outside bool
	// populated says that a placed object is in the unit.
	populated bool
	// also says of objects which other policies select them.
	also []string
	// unplaced is for each unit without a placement its oldest object.
	unplaced map[string]stamped
	// unsure says that it is not known of some object to which units it belongs.
	unsure bool
	// pending wait for a decision.
	pending []stamped
	// kept says of which objects replicas are kept until others are available.
	kept []string
	// staged says that a change of an object of the unit, or of a ConfigMap or Secret, has not
	// reached all waves, and step what follows.
	staged bool
	step   rollout.Step
	// awaiting are claims that wait somewhere for the volume that they have elsewhere.
	awaiting []transition.Object
	// awaited is what the unit waits to return to.
	awaited *placementv1alpha1.Awaited
	// stale have not the targets that the decision wants. What rules the namespace is
	// first, then the Namespace: they go down before what they rule and hold.
	stale []stamped
}

// stamped is an object that admission stamps.
type stamped struct {
	resource schema.GroupVersionResource
	kind     workload.Kind
	object   *metav1.PartialObjectMetadata
}

// read gathers a unit from the informers; ok is false if there is nothing to do
// for it.
func (c *Controller) read(ctx context.Context, key controller.Request) (*unit, bool, error) {
	u := &unit{key: key, unplaced: map[string]stamped{}}
	var ok bool
	if u.placement, ok = c.Placements.Get(key); !ok {
		return nil, false, nil
	}
	if u.namespace, ok = c.Namespaces.Get(controller.Request{Cluster: key.Cluster, Name: key.Namespace}); !ok {
		return nil, false, nil
	}
	if !stamp.BelongsTo(u.placement, u.namespace.UID) {
		return nil, false, nil // of an earlier namespace: admission replaces it
	}
	var err error
	if u.split, err = c.divide(ctx, u.placement, u.namespace, u); err != nil {
		return nil, false, err
	}
	var rest []stamped
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		for _, o := range c.of(kind, u) {
			if !u.add(kind, o) {
				continue
			}
			rest = append(rest, stamped{resource: kind.GroupVersionResource(), kind: kind, object: o})
		}
	}
	sortStamped(rest)
	if u.placement.Spec.Decision == nil {
		u.pending = rest
	} else {
		u.stale = rest
	}
	return u, true, nil
}

// of are the objects of a kind in a unit: for Namespaces, its own.
func (c *Controller) of(kind workload.Kind, u *unit) []*metav1.PartialObjectMetadata {
	if kind.Role == workload.Container {
		return []*metav1.PartialObjectMetadata{{ObjectMeta: u.namespace.ObjectMeta}}
	}
	informer := placed.Of(c.Objects, kind)
	if informer == nil {
		return nil
	}
	list := informer.ListNamespace(u.key.Cluster, u.key.Namespace)
	if !workload.Places(c.Kinds, u.key.Cluster, kind) {
		list = slices.DeleteFunc(list, func(o *metav1.PartialObjectMetadata) bool { return !stamp.HasTargets(o) })
	}
	return list
}

// add takes note of an object, and reports whether admission has to see it: it waits
// for a decision, or its stamp is not what the decision wants.
func (u *unit) add(kind workload.Kind, o *metav1.PartialObjectMetadata) bool {
	names, known := u.unitsOf(kind, o)
	if !known {
		u.unsure = true // the watch cache that the namespace was divided by is behind
		return false
	}
	if u.divided() {
		u.sort(kind, o, names)
		if !u.mine(names) || u.waits(kind, o, names) {
			return false // what waits comes in when the transition is over
		}
	}
	u.staged = u.staged || stamp.Staged(o)
	current, decided := stamp.TargetsOf(o.Annotations), u.merge(names)
	if len(current) > 0 {
		u.objects = append(u.objects, placement.Object{UID: o.UID, Targets: current})
		u.outside = u.outside || decided.Outside(o)
	}
	if o.DeletionTimestamp != nil || u.namespace.DeletionTimestamp != nil || kind.Role == workload.Referenced {
		return false
	}
	if decided == nil {
		// What runs already has a unit that it came into begin there.
		return kind.Role == workload.Placed && (len(current) == 0 || u.divided() && !stamp.Mirrored(o)) && stamp.GoesDown(kind, u.key.Cluster, o)
	}
	if kind.Role == workload.Container && stamp.LacksName(o, u.key.Cluster) {
		return true
	}
	if kind.IsClaim() && stamp.AwaitsVolume(o) {
		u.awaiting = append(u.awaiting, transition.Object{Kind: kind, Logical: metadataOf(o), Unit: decided})
		return true // its Copies say whether it has to; see subscribe
	}
	return u.unrecorded(kind, o, names) || !stamp.Equal(current, stamp.Targets(kind, u.key.Cluster, o, stamp.Source{Unit: decided, Division: u.division(names), Overrides: u.overrides(names)}))
}

// sort takes note of an object of a divided namespace.
func (u *unit) sort(kind workload.Kind, o *metav1.PartialObjectMetadata, names []string) {
	if kind.Role != workload.Placed || stamp.Mirrored(o) || !stamp.GoesDown(kind, u.key.Cluster, o) {
		return
	}
	u.populated = u.populated || u.mine(names)
	if o.DeletionTimestamp != nil {
		return
	}
	s := stamped{resource: kind.GroupVersionResource(), kind: kind, object: o}
	if len(names) == 1 && !u.has(names[0]) { // what is in several units is decided by what it is about
		if was, ok := u.unplaced[names[0]]; !ok || s.before(was) {
			u.unplaced[names[0]] = s
		}
	}
	if _, also := units.Selected(u.selectors, kind, o); len(also) > 0 && !kind.Follows() && u.mine(names) {
		u.also = append(u.also, fmt.Sprintf("%s %s is selected by %s, too", kind.Kind, o.Name, strings.Join(also, ", ")))
	}
}
