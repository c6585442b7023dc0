package down

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// denied has the physical cluster refuse a verb, and counts how often it is asked.
func (f *fixture) denied(verb, resource string) (asked *int) {
	asked = new(int)
	f.Below.PrependReactor(verb, resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
		*asked++
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("a policy"))
	})
	return asked
}

func TestACopyThatMayNotBeLookedAtSaysSoAndIsTriedLater(t *testing.T) {
	for name, c := range map[string]struct {
		object func() *unstructured.Unstructured
		want   placementv1alpha1.CopyState
	}{
		"it is to be there": {func() *unstructured.Unstructured {
			return viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`)
		}, placementv1alpha1.CopyFailed},
		"it is to leave": {func() *unstructured.Unstructured {
			return viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{"state":"Removing"},"west":{}}`)
		}, placementv1alpha1.CopyRemoving},
		"it is deleted": {func() *unstructured.Unstructured {
			return viewtest.Deleting(viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`), placementv1alpha1.CopiesFinalizer)
		}, placementv1alpha1.CopyRemoving},
	} {
		t.Run(name, func(t *testing.T) {
			config := c.object()
			record := viewtest.Copy(config, placementv1alpha1.CopyStatus{
				State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below",
			})
			f := newFixture(t, []runtime.Object{viewtest.Namespace(), config}, []runtime.Object{viewtest.CopyOf(viewtest.Namespace(), "below-n")}, record)
			asked := f.denied("get", "configmaps")
			f.Watch(t)
			key := view.KeyOf(viewtest.Kind("ConfigMap"), config)
			viewtest.Eventually(t, "the object is seen", func() bool { _, seen := f.World.Object(key); return seen })
			if after := f.reconcile(t, key); after < time.Second {
				t.Errorf("it is tried again after %s", after)
			}
			status := f.Record(t, key).Status
			if status.State != c.want || status.Reason != "Forbidden" || status.Message == "" || status.PhysicalUID != "below" {
				t.Errorf("the Copy says %+v", status)
			}
			if *asked != 1 {
				t.Errorf("it was asked for %d times", *asked)
			}
		})
	}
}

func TestANamespaceThatIsRefusedIsNotTriedAgainByEachObjectInIt(t *testing.T) {
	const objects = 30
	above := []runtime.Object{viewtest.Namespace()}
	var keys []view.ObjectKey
	for i := range objects {
		config := viewtest.Logical("ConfigMap", "web", fmt.Sprint("conf-", i), "", `{"east":{}}`)
		config.SetUID("c-" + config.GetUID())
		above, keys = append(above, config), append(keys, view.KeyOf(viewtest.Kind("ConfigMap"), config))
	}
	f := newFixture(t, above, nil)
	asked := f.denied("patch", "namespaces")
	f.Watch(t)
	viewtest.Eventually(t, "the objects are seen", func() bool { _, seen := f.World.Object(keys[objects-1]); return seen })
	began := time.Now()
	for _, key := range keys {
		f.reconcile(t, key)
		status := f.Record(t, key).Status
		if status.State != placementv1alpha1.CopyFailed || status.Reason != "NamespaceForbidden" {
			t.Fatalf("the Copy says %+v", status)
		}
	}
	if most := 1 + int(time.Since(began)/refusedDelay); *asked > most {
		t.Errorf("the namespace was tried %d times, not %d", *asked, most)
	}
}

func TestWhileThePhysicalClusterDoesNotSayWhoItIsNothingIsAcknowledged(t *testing.T) {
	config := viewtest.Deleting(viewtest.Logical("ConfigMap", "web", "conf", "c", `{"east":{}}`), placementv1alpha1.CopiesFinalizer)
	f := newFixture(t, []runtime.Object{viewtest.Namespace(), config}, []runtime.Object{viewtest.CopyOf(viewtest.Namespace(), "below-n")},
		viewtest.Copy(config, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below"}))
	f.confirmed = apierrors.NewForbidden(view.Namespaces.GroupResource(), "kube-system", errors.New("a role was tidied up"))
	f.Watch(t)
	key := view.KeyOf(viewtest.Kind("ConfigMap"), config)
	viewtest.Eventually(t, "the object is seen", func() bool { _, seen := f.World.Object(key); return seen })
	var after time.Duration
	for range 8 {
		after = f.reconcile(t, key)
	}
	if state := f.Record(t, key).Status.State; state == placementv1alpha1.CopyRemoved || after < time.Second {
		t.Errorf("the Copy is %s, and it is tried again after %s", state, after)
	}
	f.confirmed = nil
	f.reconcile(t, key)
	if state := f.Record(t, key).Status.State; state != placementv1alpha1.CopyRemoved {
		t.Errorf("once it does, the Copy is %s", state)
	}
}
