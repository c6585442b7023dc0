package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAMalformedPolicyIsRefusedWithThePathOfTheField(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"an empty policy is fine", `{}`, ""},
		{"a full policy is fine", `
logicalClusterSelector: {matchLabels: {team: web}}
namespaceSelector: {matchExpressions: [{key: env, operator: In, values: [prod]}]}
terms: [{matchExpressions: [{key: region, operator: NotIn, values: [us]}]}, {matchExpressions: [{key: gpu, operator: DoesNotExist}]}]
tolerations: [{key: dedicated, value: db, effect: NoSchedule}, {operator: Exists}]
count: 2
ifImpossible: Refuse
`, ""},
		{"count zero", `{count: 0}`, "spec.count"},
		{"unknown operator in a term", `{terms: [{}, {matchExpressions: [{key: a, operator: Near, values: [b]}]}]}`, "spec.terms[1].matchExpressions[0].operator"},
		{"In without values", `{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`, "spec.namespaceSelector.matchExpressions[0].values"},
		{"bad label key", `{logicalClusterSelector: {matchLabels: {"a b": c}}}`, "spec.logicalClusterSelector.matchLabels"},
		{"bad label value", `{terms: [{matchLabels: {a: "b c"}}]}`, "spec.terms[0].matchLabels"},
		{"toleration without key", `{tolerations: [{operator: Equal, value: a}]}`, "spec.tolerations[0].operator"},
		{"toleration with a bad key", `{tolerations: [{key: "a b", operator: Exists}]}`, "spec.tolerations[0].key"},
		{"Exists with a value", `{tolerations: [{key: a, operator: Exists, value: b}]}`, "spec.tolerations[0].value"},
		{"unknown operator of a toleration", `{tolerations: [{key: a, operator: Like}]}`, "spec.tolerations[0].operator"},
		{"unknown effect", `{tolerations: [{key: a, effect: NoFun}]}`, "spec.tolerations[0].effect"},
		{"toleration seconds", `{tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]}`, "spec.tolerations[0].tolerationSeconds"},
		{"unknown ifImpossible", `{ifImpossible: Panic}`, "spec.ifImpossible"},
		{"all of it", `{count: -1, ifImpossible: Panic}`, "spec.count spec.ifImpossible"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var spec placementv1alpha1.PolicySpec
			if err := yaml.UnmarshalStrict([]byte(c.spec), &spec); err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, err := range ValidatePolicy(&spec, field.NewPath("spec")) {
				fields = append(fields, err.Field)
			}
			if diff := cmp.Diff(c.want, strings.Join(fields, " ")); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}
