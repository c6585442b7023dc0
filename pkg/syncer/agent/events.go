package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

const (
	// eventsBefore is how old an event may be, at the start of a session, to be
	// mirrored: after a restart, the ones that are likely to be missing.
	eventsBefore = 5 * time.Minute
	// eventPatience is how long an event waits for its object to be mirrored.
	eventPatience = 15 * time.Second
)

var eventResource = corev1.SchemeGroupVersion.WithResource("events")

// eventOfOurs keeps of all events of the physical cluster those about objects in
// our namespaces.
func (s *session) eventOfOurs(obj runtime.Object) (*unstructured.Unstructured, error) {
	event, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	namespace, _ := syncer.Involved(event)
	if namespace == "" || first(s.logical[namespaces].ByIndex(byPhysicalName, namespace)) == nil {
		return nil, nil
	}
	event.SetManagedFields(nil)
	return event, nil
}

// bringEvent brings an event up. The key is <physical namespace>/<name>.
func (s *session) bringEvent(ctx context.Context, key string) (controller.Result, error) {
	physical, name, _ := strings.Cut(key, "/")
	event, ok := s.events.Get(controller.Request{Namespace: physical, Name: name})
	if !ok || seenAt(event).Before(s.started.Add(-eventsBefore)) {
		return controller.Result{}, nil
	}
	involvedNamespace, uid := syncer.Involved(event)
	namespace := first(s.logical[namespaces].ByIndex(byPhysicalName, involvedNamespace))
	if namespace == nil || namespace.GetDeletionTimestamp() != nil {
		return controller.Result{}, nil
	}
	names := s.namesIn(logicalcluster.From(namespace), uid)
	about, ok := names.Owner(uid)
	if !ok {
		if time.Since(seenAt(event)) < eventPatience {
			return controller.Result{RequeueAfter: time.Second}, nil
		}
		return controller.Result{}, nil
	}
	ctx = scope.WithCluster(ctx, logicalcluster.From(namespace))
	err := s.writeEvent(ctx, syncer.EventUp(event, namespace.GetName(), about, names))
	if isSilence(err) {
		return controller.Result{RequeueAfter: 10 * time.Second}, nil
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Mirroring an event failed", "err", err)
	}
	return controller.Result{}, nil
}

// namesIn are the names for an event about the object with uid in a logical cluster:
// those of its own objects, whatever the event says.
func (s *session) namesIn(cluster logicalcluster.Name, uid types.UID) syncer.Names {
	names := syncer.Names{
		Owner: func(uid types.UID) (syncer.Owner, bool) {
			if obj, ok := s.mirrorOf(uid); !ok || logicalcluster.From(obj) != cluster {
				return syncer.Owner{}, false
			}
			return s.owner(uid)
		},
		Namespace: func(physical string) (string, bool) {
			n := first(s.logical[namespaces].ByIndex(byPhysicalName, physical))
			if n == nil || logicalcluster.From(n) != cluster {
				return "", false
			}
			return n.GetName(), true
		},
	}
	for _, kind := range s.kinds.Kinds() {
		pods := kind.GroupVersionResource()
		if !kind.IsPod() || s.below[pods] == nil {
			continue
		}
		// The node of a Pod that a user made is the physical cluster (syncer.NodeOf).
		if pod := first(s.below[pods].ByIndex(byUID, string(uid))); pod != nil && s.isCopy(pods, pod) {
			names.Node = s.target
		}
	}
	return names
}

func (s *session) writeEvent(ctx context.Context, event *unstructured.Unstructured) error {
	client := s.up.dynamic.Resource(eventResource).Namespace(event.GetNamespace())
	_, err := client.Create(ctx, event, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := client.Get(ctx, event.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !seenAt(existing).Before(seenAt(event)) {
		return nil
	}
	event.SetResourceVersion(existing.GetResourceVersion())
	event.SetUID(existing.GetUID())
	_, err = client.Update(ctx, event, metav1.UpdateOptions{})
	return err
}

// seenAt is when an event was last seen.
func seenAt(event *unstructured.Unstructured) time.Time {
	var latest time.Time
	for _, path := range [][]string{{"lastTimestamp"}, {"eventTime"}, {"series", "lastObservedTime"}} {
		text, _, _ := unstructured.NestedString(event.Object, path...)
		if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(latest) {
			latest = t
		}
	}
	if latest.IsZero() {
		return event.GetCreationTimestamp().Time
	}
	return latest
}
