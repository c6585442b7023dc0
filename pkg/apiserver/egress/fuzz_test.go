package egress

import (
	"encoding/base64"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// FuzzHosts: a host for pods of a Service leads back to it, and no other host leads to one.
func FuzzHosts(f *testing.F) {
	f.Add("web", "a", "10.0.0.1:443")
	f.Add("web", "a-1", podsPrefix+"x.a.web:443")
	f.Add("kube-system", "b", "pods.a.web.svc")
	f.Fuzz(func(t *testing.T, namespace, name, host string) {
		if len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1035Label(name)) == 0 {
			of := hostOf(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, nil)
			if n, s, ok := serviceOf(of + ":443"); !ok || n != namespace || s != name {
				t.Errorf("%s/%s becomes %s/%s, %v", namespace, name, n, s, ok)
			}
		}
		if _, _, ok := serviceOf(host); ok && !strings.HasPrefix(host, podsPrefix) {
			t.Errorf("%q leads to pods", host)
		}
	})
}

// FuzzOperations: of a patch in an answer each operation is counted that upstream's library
// would do, in JSON and in YAML; of any other answer no more than it has bytes.
func FuzzOperations(f *testing.F) {
	f.Add([]byte(`[{"op":"add","path":"/a","value":1},{"op":"remove","path":"/b"}]`), []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"patch":"W3t9XQ=="}}`))
	f.Add([]byte(`[null,{}]`), []byte("apiVersion: admission.k8s.io/v1beta1\nkind: AdmissionReview\nresponse: {patch: W3t9LHt9XQ==}"))
	f.Add([]byte(`[{}] `), []byte("apiVersion: &v admission.k8s.io/v1\nkind: AdmissionReview\nresponse: *v"))
	f.Add([]byte(`{"op":1}`), []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"patch":[1,2]}}`))
	f.Fuzz(func(t *testing.T, patch, answer []byte) {
		if n := operationsOf(answer); n > len(answer) {
			t.Errorf("%d operations in %d bytes", n, len(answer))
		}
		done, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return
		}
		text := base64.StdEncoding.EncodeToString(patch)
		for _, version := range []string{"v1", "v1beta1"} {
			for _, review := range []string{
				`{"apiVersion":"admission.k8s.io/` + version + `","kind":"AdmissionReview","response":{"patch":"` + text + `"}}`,
				"kind: AdmissionReview\napiVersion: admission.k8s.io/" + version + "\nresponse:\n  patch: \"" + text + "\"\n",
			} {
				if n := operationsOf([]byte(review)); n != len(done) {
					t.Errorf("%d operations are counted, and %d done, of %q", n, len(done), patch)
				}
			}
		}
	})
}
