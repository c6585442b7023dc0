package syncer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// Unwatched is what there is no watch of, at the time Now.
	Unwatched []Unwatched
	Now       time.Time
	// Undecided counts the orphans that wait for an order.
	Undecided int32
}

// Unwatched is what a syncer has no watch of, so that what it knows of that is of before.
type Unwatched struct {
	// Objects names it.
	Objects string
	// Since is when the first attempt to watch failed after which none succeeded, and Err how the last one did.
	Since time.Time
	Err   error
}

// unwatchedDelay is how long there may be no watch of something before that is said: one that ends is begun anew
// within moments, and the attempts after one that failed are 15 s apart at most.
const unwatchedDelay = 30 * time.Second

// Conditions are those of the PhysicalCluster. Ready is True if there is no failure. A
// watch on what does not answer may be as dead as that, which nobody knows:
//
//	forgotten  identified  watching  failure  unwatched for 30 s  Syncing
//	yes        any         any       any      any                 said by the server
//	no         no          any       any      any                 False, Identifying
//	no         yes         no        any      not what it awaits  False, Starting
//	no         yes         no        any      what it awaits      False, Forbidden or NotWatching
//	no         yes         yes       some     any                 Unknown, with the reason of the failure
//	no         yes         yes       none     something           False, Forbidden or NotWatching
//	no         yes         yes       none     nothing             True, Watching
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
		if all := r.unwatched(func(u Unwatched) bool { return u.Objects == r.Awaited }); len(all) > 0 {
			syncing.Reason, syncing.Message = all[0].reason(), syncing.Message+", as "+all[0].why()
		}
	case r.Failure != nil:
		syncing.Status, syncing.Reason, syncing.Message = metav1.ConditionUnknown, r.Failure.Reason, "whether the watches still work is not known: "+r.Failure.Message
	case len(r.unwatched(nil)) > 0:
		all := r.unwatched(nil)
		syncing.Reason = all[0].reason()
		syncing.Message = fmt.Sprintf("there is no watch of %s since %s, as %s", all[0].Objects, all[0].Since.UTC().Format(time.RFC3339), all[0].why())
		if n := len(all) - 1; n > 0 {
			syncing.Message += fmt.Sprintf("; nor of %d other kinds", n)
		}
	default:
		syncing.Status, syncing.Reason, syncing.Message = metav1.ConditionTrue, "Watching", "all watches are held"
	}
	if r.Undecided > 0 {
		syncing.Message += fmt.Sprintf("; %d objects there have neither an object nor a record here and wait for an order, see kubectl get orphans", r.Undecided)
	}
	return []metav1.Condition{ready, syncing}
}

// unwatched is what there has been no watch of for some time, of that for which is holds, the longest first.
func (r Readiness) unwatched(is func(Unwatched) bool) (all []Unwatched) {
	for _, u := range r.Unwatched {
		if (is == nil || is(u)) && !r.Now.Before(u.Since.Add(unwatchedDelay)) {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b Unwatched) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Objects, b.Objects)) })
	return all
}

func (u Unwatched) reason() string {
	if apierrors.IsForbidden(u.Err) || apierrors.IsUnauthorized(u.Err) {
		return fleetv1alpha1.ReasonForbidden
	}
	return fleetv1alpha1.ReasonNotWatching
}

// why is without a word of an answer, as the one who gave it may have put anything into it.
func (u Unwatched) why() string {
	var status apierrors.APIStatus
	switch {
	case u.reason() == fleetv1alpha1.ReasonForbidden:
		return "that is not permitted: kubectl atoll register makes credentials that are (--make-credentials, --agent)"
	case errors.As(u.Err, &status):
		return fmt.Sprintf("the answer is %d %s", status.Status().Code, status.Status().Reason)
	}
	return "there is no answer"
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
