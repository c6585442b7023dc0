package auth

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	jwt "gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
)

// TestATokenExpires makes tokens with the keys of the server whose time has come, as
// the shortest that can be asked for live ten minutes.
func TestATokenExpires(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "expiry")
	account, err := s.Kube.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request := func(seconds int64) (*authenticationv1.TokenRequest, error) {
		return s.Kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(seconds)}}, metav1.CreateOptions{})
	}
	if _, err := request(599); !apierrors.IsInvalid(err) {
		t.Errorf("for less than ten minutes: %v, want Invalid", err)
	}
	for seconds, want := range map[int64]time.Duration{600: 10 * time.Minute, 365 * 24 * 3600: 24 * time.Hour} {
		r, err := request(seconds)
		if err != nil {
			t.Fatal(err)
		}
		if lasts := time.Until(r.Status.ExpirationTimestamp.Time); lasts > want || lasts < want-time.Minute {
			t.Errorf("asked for %d seconds, it lasts %s, want %s", seconds, lasts, want)
		}
	}

	keys, err := pki.Load(filepath.Join(s.Dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := auth.NewTokens(keys.ServiceAccountKey, s.Kube, []string{"https://tokens.example"})
	if err != nil {
		t.Fatal(err)
	}
	expiring := func(at time.Time) string {
		t.Helper()
		claims, private, err := serviceaccount.Claims(core.ServiceAccount{ObjectMeta: account.ObjectMeta}, nil, nil, nil, nil, nil, 600, 0, []string{auth.Audience}, nil)
		if err != nil {
			t.Fatal(err)
		}
		claims.IssuedAt, claims.NotBefore, claims.Expiry = jwt.NewNumericDate(at.Add(-10*time.Minute)), jwt.NewNumericDate(at.Add(-10*time.Minute)), jwt.NewNumericDate(at)
		token, err := tokens.GenerateToken(ctx, claims, private)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	if u, err := whoAmI(t, s, "expiry", expiring(time.Now().Add(9*time.Minute))); err != nil || u.Username != "system:serviceaccount:default:default" {
		t.Errorf("nine minutes before the end: %+v, %v", u, err)
	}
	if _, err := whoAmI(t, s, "expiry", expiring(time.Now().Add(-2*time.Minute))); !apierrors.IsUnauthorized(err) { // clocks may differ by a minute
		t.Errorf("after the end: %v, want Unauthorized", err)
	}
}

// TestATokenThatIsBoundToANodeEndsWithThePhysicalCluster: Nodes are views of
// physical clusters, with UIDs of their own in each logical cluster.
func TestATokenThatIsBoundToANodeEndsWithThePhysicalCluster(t *testing.T) {
	s := shared(t)
	ctx, root := s.NewCluster(t, "node-bound"), in(t, "root")
	clusters := s.Atoll.FleetV1alpha1().PhysicalClusters()
	if _, err := clusters.Create(root, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "north"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node, err := s.Kube.CoreV1().Nodes().Get(ctx, "north", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound := func(name string, uid types.UID) authenticationv1.TokenRequestSpec {
		return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: uid}}
	}
	for name, spec := range map[string]authenticationv1.TokenRequestSpec{"an unknown Node": bound("nowhere", ""), "another UID": bound("north", "other")} {
		_, err := s.Kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Errorf("%s: %v, want NotFound or Conflict", name, err)
		}
	}
	token := tokenFor(ctx, t, s, bound("north", node.UID))
	u, err := whoAmI(t, s, "node-bound", token)
	if err != nil || u.Extra["authentication.kubernetes.io/node-name"][0] != "north" || u.Extra["authentication.kubernetes.io/node-uid"][0] != string(node.UID) {
		t.Fatalf("before: %+v, %v", u, err)
	}
	if err := clusters.Delete(root, "north", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ended := func() error {
		if _, err := whoAmI(t, s, "node-bound", token); !apierrors.IsUnauthorized(err) {
			return errors.Join(errors.New("it is still good"), err)
		}
		return nil
	}
	eventually(t, "the token ends", ended)
	if _, err := clusters.Create(root, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "north"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is another Node of the name", func() error {
		_, err := s.Kube.CoreV1().Nodes().Get(ctx, "north", metav1.GetOptions{})
		return err
	})
	if err := ended(); err != nil {
		t.Errorf("of another physical cluster of the name: %v", err)
	}
	// Other tests count the Nodes.
	if err := clusters.Delete(root, "north", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Node goes", func() error {
		if _, err := s.Kube.CoreV1().Nodes().Get(ctx, "north", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
}
