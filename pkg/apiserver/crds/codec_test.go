package crds

import (
	goruntime "runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
)

func encoded(t *testing.T, codec runtime.Codec, name, cluster string) []byte {
	t.Helper()
	crd := defined("widgets", "Widget")
	crd.Name, crd.Annotations = name, map[string]string{"kcp.io/cluster": cluster}
	crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object"}}},
		},
	}}
	crd.Status.StoredVersions = []string{cluster}
	data, err := runtime.Encode(codec, crd)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestEqualSpecsAreDecodedOnceAndTheRestEachTime(t *testing.T) {
	plain := apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	sharing := SharingCodec(plain)
	var specs []*apiextensions.CustomResourceDefinitionSpec
	for _, cluster := range []string{"one", "two"} {
		data := encoded(t, plain, "widgets.example.com", cluster)
		want, got := &apiextensions.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
		if err := runtime.DecodeInto(plain, data, want); err != nil {
			t.Fatal(err)
		}
		if err := runtime.DecodeInto(sharing, data, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is decoded differently (-plain +sharing):\n%s", cluster, diff)
		}
		specs = append(specs, &got.Spec)
	}
	if &specs[0].Versions[0] != &specs[1].Versions[0] {
		t.Error("equal specs are not shared")
	}
}

func TestAnOlderVersionIsDecodedAsUpstreamDoes(t *testing.T) {
	sharing := SharingCodec(apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
	data := []byte(`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","version":"v1","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"}}}`)
	for range 2 {
		crd := &apiextensions.CustomResourceDefinition{}
		if err := runtime.DecodeInto(sharing, data, crd); err != nil {
			t.Fatal(err)
		}
		if len(crd.Spec.Versions) != 1 || crd.Spec.Versions[0].Name != "v1" {
			t.Errorf("versions: %v", crd.Spec.Versions)
		}
	}
}

func TestBrokenDataIsAnErrorNotASpecOfOthers(t *testing.T) {
	sharing := SharingCodec(apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion))
	for _, data := range []string{"{", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":3}`} {
		if err := runtime.DecodeInto(sharing, []byte(data), &apiextensions.CustomResourceDefinition{}); err == nil {
			t.Errorf("%q was decoded", data)
		}
	}
}

func TestVersionsAreSharedWhateverElseDiffersAndGoWithTheLastWhoHasThem(t *testing.T) {
	plain := apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	sharing := SharingCodec(plain).(*sharingCodec)
	decodeOne := func(cluster, bundle string) *apiextensions.CustomResourceDefinition {
		data := encoded(t, plain, "widgets.example.com", cluster)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DecodeInto(plain, data, crd); err != nil {
			t.Fatal(err)
		}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte(bundle)},
		}}
		data, err := runtime.Encode(plain, crd)
		if err != nil {
			t.Fatal(err)
		}
		want, got := &apiextensions.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
		if err := runtime.DecodeInto(plain, data, want); err != nil {
			t.Fatal(err)
		}
		if err := runtime.DecodeInto(sharing, data, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is decoded differently (-plain +sharing):\n%s", cluster, diff)
		}
		return got
	}
	one, two := decodeOne("one", "certificate of one"), decodeOne("two", "certificate of two")
	if &one.Spec.Versions[0] != &two.Spec.Versions[0] || one.Spec.Validation != two.Spec.Validation {
		t.Error("equal versions are not shared")
	}
	goruntime.KeepAlive(one)
	goruntime.KeepAlive(two)
	deadline := time.Now().Add(20 * time.Second)
	for {
		goruntime.GC()
		sharing.mu.Lock()
		left := len(sharing.known)
		sharing.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody has the versions, and they are still kept")
		}
		time.Sleep(time.Millisecond)
	}
}
