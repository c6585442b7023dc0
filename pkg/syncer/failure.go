package syncer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// ReasonMadeAgain is the reason of the event on a claim of which the copy is gone, and is made again.
const ReasonMadeAgain = "MadeAgain"

// CopyEvent is the event on the user's object about a copy that failed or is not removed, or is so for another reason
// than before, and about a claim that is made again; nil if there is nothing to report. Equal ones have one
// event, named by what they say. Of a Namespace nothing is said: the objects in it have events.
func CopyEvent(before, now *placementv1alpha1.Copy, at metav1.Time) *corev1.Event {
	o, reason, message := now.Spec.Object, now.Status.Reason, now.Status.Message
	switch {
	case ofNamespace(now):
		return nil
	case madeAgain(before, now):
		reason = ReasonMadeAgain
	case !failedAnew(before, now):
		return nil
	case now.Status.State == placementv1alpha1.CopyRemoving:
		message = "the copy is not removed: " + message
	}
	about := corev1.ObjectReference{
		APIVersion: schema.GroupVersion{Group: o.Group, Version: o.Version}.String(), Kind: o.Kind,
		Namespace: now.Namespace, Name: o.Name, UID: o.UID,
	}
	return eventAbout(about, now.UID, now.Spec.PhysicalCluster, reason, message, at)
}

// eventAbout is a warning of the syncer of a target, named by what it says; source is the UID
// of the object that it comes from.
func eventAbout(about corev1.ObjectReference, source types.UID, target, reason, message string, at metav1.Time) *corev1.Event {
	sum := sha256.Sum256([]byte(string(about.UID) + target + reason + message))
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: about.Namespace, Name: eventName(about.Name, hex.EncodeToString(sum[:6])),
			// What a syncer mirrors says where from, and so does this.
			Annotations: map[string]string{placementv1alpha1.UIDAnnotation: string(source)},
		},
		InvolvedObject: about,
		Reason:         reason,
		Message:        fmt.Sprintf("%s: %s", target, message),
		Type:           corev1.EventTypeWarning, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: corev1.EventSource{Component: "atoll-syncer", Host: target},
	}
}

// madeAgain says that a copy was there, and that something is to be said of its being made again.
func madeAgain(before, now *placementv1alpha1.Copy) bool {
	return before != nil && before.Status.PhysicalUID != "" && now.Status.PhysicalUID == "" && now.Status.Message != "" &&
		now.Status.State == placementv1alpha1.CopyPending && now.Status.Reason == ReasonNew
}

func failedAnew(before, now *placementv1alpha1.Copy) bool {
	s := now.Status
	if s.State != placementv1alpha1.CopyFailed && (s.State != placementv1alpha1.CopyRemoving || slices.Contains(removals, s.Reason)) {
		return false
	}
	return before == nil || before.Status.State != s.State || before.Status.Reason != s.Reason || before.Status.Message != s.Message
}

// removals are the reasons of removals that go on by themselves: whatever else is the reason of one is why it does not.
var removals = []string{reasonRemoving, reasonGone, reasonOtherIncarnation, placementv1alpha1.ReasonTerminating, ReasonJobRuns, reasonVolumeElsewhere}

// Reasons of Copies that are Removing.
const (
	reasonRemoving         = "Removing"
	reasonGone             = "Gone"
	reasonOtherIncarnation = "OtherIncarnation"
	reasonVolumeElsewhere  = "VolumeElsewhere"
)

func eventName(object, suffix string) string {
	if len(object) > 200 {
		object = object[:200]
	}
	return object + "." + suffix
}
