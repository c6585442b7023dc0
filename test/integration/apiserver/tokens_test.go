package apiserver

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// withToken is a client that knows the server and a token, no path: what
// client-go's in-cluster configuration has.
func withToken(t *testing.T, s *server.Server, token string) *rest.Config {
	t.Helper()
	c := rest.AnonymousClientConfig(s.Config)
	c.BearerToken = token
	return c
}

func tokenOf(ctx context.Context, t *testing.T, s *server.Server, account string) string {
	t.Helper()
	r, err := s.Kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("requesting a token: %v", err)
	}
	return r.Status.Token
}

func grantView(ctx context.Context, t *testing.T, s *server.Server) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "view"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}}}
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestATokenIsGoodInItsOwnLogicalClusterOnly(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "token-a"), s.NewCluster(t, "token-b")
	grantView(a, t, s)
	grantView(b, t, s)
	config := withToken(t, s, tokenOf(a, t, s, "default"))

	own := kubernetes.NewForConfigOrDie(scope.PinnedConfig(config, scope.Scope{Cluster: "token-a"}))
	server.Eventually(t, 10*time.Second, "reading with a token", func() error {
		_, err := own.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	})
	other := kubernetes.NewForConfigOrDie(scope.PinnedConfig(config, scope.Scope{Cluster: "token-b"}))
	if _, err := other.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("in another logical cluster: %v, want Unauthorized", err)
	}
	all := kubernetes.NewForConfigOrDie(scope.PinnedConfig(config, scope.Scope{Cluster: scope.Wildcard}))
	if _, err := all.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("over all logical clusters: %v, want Unauthorized", err)
	}
	root := kubernetes.NewForConfigOrDie(scope.PinnedConfig(config, scope.Scope{Cluster: scope.Root}))
	if _, err := root.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("in root: %v, want Unauthorized", err)
	}
}

func TestATokenNamesTheLogicalClusterOfARequestWithoutAPath(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "in-cluster")
	grantView(ctx, t, s)
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(withToken(t, s, tokenOf(ctx, t, s, "default")))
	server.Eventually(t, 10*time.Second, "reading without a path", func() error {
		_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "mine", metav1.GetOptions{})
		return err
	})
}

func TestATokenEndsWithItsAccount(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "revoked")
	if _, err := s.Kube.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(scope.PinnedConfig(withToken(t, s, tokenOf(ctx, t, s, "bot")), scope.Scope{Cluster: "revoked"}))
	if _, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a living account without roles: %v, want Forbidden", err)
	}
	if err := s.Kube.CoreV1().ServiceAccounts("default").Delete(ctx, "bot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 10*time.Second, "the token ends", func() error {
		_, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("serviceaccounts"), "bot", err)
	})
}

func TestOwnersAreAdminsOfTheirLogicalClusterOnly(t *testing.T) {
	s := shared(t)
	root := scope.WithCluster(t.Context(), scope.Root)
	lc := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "owned"}}
	lc.Spec.Owners = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "olga"}}
	if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(root, lc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.NewCluster(t, "not-owned")
	olga := rest.CopyConfig(s.Config)
	olga.Impersonate.UserName = "olga"
	client := kubernetes.NewForConfigOrDie(scope.ScopedConfig(olga))
	server.Eventually(t, 10*time.Second, "an owner makes a namespace", func() error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
		_, err := client.CoreV1().Namespaces().Create(scope.WithCluster(t.Context(), "owned"), ns, metav1.CreateOptions{})
		return err
	})
	for _, c := range []scope.Scope{{Cluster: "not-owned"}, {Cluster: "nowhere"}, {Cluster: scope.Root}, {Cluster: scope.Wildcard}, {Cluster: "owned", Target: "east"}} {
		if _, err := client.CoreV1().Secrets("").List(scope.With(t.Context(), c), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%+v: %v, want Forbidden", c, err)
		}
	}
}
