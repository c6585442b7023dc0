package crds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzDefinitions: what is decoded with shared specs is what upstream decodes, the first time
// and when its versions are known.
func FuzzDefinitions(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.b"},"spec":{"group":"b","names":{"plural":"a"},"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]}}`))
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[],"Versions":[{}],"conversion":null},"status":1}`))
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[{}],"versions":[{"name":"v2"}]},"Spec":{}}`))
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metAdAtA":{"name":"a"},"spec":{"versions":[{}]}}`))
	plain := apiextensionsapiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &apiextensions.CustomResourceDefinition{}
		failed := runtime.DecodeInto(plain, data, want)
		sharing := SharingCodec(plain)
		for range 2 {
			got := &apiextensions.CustomResourceDefinition{}
			err := runtime.DecodeInto(sharing, data, got)
			if (err == nil) != (failed == nil) {
				t.Fatalf("upstream says %v, and with shared specs it is %v", failed, err)
			}
			if diff := cmp.Diff(want, got); err == nil && diff != "" {
				t.Fatalf("-upstream +shared\n%s", diff)
			}
		}
	})
}
