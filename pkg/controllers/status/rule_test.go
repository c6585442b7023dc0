package status

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestARuleDecidesWhatIsNotMergedAndOneThatFailsIsHeardOf(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	for _, c := range []struct{ rule, phase, event string }{
		{`{"phase": copies[0].status.phase + " on " + copies[0].physicalCluster, "observedGeneration": 99}`, "Well on east", ""},
		{`{"phase": self.spec.missing}`, "Well", "no such key"},
	} {
		obj := object(widgets, "Widget", "a")
		s, client := start(t, obj, copyOf(obj, widgets, `{"phase":"Well"}`))
		kinds, err := workload.Builtin().With(workload.Kind{
			GroupVersionKind: widgets.GroupVersion().WithKind("Widget"), Resource: "widgets", Role: workload.Placed, Declared: true,
			Status: workload.Status{Rule: c.rule},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Kinds = kinds
		k := key{Resource: widgets.GroupResource(), Object: controller.Request{Cluster: "shop", Namespace: "web", Name: "a"}}
		if _, err := s.reconcile(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		got, err := client.Resource(widgets).Namespace("web").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		status, _ := got.Object["status"].(map[string]any)
		if status["phase"] != c.phase || status["observedGeneration"] == int64(99) {
			t.Errorf("%s: the status is %v", c.rule, status)
		}
		events := ""
		for _, action := range client.Actions() {
			if create, ok := action.(clienttesting.CreateAction); ok && action.GetResource().Resource == "events" {
				events += jsonOf(t, create.GetObject())
			}
		}
		if (events == "") != (c.event == "") || !strings.Contains(events, c.event) {
			t.Errorf("%s: the events are %q, want %q", c.rule, events, c.event)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
