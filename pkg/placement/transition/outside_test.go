package transition

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// What belongs to no unit of its own may be needed where objects of other units are.
func TestWhatIsThereForObjectsOfOtherUnitsIsNotLeftOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resource schema.GroupResource
		targets  string
		held     map[string]bool
		want     string
	}{
		"where its unit is":         {schema.GroupResource{Resource: "configmaps"}, `{"west":{}}`, nil, ""},
		"where it is not":           {schema.GroupResource{Resource: "configmaps"}, `{"east":{},"west":{}}`, nil, "east"},
		"where others run":          {schema.GroupResource{Resource: "configmaps"}, `{"east":{},"west":{}}`, map[string]bool{"east": true}, ""},
		"elsewhere":                 {schema.GroupResource{Resource: "configmaps"}, `{"east":{},"north":{}}`, map[string]bool{"east": true}, "north"},
		"it runs itself":            {schema.GroupResource{Group: "apps", Resource: "deployments"}, `{"east":{},"west":{}}`, map[string]bool{"east": true}, "east"},
		"it is being removed there": {schema.GroupResource{Resource: "configmaps"}, `{"east":{"state":"Removing"},"west":{}}`, nil, ""},
	} {
		kind, ok := workload.Builtin().ByResource(c.resource)
		if !ok {
			t.Fatalf("no kind %s", c.resource)
		}
		o := Object{Kind: kind, Logical: &unstructured.Unstructured{Object: map[string]any{}}, Unit: stamp.Unit{"west": stamp.PartStays}}
		o.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets})
		if got := strings.Join((State{Held: c.held}).Outside(o), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
