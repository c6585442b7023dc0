package up

import (
	"context"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

var (
	eventResource = corev1.SchemeGroupVersion.WithResource("events")
	pods          = corev1.SchemeGroupVersion.WithResource("pods")
)

// Event mirrors an event of the physical cluster.
func (r *Reconciler) Event(ctx context.Context, key controller.Request) (controller.Result, error) {
	event, ok := r.View.Event(key)
	if !ok {
		return controller.Result{}, nil
	}
	physical, uid := syncer.Involved(event)
	namespace := r.View.NamespaceOf(physical)
	if namespace == nil || namespace.GetDeletionTimestamp() != nil {
		return controller.Result{}, nil
	}
	names := r.namesIn(logicalcluster.From(namespace), uid)
	about, known := names.Owner(uid)
	due, after := syncer.DueEvent(event, known, r.started, time.Now())
	if !due {
		return controller.Result{RequeueAfter: after}, nil
	}
	ctx = scope.WithCluster(ctx, logicalcluster.From(namespace))
	err := r.writeEvent(ctx, syncer.EventUp(event, namespace.GetName(), about, names))
	if syncer.IsSilence(err) {
		return controller.Result{RequeueAfter: 2 * silenceDelay}, nil
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Mirroring an event failed", "err", err)
	}
	return controller.Result{}, nil
}

// namesIn are the names for an event about the object with uid in a logical cluster:
// those of its own objects, whatever the event says.
func (r *Reconciler) namesIn(cluster logicalcluster.Name, uid types.UID) syncer.Names {
	names := syncer.Names{
		Owner: func(uid types.UID) (syncer.Owner, bool) {
			obj, ok := r.View.MirrorOf(uid)
			if !ok || logicalcluster.From(obj) != cluster {
				return syncer.Owner{}, false
			}
			return syncer.OwnerOf(r.View.Target, obj), true
		},
		Namespace: func(physical string) (string, bool) {
			n := r.View.NamespaceOf(physical)
			if n == nil || logicalcluster.From(n) != cluster {
				return "", false
			}
			return n.GetName(), true
		},
	}
	// The node of a Pod that a user made is the physical cluster (syncer.NodeOf).
	if pod := r.View.PhysicalByUID(pods, uid); pod != nil && r.View.IsCopy(pods, pod) {
		names.Node = r.View.Target
	}
	return names
}

func (r *Reconciler) writeEvent(ctx context.Context, event *unstructured.Unstructured) error {
	client := r.Up.Dynamic.Resource(eventResource).Namespace(event.GetNamespace())
	_, err := client.Create(ctx, event, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := client.Get(ctx, event.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !syncer.EventSeen(existing).Before(syncer.EventSeen(event)) {
		return nil
	}
	event.SetResourceVersion(existing.GetResourceVersion())
	event.SetUID(existing.GetUID())
	_, err = client.Update(ctx, event, metav1.UpdateOptions{})
	return err
}
