package down

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// Nothing changes any more once it leads to pods, so that it is looked at again.
func TestThatAServiceLeadsToPodsAgainIsSaidAfterAWhile(t *testing.T) {
	namespace, service := viewtest.Namespace(), viewtest.Logical("Service", "web", "front", "s", `{"east":{}}`)
	service.Object["spec"] = map[string]any{"type": "LoadBalancer", "selector": map[string]any{"app": "web"}}
	below := viewtest.CopyOf(service, "below-s")
	slice := viewtest.Made("EndpointSlice", "front-1", "below-e", "below-s")
	slice.Object["endpoints"] = []any{map[string]any{"conditions": map[string]any{"ready": true}}}
	record := viewtest.Copy(service, placementv1alpha1.CopyStatus{
		State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-s", NoEndpoints: []string{"front"},
	})
	f := newFixture(t, []runtime.Object{namespace, service}, []runtime.Object{viewtest.CopyOf(namespace, "below-n"), below, slice}, record)
	key := viewtest.KeyOf("Service", "web", "front")
	f.memory.change(key, func(r *remembered) { r.settled = syncer.Fingerprint(below) })
	f.Watch(t)
	if after := f.reconcile(t, key); after <= 0 || after > 5*time.Second {
		t.Errorf("it is looked at again after %s", after)
	}
	if got := f.Record(t, key).Status.NoEndpoints; len(got) != 1 {
		t.Errorf("at once it says of %v that they lead nowhere", got)
	}
	if f.memory.get(key).led["front"].IsZero() {
		t.Error("since when it leads to pods is not remembered")
	}
	f.memory.change(key, func(r *remembered) { r.led = map[string]time.Time{"front": r.led["front"].Add(-time.Minute)} })
	f.reconcile(t, key)
	if got := f.Record(t, key).Status.NoEndpoints; len(got) != 0 {
		t.Errorf("after a minute it says of %v that they lead nowhere", got)
	}
	if led := f.memory.get(key).led; led != nil {
		t.Errorf("it is remembered since %s", led)
	}
}

// Its copy was deleted on the physical cluster a while after it last led to pods, and is made anew.
func TestACopyThatIsMadeAnewHasLedToNothingYet(t *testing.T) {
	namespace, service := viewtest.Namespace(), viewtest.Logical("Service", "web", "front", "s", `{"east":{}}`)
	service.Object["spec"] = map[string]any{"type": "LoadBalancer", "selector": map[string]any{"app": "web"}}
	record := viewtest.Copy(service, placementv1alpha1.CopyStatus{
		State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-s", NoEndpoints: []string{"front"},
	})
	f := newFixture(t, []runtime.Object{namespace, service}, []runtime.Object{viewtest.CopyOf(namespace, "below-n")}, record)
	key := viewtest.KeyOf("Service", "web", "front")
	f.memory.change(key, func(r *remembered) { r.led = map[string]time.Time{"front": time.Now().Add(-time.Minute)} })
	applied := f.ServeApplies(t)
	f.Records.PrependReactor("update", "copies", func(clienttesting.Action) (bool, runtime.Object, error) { // the pass ends with that
		return len(applied()) > 0, nil, errors.New("no answer")
	})
	f.Watch(t)
	f.reconcile(t, key)
	if len(applied()) == 0 {
		t.Fatal("it has not been made anew")
	}
	if led := f.memory.get(key).led; led != nil {
		t.Errorf("it is remembered since %s", led)
	}
}
