package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// repeatInterval is how long one message about one object is not repeated; events
	// live for an hour.
	repeatInterval = 30 * time.Minute
	maxRecorded    = 8192
	// maxMessage is the limit of the API for the message of an event.
	maxMessage = 1024
)

// recorded remembers the events that were written.
type recorded struct{ recently *utilcache.LRUExpireCache }

func newRecorded(c clock.PassiveClock) *recorded {
	return &recorded{recently: utilcache.NewLRUExpireCacheWithClock(maxRecorded, c)}
}

// recordEvents writes an event on each pending object: what it waits for.
func (c *Controller) recordEvents(ctx context.Context, u *unit) error {
	condition := meta.FindStatusCondition(u.placement.Status.Conditions, placementv1alpha1.ConditionScheduled)
	if condition == nil || condition.Status == metav1.ConditionTrue || condition.Reason == placementv1alpha1.ReasonWaitsForPods {
		return nil // admission has not explained yet; its writing brings us back
	}
	for _, p := range u.pending {
		if err := c.record(ctx, warn(p.object, p.kind.GroupVersionKind, "Unplaceable", condition.Message, c.Clock.Now())); err != nil {
			return err
		}
	}
	return nil
}

// recordVerdict writes an event on a placement that is not what the policies permit.
func (c *Controller) recordVerdict(ctx context.Context, p *placementv1alpha1.Placement) error {
	condition := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return nil
	}
	return c.record(ctx, warn(p, placementv1alpha1.SchemeGroupVersion.WithKind("Placement"), "PolicyNotSatisfied", condition.Message, c.Clock.Now()))
}

// record writes an event, unless it was written lately.
func (c *Controller) record(ctx context.Context, event *corev1.Event) error {
	if _, ok := c.recorded.recently.Get(event.Name); ok {
		return nil
	}
	_, err := c.Kube.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("writing an event: %w", err)
	}
	c.recorded.recently.Add(event.Name, true, repeatInterval)
	return nil
}

// normal is an event about what went as it should; as warn.
func normal(about *placementv1alpha1.Placement, reason, message string, now time.Time) *corev1.Event {
	event := warn(about, placementv1alpha1.SchemeGroupVersion.WithKind("Placement"), reason, message, now)
	event.Type = corev1.EventTypeNormal
	return event
}

// warn is an event; its name is the same for the same message about the
// same object within the time for which it is not repeated, so that two servers
// write one.
func warn(about metav1.Object, kind schema.GroupVersionKind, reason, message string, now time.Time) *corev1.Event {
	window := now.Truncate(repeatInterval).Unix()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", about.GetUID(), message, window))
	name := about.GetName()
	if len(name) > 200 {
		name = name[:200]
	}
	if len(message) > maxMessage {
		message = message[:maxMessage-3] + "..."
	}
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name + "." + hex.EncodeToString(sum[:8]), Namespace: about.GetNamespace()},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
			Namespace: about.GetNamespace(), Name: about.GetName(), UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: "atoll-placement"},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		ReportingController: "atoll.dev/placement", ReportingInstance: "atoll",
	}
}
