package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

func TestWhatHasAddressesIsFoundByItsServicesAndWhetherTheseLeadAnywhere(t *testing.T) {
	below := func(kind, name string, uid types.UID, spec map[string]any) *unstructured.Unstructured {
		obj := viewtest.Logical(kind, "web", name, "logical-"+uid, `{"east":{}}`)
		obj.Object["spec"] = spec
		return viewtest.CopyOf(obj, uid)
	}
	slice := func(name string, uid, service types.UID, ready bool) *unstructured.Unstructured {
		obj := viewtest.Made("EndpointSlice", name, uid, service)
		obj.Object["endpoints"] = []any{map[string]any{"conditions": map[string]any{"ready": ready}}}
		return obj
	}
	selecting := map[string]any{"selector": map[string]any{"app": "a"}}
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace()}, []runtime.Object{
		below("Service", "ready", "s1", selecting), slice("ready-1", "e1", "s1", false), slice("ready-2", "e2", "s1", true),
		below("Service", "unready", "s2", selecting), slice("unready-1", "e3", "s2", false),
		below("Ingress", "front", "i1", map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "ready"}}}),
		below("Ingress", "other", "i2", map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "unready"}}}),
	})
	w.Watch(t)
	for service, want := range map[string]bool{"ready": false, "unready": true, "none of this name": true} {
		if got := w.View.LeadsNowhere(viewtest.PhysicalSpace, service); got != want {
			t.Errorf("%s leads nowhere: %v", service, got)
		}
	}
	want := []view.ObjectKey{viewtest.KeyOf("Service", "web", "ready"), viewtest.KeyOf("Ingress", "web", "front")}
	if diff := cmp.Diff(want, w.View.LedBy(viewtest.PhysicalSpace, "ready")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := w.View.LedBy("somebody-else's", "ready"); got != nil {
		t.Errorf("in a namespace that is nobody's: %v", got)
	}
}
