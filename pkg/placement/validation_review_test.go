package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestWhatAReviewSupposesIsBounded(t *testing.T) {
	many := func(n int, format string) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct {
		name, spec string
		admin      bool
		want       string
	}{
		{"nothing", `{}`, false, ""},
		{"requests", `{assumed: [{physicalCluster: east, requests: {cpu: 100m, example.com/gpu: 2}}, {physicalCluster: west}]}`, false, ""},
		{"units, of an admin", `{assumed: [{physicalCluster: east, units: 3}]}`, true, ""},
		{"units, of a tenant", `{assumed: [{physicalCluster: east, units: 3}]}`, false, "spec.assumed[0].units"},
		{"more units than there are", `{assumed: [{physicalCluster: east, units: 1000001}]}`, true, "spec.assumed[0].units"},
		{"units that are given back", `{assumed: [{physicalCluster: east, units: -1}]}`, true, "spec.assumed[0].units"},
		{"requests that are given back", `{assumed: [{physicalCluster: east, requests: {cpu: -1}}]}`, true, "spec.assumed[0].requests[cpu]"},
		{"no resource", `{assumed: [{physicalCluster: east, requests: {"a!b": 1}}]}`, true, "spec.assumed[0].requests[a!b]"},
		{"nowhere", `{assumed: [{requests: {cpu: 1}}]}`, true, "spec.assumed[0].physicalCluster"},
		{"twice", `{assumed: [{physicalCluster: east}, {physicalCluster: east}]}`, true, "spec.assumed[1].physicalCluster"},
		{"as many as may be", `{assumed: [` + many(1000, "{physicalCluster: c%d}") + `], without: [` + many(64, "c%d") + `], drained: [` + many(64, "c%d") + `]}`, false, ""},
		{"too many", `{assumed: [` + many(1001, "{physicalCluster: c%d}") + `], without: [` + many(65, "c%d") + `], drained: [` + many(65, "c%d") + `]}`, false, "spec.without spec.drained spec.assumed"},
		{"too many resources", `{assumed: [{physicalCluster: east, requests: {` + many(33, "r%d: 1") + `}}]}`, false, "spec.assumed[0].requests"},
	} {
		var spec placementv1alpha1.PlacementReviewSpec
		if err := yaml.UnmarshalStrict([]byte(c.spec), &spec); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var got []string
		for _, err := range ValidateSupposed(&spec, c.admin, field.NewPath("spec")) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
