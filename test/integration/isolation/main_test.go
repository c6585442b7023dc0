package isolation

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// marker is in everything that mallory must not see.
const marker = "s3cr3t-of-the-victim"

// world is a server with a logical cluster of mallory and one of a victim.
type world struct {
	*server.Server
	evil, victim context.Context
	// mallory's clients: with a token of hers, and with one of a service account
	// of her logical cluster that is cluster-admin there.
	mallory, robot kubernetes.Interface
	robotToken     string
	http           *http.Client
}

const malloryToken = "mallory-token"

var (
	mu   sync.Mutex
	only *world
)

func TestMain(m *testing.M) {
	code := m.Run()
	if only != nil {
		only.Shutdown()
	}
	os.Exit(code)
}

func shared(t testing.TB) *world {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if only == nil {
		only = newWorld(t)
	}
	return only
}

func newWorld(t testing.TB) *world {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte(malloryToken+",mallory,u-mallory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := server.StartSharedWith(t, func(o *app.Options) { o.Auth.TokenFile = tokens })
	w := &world{Server: s, http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	w.evil, w.victim = cluster("evil"), cluster("victim")
	for name, owner := range map[string]string{"evil": "mallory", "victim": "victor"} {
		lc := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"note": marker}}}
		lc.Spec.Owners = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: owner}}
		if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(cluster("root"), lc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, ctx := range []context.Context{w.victim, cluster("root")} {
		if _, err := s.Kube.CoreV1().Secrets("default").Create(ctx, secret("s"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"of": marker}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	robot := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "robot"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}}}
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(w.evil, robot, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := s.Kube.CoreV1().ServiceAccounts("default").CreateToken(w.evil, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.robotToken = token.Status.Token
	w.mallory, w.robot = w.client(malloryToken), w.client(w.robotToken)
	server.Eventually(t, 20*time.Second, "mallory rules her own", func() error {
		if _, err := w.robot.CoreV1().Secrets("default").List(w.evil, metav1.ListOptions{}); err != nil {
			return err
		}
		_, err := w.mallory.CoreV1().Secrets("default").List(w.evil, metav1.ListOptions{})
		return err
	})
	return w
}

func (w *world) client(token string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(w.config(token))
}

func (w *world) config(token string) *rest.Config {
	config := rest.AnonymousClientConfig(w.Config)
	config.BearerToken = token
	return scope.ScopedConfig(config)
}

// cluster is a context about a logical cluster; the world outlives a test.
func cluster(name string) context.Context {
	return scope.WithCluster(context.Background(), logicalcluster.Name(name))
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"password": marker}}
}

// raw sends a request whose path is exactly what is given, and returns the reply.
func (w *world) raw(t testing.TB, method, target, token, body string) (int, string) {
	t.Helper()
	return w.send(t, w.http, method, target, token, body)
}

// send is raw with another client.
func (w *world) send(t testing.TB, client *http.Client, method, target, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, w.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = strings.TrimPrefix(w.URL, "https:") + target
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := client.Do(req)
	if err != nil {
		return 0, err.Error() // refused by the client or by the server's HTTP
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return response.StatusCode, err.Error()
	}
	return response.StatusCode, string(reply)
}

// leaks says whether a reply shows what mallory must not see; Secrets are
// encoded.
func leaks(reply string) bool {
	return strings.Contains(reply, marker) || strings.Contains(reply, "czNjcjN0LW9mLXRoZS12aWN0aW0")
}

// stays fails unless what the victim and root have is there and unchanged.
func (w *world) stays(t testing.TB) {
	t.Helper()
	for _, ctx := range []context.Context{w.victim, cluster("root")} {
		if s, err := w.Kube.CoreV1().Secrets("default").Get(ctx, "s", metav1.GetOptions{}); err != nil || string(s.Data["password"]) != marker || s.DeletionTimestamp != nil {
			t.Errorf("the secret of the victim: %v, %v", s, err)
		}
	}
}

func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)
}

func want(err error) error {
	if refused(err) {
		return nil
	}
	return fmt.Errorf("got %v, want a refusal", err)
}
