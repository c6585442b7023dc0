package auth

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

var (
	mu       sync.Mutex
	only     *server.Server
	provider *identityProvider
)

// shared returns the one server of the package.
func shared(t *testing.T) *server.Server {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if only == nil {
		provider = newProvider(t)
		dir := t.TempDir()
		only = server.StartSharedWith(t, func(o *app.Options) {
			o.Auth.TokenFile = write(t, dir, "tokens.csv", tokenFile)
			o.Auth.ConfigFile = write(t, dir, "authentication.yaml", provider.config())
			o.Auth.Issuers = []string{"https://tokens.example", "https://atoll.dev"}
		})
	}
	return only
}

// tokenFile names the people that come with a token of their own, which is their
// name and "-token".
const tokenFile = `olga-token,olga,u-olga,people
mallory-token,mallory,u-mallory
`

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// bearer is a configuration of somebody with a token; it names no logical cluster.
func bearer(s *server.Server, token string) *rest.Config {
	config := rest.AnonymousClientConfig(s.Config)
	config.BearerToken = token
	return config
}

// client takes the logical cluster from the context of a call.
func client(config *rest.Config) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(scope.ScopedConfig(config))
}

func TestMain(m *testing.M) {
	code := m.Run()
	if only != nil {
		only.Shutdown()
		provider.server.Close()
	}
	os.Exit(code)
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	server.Eventually(t, 20*time.Second, what, check)
}

// as is a client of another user, who has no groups but the one of everybody.
func as(s *server.Server, name string, groups ...string) kubernetes.Interface {
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return kubernetes.NewForConfigOrDie(scope.ScopedConfig(config))
}

// owned makes a logical cluster with an owner.
func owned(t *testing.T, s *server.Server, name, owner string) context.Context {
	t.Helper()
	lc := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	lc.Spec.Owners = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: owner}}
	if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(scope.WithCluster(t.Context(), scope.Root), lc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx := scope.WithCluster(t.Context(), logicalcluster.Name(name))
	eventually(t, "the owner is admin", func() error {
		_, err := as(s, owner).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		return err
	})
	return ctx
}

// bind gives a user a cluster role in the whole logical cluster of ctx.
func bind(ctx context.Context, t *testing.T, s *server.Server, role, name string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: name}}}
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// in is a context about a logical cluster.
func in(t *testing.T, cluster string) context.Context {
	t.Helper()
	return scope.WithCluster(t.Context(), logicalcluster.Name(cluster))
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// headerOf is a header of the reply to a GET.
func headerOf(t *testing.T, config *rest.Config, url, header string) string {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.Header.Get(header)
}
