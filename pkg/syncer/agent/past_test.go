package agent

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// A physical cluster that was restored from a backup lacks namespaces that its watch
// never told to be gone.
func TestAPhysicalNamespaceThatIsNotFoundIsMadeAgainThoughTheWatchHasIt(t *testing.T) {
	namespace, config := logicalNamespace(), logicalObject("ConfigMap", "web", "conf", "c", `{"east":{}}`)
	space := copyBelow(namespace, "below-n")
	space.SetAnnotations(map[string]string{placementv1alpha1.UIDAnnotation: string(namespace.GetUID())})
	f := newFixture(t, []runtime.Object{namespace, config}, []runtime.Object{space})
	absent := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, physicalSpace)
	}
	f.below.PrependReactor("patch", "configmaps", absent)
	f.below.PrependReactor("get", "namespaces", absent)
	f.watch(t)
	f.handle()
	ctx, key := scope.WithCluster(f.ctx, "shop"), keyOf(kindNamed("ConfigMap"), config)
	if result, err := f.reconcile(ctx, key); err != nil || result.RequeueAfter == 0 {
		t.Errorf("it is to be tried again, not %v, %v", result, err)
	}
	if _, ok := f.session.below[namespaces].Get(controller.Request{Name: physicalSpace}); ok {
		t.Error("the watch is believed over the answer")
	}
	if _, err := f.reconcile(ctx, key); err != nil {
		t.Error(err)
	}
	for _, a := range f.below.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok && a.GetResource() == namespaces && p.GetName() == physicalSpace {
			return
		}
	}
	t.Error("the namespace was not made again")
}

func TestWhatIsNotFoundBelowIsNoLongerHeld(t *testing.T) {
	claim := logicalObject("PersistentVolumeClaim", "web", "data", "c", `{"east":{"state":"Observed","uid":"below-c"}}`)
	claim.SetFinalizers([]string{placementv1alpha1.CopiesFinalizer})
	now := metav1.Unix(1, 0)
	claim.SetDeletionTimestamp(&now)
	physicalClaim := newObject("PersistentVolumeClaim", physicalSpace, "data", "below-c")
	physicalClaim.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: controlPlane})
	f := newFixture(t, []runtime.Object{logicalNamespace(), claim}, []runtime.Object{physicalClaim})
	f.below.PrependReactor("delete", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data")
	})
	f.watch(t)
	f.handle()
	gvr := kindNamed("PersistentVolumeClaim").GroupVersionResource()
	for _, key := range f.enqueued(t) {
		if _, err := f.observe(f.ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := f.session.below[gvr].Get(controller.RequestFor(physicalClaim)); ok {
		t.Error("the watch is believed over the answer")
	}
}
