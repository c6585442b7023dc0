package egress

import (
	"strings"
	"testing"

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
