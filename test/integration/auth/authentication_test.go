package auth

import (
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// whoAmI asks the server who somebody is in the logical cluster of ctx.
func whoAmI(t *testing.T, s *server.Server, cluster, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	ctx := in(t, cluster)
	review, err := client(bearer(s, token)).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

func TestAStaticTokenNamesAUserInEveryLogicalCluster(t *testing.T) {
	s := shared(t)
	for _, c := range []string{"static-a", "static-b"} {
		bind(s.NewCluster(t, c), t, s, "view", "olga")
	}
	for _, c := range []string{"static-a", "static-b"} {
		var u authenticationv1.UserInfo
		eventually(t, "olga asks who she is", func() (err error) {
			u, err = whoAmI(t, s, c, "olga-token")
			return err
		})
		if u.Username != "olga" || u.UID != "u-olga" || len(u.Groups) != 2 {
			t.Errorf("in %s: %+v", c, u)
		}
	}
	if _, err := whoAmI(t, s, "static-a", "nobody-token"); !apierrors.IsUnauthorized(err) {
		t.Errorf("an unknown token: %v, want Unauthorized", err)
	}
}

func TestAJWTOfAnIdentityProviderNamesAUser(t *testing.T) {
	s := shared(t)
	bind(s.NewCluster(t, "oidc"), t, s, "view", "oscar")
	inAnHour := time.Now().Add(time.Hour)
	eventually(t, "the keys of the provider are known", func() error {
		u, err := whoAmI(t, s, "oidc", provider.token(t, "oscar", inAnHour, "ops"))
		if err == nil && u.Username != "oscar" {
			err = errors.New("it is " + u.Username)
		}
		return err
	})
	for name, token := range map[string]string{
		"expired":                        provider.token(t, "oscar", time.Now().Add(-time.Minute)),
		"named like a syncer":            provider.token(t, "system:atoll:syncer:east", inAnHour, "system:atoll:syncers"),
		"named like a service account":   provider.token(t, "system:serviceaccount:default:default", inAnHour),
		"in the group of syncers":        provider.token(t, "oscar", inAnHour, "system:atoll:syncers"),
		"in the group of accounts":       provider.token(t, "oscar", inAnHour, "system:serviceaccounts"),
		"named like the server":          provider.token(t, "system:apiserver", inAnHour, "system:masters"),
		"of the issuer of somebody else": newProvider(t).token(t, "oscar", inAnHour),
	} {
		if u, err := whoAmI(t, s, "oidc", token); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %+v, %v; want Unauthorized", name, u, err)
		}
	}
}

func TestAnonymousIsWhoTheConfigurationSays(t *testing.T) {
	s := shared(t)
	s.NewCluster(t, "anonymous")
	anonymous := client(rest.AnonymousClientConfig(s.Config))
	ctx := in(t, "anonymous")
	if _, err := anonymous.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		t.Errorf("health: %v", err)
	}
	if _, err := anonymous.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("objects: %v, want Unauthorized", err)
	}
	// A server without a configuration leaves it to roles, as upstream.
	plain := server.Start(t)
	anonymous = client(rest.AnonymousClientConfig(plain.Config))
	if _, err := anonymous.CoreV1().ConfigMaps("default").List(in(t, "root"), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("objects, by default: %v, want Forbidden", err)
	}
	health := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(plain.Config)).Discovery().RESTClient()
	if _, err := health.Get().AbsPath("/livez").DoRaw(t.Context()); err != nil {
		t.Errorf("health without a logical cluster: %v", err)
	}
}
