package admission

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

var only server.Shared

// shared returns the one server of the package.
func shared(t *testing.T) *server.Server {
	t.Helper()
	return only.Get(t)
}

func TestMain(m *testing.M) { only.Main(m) }

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	server.Eventually(t, 30*time.Second, what, check)
}

// clusters makes a logical cluster of the test's name and another one beside it,
// each with the namespace web.
func clusters(t *testing.T, s *server.Server, name string) (own, other context.Context) {
	t.Helper()
	own, other = s.NewCluster(t, name), s.NewCluster(t, name+"-other")
	for _, ctx := range []context.Context{own, other} {
		makeNamespace(t, s, ctx, "web", nil)
	}
	return own, other
}

// makeNamespace returns when the namespace has what every namespace is given: tests
// count objects.
func makeNamespace(t *testing.T, s *server.Server, ctx context.Context, name string, labels map[string]string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is filled", func() error {
		_, account := s.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		_, certificate := s.Kube.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return errors.Join(account, certificate)
	})
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
}

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func createPod(t *testing.T, s *server.Server, ctx context.Context, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	created, err := s.Kube.CoreV1().Pods("web").Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating pod %s: %v", p.Name, err)
	}
	return created
}

// forbidden fails the test unless err is a 403 with these words.
func forbidden(t *testing.T, err error, words string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want Forbidden with %q", err, words)
	}
}
