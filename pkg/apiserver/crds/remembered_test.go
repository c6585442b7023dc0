package crds

import (
	"fmt"
	"regexp"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

func TestPatternsThatWereEvaluatedAreForgotten(t *testing.T) {
	ctx := requestOf(t)
	most := 0
	for i := range 3 * mostRemembered {
		pattern := fmt.Sprintf("^forgotten%d$", i)
		result := validate.NewSchemaValidator(&spec.Schema{SchemaProps: spec.SchemaProps{Pattern: pattern}}, nil, "", strfmt.Default).Validate("a")
		if !result.HasErrors() {
			t.Fatalf("%s matches", pattern)
		}
		all, _ := remembered.Load().(map[string]*regexp.Regexp)
		if all[pattern] == nil {
			t.Fatal("upstream's library remembers patterns elsewhere")
		}
		most = max(most, len(all))
		if err := (beforeRules{}).Admit(ctx, writing(admission.Update), nil); err != nil {
			t.Fatal(err)
		}
	}
	if most > mostRemembered+1 {
		t.Errorf("%d patterns are remembered", most)
	}
}
