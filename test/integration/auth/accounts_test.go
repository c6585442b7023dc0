package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/test/framework/server"
)

func tokenFor(ctx context.Context, t *testing.T, s *server.Server, spec authenticationv1.TokenRequestSpec) string {
	t.Helper()
	r, err := s.Kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("requesting a token: %v", err)
	}
	if r.Status.ExpirationTimestamp.IsZero() {
		t.Error("the token does not expire")
	}
	return r.Status.Token
}

func TestATokenEndsWithWhatItIsBoundTo(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "bound")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod, err := s.Kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := s.Kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	zero := int64(0)
	for _, tc := range []struct {
		kind   string
		bound  metav1.Object
		delete func() error
	}{
		{"Pod", pod, func() error {
			return s.Kube.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &zero})
		}},
		{"Secret", secret, func() error { return s.Kube.CoreV1().Secrets("default").Delete(ctx, "s", metav1.DeleteOptions{}) }},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			token := tokenFor(ctx, t, s, authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind: tc.kind, APIVersion: "v1", Name: tc.bound.GetName(), UID: tc.bound.GetUID()}})
			u, err := whoAmI(t, s, "bound", token)
			if err != nil || u.Username != "system:serviceaccount:default:default" || tc.kind == "Pod" && u.Extra["authentication.kubernetes.io/pod-name"][0] != "p" {
				t.Fatalf("before: %+v, %v", u, err)
			}
			if err := tc.delete(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the token ends", func() error {
				_, err := whoAmI(t, s, "bound", token)
				if apierrors.IsUnauthorized(err) {
					return nil
				}
				return errors.Join(errors.New("it is still good"), err)
			})
		})
	}
}

func TestATokenForAnotherAudienceIsNotForTheAPI(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "audience")
	token := tokenFor(ctx, t, s, authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})
	if _, err := whoAmI(t, s, "audience", token); !apierrors.IsUnauthorized(err) {
		t.Errorf("asking the API: %v, want Unauthorized", err)
	}
	review := func(cluster string, audiences ...string) authenticationv1.TokenReviewStatus {
		r, err := s.Kube.AuthenticationV1().TokenReviews().Create(in(t, cluster), &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status
	}
	if r := review("audience", "vault"); !r.Authenticated || r.User.Username != "system:serviceaccount:default:default" {
		t.Errorf("reviewed for its audience: %+v", r)
	}
	if r := review("audience"); r.Authenticated {
		t.Errorf("reviewed for the API: %+v", r)
	}
	s.NewCluster(t, "audience-other")
	if r := review("audience-other", "vault"); r.Authenticated {
		t.Errorf("reviewed in another logical cluster: %+v", r)
	}
}

func TestOthersCanVerifyTheTokensOfALogicalCluster(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "issuer")
	token := tokenFor(ctx, t, s, authenticationv1.TokenRequestSpec{})
	get := func(path string, into any) {
		t.Helper()
		body, err := client(bearer(s, token)).Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := json.Unmarshal(body, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	var config struct {
		Issuer  string `json:"issuer"`
		KeysURI string `json:"jwks_uri"`
	}
	get("/.well-known/openid-configuration", &config)
	if want := s.URL + "/clusters/issuer/openid/v1/jwks"; config.Issuer != "https://tokens.example/clusters/issuer" || config.KeysURI != want {
		t.Errorf("configuration %+v", config)
	}
	var keys jose.JSONWebKeySet
	get("/openid/v1/jwks", &keys)
	parsed, err := jwt.ParseSigned(token)
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.Claims
	if err := parsed.Claims(&keys, &claims); err != nil || claims.Issuer != config.Issuer {
		t.Errorf("claims %+v, %v", claims, err)
	}
	if _, err := client(bearer(s, "olga-token")).Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("somebody who is no service account reads keys: %v, want Forbidden", err)
	}
}

func TestInClusterConfigurationNeedsNoPath(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "no-path")
	s.NewCluster(t, "no-path-other")
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "edit"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}}}
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	plain := kubernetes.NewForConfigOrDie(bearer(s, tokenFor(ctx, t, s, authenticationv1.TokenRequestSpec{})))
	eventually(t, "writing without a path", func() error {
		_, err := plain.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("mine"), metav1.CreateOptions{})
		return err
	})
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Get(ctx, "mine", metav1.GetOptions{}); err != nil {
		t.Errorf("in its logical cluster: %v", err)
	}
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Get(in(t, "no-path-other"), "mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("in another: %v, want NotFound", err)
	}
	// A token whose issuer was altered chooses a logical cluster, and is refused there.
	parts := strings.Split(tokenFor(ctx, t, s, authenticationv1.TokenRequestSpec{}), ".")
	parts[1] = "eyJpc3MiOiJodHRwczovL2F0b2xsLmRldi9jbHVzdGVycy9yb290In0"
	forged := kubernetes.NewForConfigOrDie(bearer(s, strings.Join(parts, ".")))
	if _, err := forged.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a forged issuer: %v, want Unauthorized", err)
	}
}

func TestAPodReadsVersionAndHealthWithoutAPath(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "no-path-health")
	token := tokenFor(ctx, t, s, authenticationv1.TokenRequestSpec{})
	get := func(token, path string) (string, error) {
		body, err := kubernetes.NewForConfigOrDie(bearer(s, token)).Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		return string(body), err
	}
	// Everything that a client in a pod asks before it begins.
	for path, want := range map[string]string{
		"/version": "gitVersion", "/healthz": "ok", "/livez": "ok", "/livez/ping": "ok", "/readyz": "ok",
		"/api": "APIVersions", "/apis": "APIGroupList", "/openapi/v2": "swagger", "/openapi/v3": "paths",
	} {
		eventually(t, "a token of a service account reads "+path, func() error {
			body, err := get(token, path)
			if err == nil && !strings.Contains(body, want) {
				err = fmt.Errorf("the answer has no %q: %.200s", want, body)
			}
			return err
		})
	}
	if _, err := get(token, "/metrics"); !apierrors.IsForbidden(err) {
		t.Errorf("metrics of the whole server with a token of one logical cluster: %v, want Forbidden", err)
	}
	parts := strings.Split(token, ".")
	forged := strings.Join([]string{parts[0], parts[1], parts[2][:len(parts[2])-4] + "AAAA"}, ".")
	if _, err := get(forged, "/version"); !apierrors.IsUnauthorized(err) {
		t.Errorf("a forged token: %v, want Unauthorized", err)
	}
	// Without credentials of one logical cluster, they are the server's own.
	own := kubernetes.NewForConfigOrDie(s.Config).Discovery().RESTClient()
	for _, path := range []string{"/version", "/healthz", "/livez", "/readyz", "/metrics"} {
		if _, err := own.Get().AbsPath(path).DoRaw(t.Context()); err != nil {
			t.Errorf("an admin without a path reads %s: %v", path, err)
		}
	}
	if _, err := get("", "/livez"); err != nil {
		t.Errorf("health without any credentials: %v", err)
	}
}
