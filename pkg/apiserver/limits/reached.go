package limits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

// ConditionLimitsReached is True of a LogicalCluster that has as much as it may have of something. It
// is not there before that was so for the first time.
const ConditionLimitsReached = "LimitsReached"

// Reasons of the condition, the worst first.
const (
	// ReasonNoMoreRecords: not even the system can record what it does for objects.
	ReasonNoMoreRecords = "NoMoreRecords"
	ReasonObjects       = "Objects"
	ReasonDefinitions   = "Definitions"
	ReasonRecords       = "Records"
	ReasonWithinLimits  = "WithinLimits"
)

// notCarried is what follows if syncers can record nothing new.
const notCarried = "nothing new is carried to physical clusters, nor up from them"

// reached says what there is as much of as there may be, of bytes but for a hundredth; no reason: nothing.
//
//	of a class there is             reason          then
//	less than L                     none
//	L of objects, or definitions    of the class    users make no more
//	L of records                    Records         users make none, as Pods and Events; the system goes on
//	1.5 L of records                NoMoreRecords   syncers record nothing new, and so carry nothing
func reached(use [classes]amount, l limits) (reason, message string) {
	var says []string
	note := func(why, what string) {
		if reason == "" {
			reason = why
		}
		says = append(says, what)
	}
	if of, limit, ok := exhausted(use, l); ok {
		note(ReasonNoMoreRecords, fmt.Sprintf("it has half as many %s again as spec.limits.%s permits (%d): %s", of.what, of.field, limit, notCarried))
	}
	for _, c := range []class{objects, definitions, records} {
		why := [classes]string{objects: ReasonObjects, definitions: ReasonDefinitions, records: ReasonRecords}[c]
		if c == records && reason == ReasonNoMoreRecords {
			continue
		}
		if most := l.kept[c].count; use[c].count >= most {
			note(why, fmt.Sprintf("it has as many %s as spec.limits.%s permits (%d)", counts[c].what, counts[c].field, most))
		}
		if most := l.kept[c].bytes; full(use[c].bytes, most) {
			note(why, fmt.Sprintf("it has as many %s as spec.limits.%s permits (%d)", sizes[c].what, sizes[c].field, most))
		}
	}
	return reason, strings.Join(says, "; ")
}

// exhausted says that not even the system can make records, and which limit that follows from.
func exhausted(use [classes]amount, l limits) (of name, limit int64, ok bool) {
	is, most := use[records], l.kept[records]
	switch {
	case is.count >= most.count+most.count/systemReserve:
		return counts[records], most.count, true
	case full(is.bytes, most.bytes+most.bytes/systemReserve):
		return sizes[records], most.bytes, true
	}
	return name{}, 0, false
}

// full says that there is no room for bytes to speak of: what is refused is larger than what is left, which is
// never nothing.
func full(bytes, most int64) bool { return bytes >= most-most/100 }

// withReached are the conditions of a logical cluster with what is reached; changed is false if they
// say that already.
func withReached(lc *tenancy.LogicalCluster, use [classes]amount, l limits, now time.Time) (conditions []metav1.Condition, changed bool) {
	condition := metav1.Condition{Type: ConditionLimitsReached, Status: metav1.ConditionFalse, Reason: ReasonWithinLimits, ObservedGeneration: lc.Generation, LastTransitionTime: metav1.NewTime(now)}
	was := meta.FindStatusCondition(lc.Status.Conditions, ConditionLimitsReached)
	if reason, message := reached(use, l); reason != "" {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reason, message
	} else if was == nil {
		return nil, false
	}
	conditions = slices.Clone(lc.Status.Conditions)
	changed = meta.SetStatusCondition(&conditions, condition)
	return conditions, changed
}

// warn warns who makes an object that nobody could record what comes of it.
func (c *Counter) warn(ctx context.Context, cluster logicalcluster.Name) {
	c.mu.Lock()
	var use [classes]amount
	if c.tally != nil {
		use = c.tally.use(cluster.String())
	}
	c.mu.Unlock()
	if of, limit, ok := exhausted(use, c.limitsOf(ctx, cluster)); ok {
		warning.AddWarning(ctx, "", fmt.Sprintf("logical cluster %q has half as many %s again as spec.limits.%s of its LogicalCluster permits (%d): %s until it has fewer, or an admin of the control plane permits more",
			cluster, of.what, of.field, limit, notCarried))
	}
}
