package discovery

import (
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Upstream leaves functions in the configuration of a document, which hold all that it was made of.
func TestADocumentLeavesNothingInItsConfiguration(t *testing.T) {
	t.Parallel()
	v2 := &common.Config{
		Info:           &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: "1"}},
		GetDefinitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil },
	}
	if _, err := NewBuiltinOpenAPI(restful.NewContainer(), v2, &common.OpenAPIV3Config{}).v2(); err != nil {
		t.Fatal(err)
	}
	if v2.GetOperationIDAndTagsFromRoute != nil || v2.GetDefinitionName != nil {
		t.Error("the configuration of the server has functions that were left by the document")
	}
}
