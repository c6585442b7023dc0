package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// recordFailure writes an event on the user's object about a copy that failed. Equal
// failures have one event, named by what they say.
func (p *pass) recordFailure(ctx context.Context, c *placementv1alpha1.Copy) {
	if p.in.Ref.IsNamespace() {
		return // the objects in it have events
	}
	o := c.Spec.Object
	sum := sha256.Sum256([]byte(string(o.UID) + c.Spec.PhysicalCluster + c.Status.Reason + c.Status.Message))
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: eventName(o.Name, hex.EncodeToString(sum[:6])),
			// What a syncer mirrors says where from; this comes from the copy.
			Annotations: map[string]string{placementv1alpha1.UIDAnnotation: string(c.UID)},
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: schema.GroupVersion{Group: o.Group, Version: o.Version}.String(), Kind: o.Kind,
			Namespace: c.Namespace, Name: o.Name, UID: o.UID,
		},
		Reason:  c.Status.Reason,
		Message: fmt.Sprintf("%s: %s", c.Spec.PhysicalCluster, c.Status.Message),
		Type:    corev1.EventTypeWarning, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: "atoll-syncer", Host: c.Spec.PhysicalCluster},
	}
	_, err := p.up.kube.CoreV1().Events(c.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		klog.FromContext(ctx).V(2).Info("Writing an event failed", "err", err)
	}
}

func eventName(object, suffix string) string {
	if len(object) > 200 {
		object = object[:200]
	}
	return object + "." + suffix
}

func copyRequest(key objectKey, target string) controller.Request {
	// What is in no namespace is one.
	namespace := cmp.Or(key.Request.Namespace, key.Request.Name)
	return controller.Request{Cluster: key.Request.Cluster, Namespace: namespace, Name: syncer.CopyName(key.Resource.GroupResource(), key.Request.Name, target)}
}

func uidOf(obj *unstructured.Unstructured) types.UID {
	if obj == nil {
		return ""
	}
	return obj.GetUID()
}
