package crds

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Who makes a definition anew, when the one of that name has just gone, is not answered as if it were
// served because the informer has the former one yet.
func TestAWriteOfADefinitionWaitsForWhatWasWritten(t *testing.T) {
	t.Parallel()
	at := func(uid types.UID, version string, accepted bool) *Definition {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
		if accepted {
			crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue}}
		}
		return &Definition{CustomResourceDefinition: crd}
	}
	for name, c := range map[string]struct {
		informer *Definition
		want     bool
	}{
		"nothing yet":                        {nil, false},
		"the former one":                     {at("former", "9", true), false},
		"the former one, deleted":            {at("former", "99", true), false},
		"what was written, names undecided":  {at("new", "100", false), false},
		"what was written, and was decided":  {at("new", "101", true), true},
		"one made after it":                  {at("next", "107", true), true},
		"an older state of what was written": {at("new", "98", true), false},
	} {
		if got := since(100, decided)(c.informer); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
