package syncer

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Readiness is what a syncer knows of its physical cluster, and of itself.
type Readiness struct {
	// Failure says why the physical cluster cannot be worked with; nil if it can.
	Failure *Failure
	// Identified: it is the one that is meant.
	Identified bool
	// Forgotten: an admin gave it up, and the server says what follows from that.
	Forgotten bool
	// Watching: all watches are held, as far as is known.
	Watching bool
	// Awaited names the objects whose first list has not ended, if it is known.
	Awaited string
	// Undecided counts the orphans that wait for an order.
	Undecided int32
}

// Conditions are those of the PhysicalCluster. Ready is True if there is no failure. A
// watch on what does not answer may be as dead as that, which nobody knows:
//
//	forgotten  identified  watching  failure  Syncing
//	yes        any         any       any      said by the server
//	no         no          any       any      False, Identifying
//	no         yes         no        any      False, Starting
//	no         yes         yes       some     Unknown, with the reason of the failure
//	no         yes         yes       none     True, Watching
func (r Readiness) Conditions(generation int64) []metav1.Condition {
	ready := metav1.Condition{
		Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: fleetv1alpha1.ReasonHeartbeat, Message: "the physical cluster answers",
	}
	if r.Failure != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, r.Failure.Reason, r.Failure.Message
	}
	if r.Forgotten {
		return []metav1.Condition{ready}
	}
	syncing := metav1.Condition{Type: fleetv1alpha1.ConditionSyncing, Status: metav1.ConditionFalse, ObservedGeneration: generation}
	switch {
	case !r.Identified:
		syncing.Reason, syncing.Message = fleetv1alpha1.ReasonIdentifying, "nothing is synced before the physical cluster is known to be the one that is meant"
	case !r.Watching:
		syncing.Reason, syncing.Message = "Starting", "the watches are not complete yet"
		if r.Awaited != "" {
			syncing.Message += fmt.Sprintf(": the first list of %s has not ended", r.Awaited)
		}
	case r.Failure != nil:
		syncing.Status, syncing.Reason, syncing.Message = metav1.ConditionUnknown, r.Failure.Reason, "whether the watches still work is not known: "+r.Failure.Message
	default:
		syncing.Status, syncing.Reason, syncing.Message = metav1.ConditionTrue, "Watching", "all watches are held"
	}
	if r.Undecided > 0 {
		syncing.Message += fmt.Sprintf("; %d objects there have neither an object nor a record here and wait for an order, see kubectl get orphans", r.Undecided)
	}
	return []metav1.Condition{ready, syncing}
}

// ExcessFailure says that a physical cluster shows more than is kept of it; nil if excess is.
func ExcessFailure(excess error) *Failure {
	if excess == nil {
		return nil
	}
	return &Failure{Reason: fleetv1alpha1.ReasonTooLarge, Message: fmt.Sprintf("it shows more objects of this control plane than a syncer keeps: %v; "+
		"nothing is synced before there are fewer: look for what makes them there, or raise %s and %s in spec.bounds of the PhysicalCluster",
		excess, fleetv1alpha1.BoundObjects, fleetv1alpha1.BoundObjectsMemory)}
}

// ContactFailure says why a physical cluster cannot be worked with that answered a
// question of no particular object with err, without anything secret of the kubeconfig.
//
//	err                        reason       the message has
//	Unauthorized               Forbidden    no word of the answer
//	Forbidden                  Forbidden    no word of the answer
//	any other answer           Unreachable  code and reason of the answer
//	none: it was not answered  Unreachable  the cause, without the address
func ContactFailure(err error) *Failure {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return &Failure{Reason: fleetv1alpha1.ReasonForbidden, Message: "the physical cluster does not accept the credentials"}
	case apierrors.IsForbidden(err):
		return &Failure{Reason: fleetv1alpha1.ReasonForbidden, Message: "the credentials do not permit what a syncer does"}
	case errors.As(err, &status):
		return &Failure{Reason: fleetv1alpha1.ReasonUnreachable, Message: fmt.Sprintf("the physical cluster answers with %d %s", status.Status().Code, status.Status().Reason)}
	}
	text := err.Error()
	if _, cause, ok := strings.Cut(text, "\": "); ok { // Get "https://...": cause
		text = cause
	}
	return &Failure{Reason: fleetv1alpha1.ReasonUnreachable, Message: "the physical cluster cannot be reached: " + text}
}

// IdentityFailure is ContactFailure of the question who the physical cluster is.
func IdentityFailure(err error) *Failure {
	switch {
	case apierrors.IsForbidden(err):
		return &Failure{Reason: fleetv1alpha1.ReasonForbidden, Message: "the credentials do not permit to get the namespace kube-system, whose UID says which cluster this is"}
	case apierrors.IsNotFound(err):
		return &Failure{Reason: fleetv1alpha1.ReasonUnreachable, Message: "the physical cluster has no namespace kube-system, whose UID says which cluster it is"}
	}
	return ContactFailure(err)
}
