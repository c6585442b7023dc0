package crds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func defined(name, kind string, shortNames ...string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: name, Singular: kind, Kind: kind, ListKind: kind + "List", ShortNames: shortNames},
		},
	}
}

// decidedOn applies the decision.
func decidedOn(crd *apiextensionsv1.CustomResourceDefinition, group ...*apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out := crd.DeepCopy()
	out.Status = status(crd, structureOf(crd.Spec.Versions), claimed(group, crd.Name))
	return out
}

func conditions(crd *apiextensionsv1.CustomResourceDefinition) map[string]string {
	out := map[string]string{}
	for _, c := range crd.Status.Conditions {
		out[string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	return out
}

func TestFreeNamesAreAcceptedAndTheDefinitionIsEstablishedInOneStep(t *testing.T) {
	got := decidedOn(defined("widgets", "Widget", "wg"))
	if diff := cmp.Diff(got.Spec.Names, got.Status.AcceptedNames); diff != "" {
		t.Errorf("accepted names (-asked +accepted):\n%s", diff)
	}
	want := map[string]string{"NamesAccepted": "True NoConflicts", "Established": "True InitialNamesAccepted"}
	if diff := cmp.Diff(want, conditions(got)); diff != "" {
		t.Error(diff)
	}
}

func TestADecisionIsStable(t *testing.T) {
	once := decidedOn(defined("widgets", "Widget", "wg"))
	if diff := cmp.Diff(once, decidedOn(once)); diff != "" {
		t.Errorf("deciding again changes something:\n%s", diff)
	}
}

func TestANameThatAnotherHoldsIsRefused(t *testing.T) {
	holder := decidedOn(defined("widgets", "Widget", "wg"))
	for name, test := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want string
	}{
		"the plural is another's short name": {defined("wg", "Gadget"), "False PluralConflict"},
		"short name":                         {defined("gadgets", "Gadget", "gd", "wg"), "False ShortNamesConflict"},
		"kind":                               {defined("gadgets", "Widget"), "False ListKindConflict"}, // the last of several
		"the kind is another's list kind":    {defined("gadgets", "WidgetList"), "False KindConflict"},
	} {
		t.Run(name, func(t *testing.T) {
			got := decidedOn(test.crd, holder, test.crd)
			want := map[string]string{"NamesAccepted": test.want, "Established": "False NotAccepted"}
			if diff := cmp.Diff(want, conditions(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnEstablishedDefinitionStaysSoWhenItAsksForANameThatIsTaken(t *testing.T) {
	holder := decidedOn(defined("widgets", "Widget"))
	mine := decidedOn(defined("gadgets", "Gadget"), holder)
	mine.Spec.Names.Kind = "Widget"
	got := decidedOn(mine, holder, mine)
	want := map[string]string{"NamesAccepted": "False KindConflict", "Established": "True InitialNamesAccepted"}
	if diff := cmp.Diff(want, conditions(got)); diff != "" {
		t.Error(diff)
	}
	if got.Status.AcceptedNames.Kind != "Gadget" {
		t.Errorf("serves kind %s: what was accepted must stay", got.Status.AcceptedNames.Kind)
	}
}

func TestARefusedDefinitionGetsItsNamesWhenTheyAreFree(t *testing.T) {
	holder := decidedOn(defined("widgets", "Widget"))
	refused := decidedOn(defined("gadgets", "Widget"), holder)
	if got := decidedOn(refused); !apihelpers.IsCRDConditionTrue(got, apiextensionsv1.Established) {
		t.Errorf("the holder is gone: %v", conditions(got))
	}
}

func TestAProtectedGroupNeedsAnApproval(t *testing.T) {
	crd := defined("widgets", "Widget")
	crd.Spec.Group = "widgets.k8s.io"
	if got := conditions(decidedOn(crd))["KubernetesAPIApprovalPolicyConformant"]; got != "False MissingAnnotation" {
		t.Errorf("without annotation: %q", got)
	}
	crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "https://github.com/kubernetes/kubernetes/pull/78458"}
	if got := conditions(decidedOn(crd))["KubernetesAPIApprovalPolicyConformant"]; got != "True ApprovedAnnotation" {
		t.Errorf("with annotation: %q", got)
	}
}

func TestAWebhookWithABrokenCABundleIsNotEstablished(t *testing.T) {
	crd := defined("widgets", "Widget")
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte("broken")}},
	}
	if got := conditions(decidedOn(crd))["Established"]; got != "False InvalidCABundle" {
		t.Errorf("Established: %q", got)
	}
}

func TestASchemaThatIsNotStructuralIsReportedUntilItIs(t *testing.T) {
	crd := defined("widgets", "Widget")
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {}},
		}},
	}}
	broken := decidedOn(crd)
	if got := conditions(broken)["NonStructuralSchema"]; got != "True Violations" {
		t.Errorf("a property without type: %q", got)
	}
	broken.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
	if got, there := conditions(decidedOn(broken))["NonStructuralSchema"]; there {
		t.Errorf("it is structural now: %q", got)
	}
}

func TestEqualDefinitionsHaveOneShape(t *testing.T) {
	shape := func(crd *apiextensionsv1.CustomResourceDefinition) Shape {
		of, _, err := shapesOf(crd)
		if err != nil {
			t.Fatal(err)
		}
		return of.served
	}
	shown := func(crd *apiextensionsv1.CustomResourceDefinition) Shape {
		of, _, err := shapesOf(crd)
		if err != nil {
			t.Fatal(err)
		}
		return of.shown
	}
	one, two := decidedOn(defined("widgets", "Widget")), decidedOn(defined("widgets", "Widget"))
	one.Annotations, two.Annotations = map[string]string{"kcp.io/cluster": "one"}, map[string]string{"kcp.io/cluster": "two"}
	one.UID, two.UID = "1", "2"
	if shape(one) != shape(two) {
		t.Error("equal specs and names in two logical clusters must share")
	}
	two.Spec.Scope = apiextensionsv1.ClusterScoped
	if shape(one) == shape(two) {
		t.Error("different specs must not share")
	}
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{one, two} {
		crd.Spec.Scope = ""
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Name: "convert"}}},
		}
	}
	if shape(one) == shape(two) {
		t.Error("a service of one logical cluster is not that of another")
	}
	if shown(one) != shown(two) {
		t.Error("how objects are converted is in no document: the documents must be shared")
	}
	for what, change := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"the scope": func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Scope = apiextensionsv1.ClusterScoped },
		"a name": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Status.AcceptedNames.ShortNames = []string{"w"}
		},
		"its deletion": func(crd *apiextensionsv1.CustomResourceDefinition) { now := metav1.Now(); crd.DeletionTimestamp = &now },
		"a schema": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}}
		},
	} {
		changed := two.DeepCopy()
		change(changed)
		if shown(changed) == shown(two) {
			t.Errorf("%s is shown", what)
		}
	}
}
