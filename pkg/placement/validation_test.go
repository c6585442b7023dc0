package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
minCount: 1
maxCount: 3
affinity: [{type: Without, namespaceSelector: {matchLabels: {app: db}}, topologyKey: zone}]
topology: [{key: region, count: 2, minCount: 1}, {key: zone}]
preferences: [{matchLabels: {site: own}}, {matchExpressions: [{key: generation, operator: Gt, values: ["3"]}]}]
weights: [{weight: -5, label: cost}, {weight: 1, free: cpu}, {weight: 2, term: {matchLabels: {a: b}}}]
`, ""},
		{"Gt with a word", `{terms: [{matchExpressions: [{key: a, operator: Gt, values: [b]}]}]}`, "spec.terms[0].matchExpressions[0].values[0]"},
		{"Lt with two numbers", `{preferences: [{matchExpressions: [{key: a, operator: Lt, values: ["1", "2"]}]}]}`, "spec.preferences[0].matchExpressions[0].values"},
		{"less than the minimum", `{count: 2, minCount: 3}`, "spec.minCount"},
		{"a minimum alone", `{minCount: 2}`, "spec.minCount"},
		{"more than anybody has", `{count: 65, maxCount: 0}`, "spec.maxCount spec.count"},
		{"a tier twice", `{topology: [{key: zone}, {key: zone, count: 0}]}`, "spec.topology[1].key spec.topology[1].count"},
		{"a tier without a key", `{topology: [{}]}`, "spec.topology[0].key spec.topology[0].key"},
		{"too many tiers", `{topology: [{key: a}, {key: b}, {key: c}, {key: d}, {key: e}]}`, "spec.topology"},
		{"two layouts", `{topology: [{key: a}], spread: {key: a, maxSkew: 1}}`, "spec.spread"},
		{"a spread of nothing", `{spread: {key: "", maxSkew: 0}}`, "spec.spread.key spec.spread.key spec.spread.maxSkew"},
		{"a weight of two things", `{weights: [{weight: 1, label: a, free: cpu}]}`, "spec.weights[0]"},
		{"a weight of nothing", `{weights: [{weight: 0}]}`, "spec.weights[0].weight spec.weights[0]"},
		{"too much weight", `{weights: [{weight: 101, free: "a b"}]}`, "spec.weights[0].weight spec.weights[0].free"},
		{"an affinity to all", `{affinity: [{type: Near, namespaceSelector: {}, topologyKey: "a b"}]}`,
			"spec.affinity[0].type spec.affinity[0].namespaceSelector spec.affinity[0].topologyKey"},
		{"too many values", `{terms: [{matchExpressions: [{key: a, operator: In, values: [a,b,c,d,e,f,g,h,i,j,k,l,m,o,p,q,r]}]}]}`, "spec.terms[0].matchExpressions[0].values"},
		{"too many terms", `{terms: [{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}`, "spec.terms"},
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
		{"toleration seconds without the effect", `{tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]}`, "spec.tolerations[0].effect"},
		{"toleration seconds of another effect", `{tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]}`, "spec.tolerations[0].effect"},
		{"negative toleration seconds", `{tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: -1}]}`, "spec.tolerations[0].tolerationSeconds"},
		{"unknown ifImpossible", `{ifImpossible: Panic}`, "spec.ifImpossible"},
		{"all of it", `{count: -1, ifImpossible: Panic}`, "spec.count spec.ifImpossible"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var spec placementv1alpha1.PolicySpec
			if err := yaml.UnmarshalStrict([]byte(c.spec), &spec); err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, err := range ValidateClusterPolicy(&spec, true, field.NewPath("spec")) {
				fields = append(fields, err.Field)
			}
			if diff := cmp.Diff(c.want, strings.Join(fields, " ")); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyPoliciesOfRootSelectLogicalClusters(t *testing.T) {
	spec := placementv1alpha1.PolicySpec{LogicalClusterSelector: &metav1.LabelSelector{}}
	if errs := ValidateClusterPolicy(&spec, true, field.NewPath("spec")); len(errs) > 0 {
		t.Errorf("in root: %v", errs)
	}
	if errs := ValidateClusterPolicy(&spec, false, field.NewPath("spec")); len(errs) != 1 || errs[0].Field != "spec.logicalClusterSelector" {
		t.Errorf("elsewhere: %v", errs)
	}
}

func TestAPolicyLetsAtLeastOneUnitMoveAtATime(t *testing.T) {
	for n, want := range map[int32]int{-1: 1, 0: 1, 1: 0, 1000: 0} {
		spec := placementv1alpha1.PolicySpec{MaxMoving: &n}
		if errs := ValidateClusterPolicy(&spec, true, field.NewPath("spec")); len(errs) != want || want > 0 && errs[0].Field != "spec.maxMoving" {
			t.Errorf("%d: %v", n, errs)
		}
	}
}
