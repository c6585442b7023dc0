package crds

import (
	"bytes"
	"encoding/json"
	goruntime "runtime"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// versioned has all that a version may have beside a schema.
func versioned(cluster string) *apiextensionsv1.CustomResourceDefinition {
	crd := defined("widgets", "Widget")
	crd.Annotations = map[string]string{"kcp.io/cluster": cluster}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: ptr.To(true), Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Description: "Spec", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"size": {Type: "integer", Minimum: ptr.To(0.5), Default: &apiextensionsv1.JSON{Raw: []byte("9007199254740993")}},
					"SIZE": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"<a>"`)}}},
				}},
			},
		}},
		Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Size", Type: "integer", JSONPath: ".spec.size"}},
		SelectableFields:         []apiextensionsv1.SelectableField{{JSONPath: ".spec.size"}},
	}, {Name: "v2", Served: true, Deprecated: true, DeprecationWarning: ptr.To("old")}}
	return crd
}

func TestADefinitionIsKeptWithoutSchemasAndHasThemWhenAsked(t *testing.T) {
	s := schemas{shared: map[Shape]weak.Pointer[sharedVersions]{}}
	want := versioned("one")
	d, err := s.share(want.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	full, err := d.Full()
	if err != nil {
		t.Fatal(err)
	}
	sameJSON := cmp.Comparer(func(a, b apiextensionsv1.JSON) bool { return escaped(a.Raw) == escaped(b.Raw) })
	if diff := cmp.Diff(want, full, sameJSON); diff != "" {
		t.Errorf("what was defined is another one (-want +got):\n%s", diff)
	}
	light := want.DeepCopy()
	light.Spec.Versions[0].Schema = nil
	if diff := cmp.Diff(light, d.CustomResourceDefinition); diff != "" {
		t.Errorf("what is kept is more, or less, than all but the schemas (-want +got):\n%s", diff)
	}
}

// escaped is JSON as encoding/json writes it: the same value in other letters.
func escaped(text []byte) string {
	var out bytes.Buffer
	json.HTMLEscape(&out, text)
	return out.String()
}

func TestEqualVersionsAreKeptOnceAndGoWithTheLast(t *testing.T) {
	s := schemas{shared: map[Shape]weak.Pointer[sharedVersions]{}}
	one, err := s.share(versioned("one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.share(versioned("two"))
	if err != nil {
		t.Fatal(err)
	}
	if one.versions != two.versions || &one.Spec.Versions[0] != &two.Spec.Versions[0] {
		t.Error("two logical clusters keep the same versions twice")
	}
	goruntime.KeepAlive(one)
	goruntime.KeepAlive(two)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		goruntime.GC()
		s.mu.Lock()
		left := len(s.shared)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("versions that nobody has are kept")
		}
	}
}
