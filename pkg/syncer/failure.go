package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// FailureEvent is the event on the user's object about a copy that failed, or failed
// otherwise than before; nil if there is nothing to report. Equal failures have one event,
// named by what they say. Of a Namespace nothing is said: the objects in it have events.
func FailureEvent(before, now *placementv1alpha1.Copy, at metav1.Time) *corev1.Event {
	o := now.Spec.Object
	if !failedAnew(before, now) || ofNamespace(now) {
		return nil
	}
	sum := sha256.Sum256([]byte(string(o.UID) + now.Spec.PhysicalCluster + now.Status.Reason + now.Status.Message))
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: now.Namespace, Name: eventName(o.Name, hex.EncodeToString(sum[:6])),
			// What a syncer mirrors says where from; this comes from the copy.
			Annotations: map[string]string{placementv1alpha1.UIDAnnotation: string(now.UID)},
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: schema.GroupVersion{Group: o.Group, Version: o.Version}.String(), Kind: o.Kind,
			Namespace: now.Namespace, Name: o.Name, UID: o.UID,
		},
		Reason:  now.Status.Reason,
		Message: fmt.Sprintf("%s: %s", now.Spec.PhysicalCluster, now.Status.Message),
		Type:    corev1.EventTypeWarning, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: "atoll-syncer", Host: now.Spec.PhysicalCluster},
	}
}

func failedAnew(before, now *placementv1alpha1.Copy) bool {
	if now.Status.State != placementv1alpha1.CopyFailed {
		return false
	}
	return before == nil || before.Status.State != placementv1alpha1.CopyFailed ||
		before.Status.Reason != now.Status.Reason || before.Status.Message != now.Status.Message
}

func eventName(object, suffix string) string {
	if len(object) > 200 {
		object = object[:200]
	}
	return object + "." + suffix
}
