package crds

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A definition that was made here is not parsed for its handler: others have its versions.
func TestAHandlerLetsGoOfSchemasForItselfOnly(t *testing.T) {
	t.Parallel()
	theirs := []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{}}}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = theirs
	letGoOfSchemas(crd)
	if v := crd.Spec.Versions[0]; v.Schema != nil || v.Name != "v1" || !v.Served {
		t.Errorf("the handler has %+v, want v1 without its schema", v)
	}
	if theirs[0].Schema == nil {
		t.Error("the schema is gone for others, too")
	}
}
