package builtin

import (
	"context"
	"net/http"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	authenticationapi "k8s.io/kubernetes/pkg/apis/authentication"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestEveryVersionThatIsServedIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	seen := map[schema.GroupVersion]bool{}
	for _, gv := range GroupVersions() {
		if seen[gv] {
			t.Errorf("%s is listed twice", gv)
		}
		seen[gv] = true
		if gv.Group != "apiregistration.k8s.io" && !legacyscheme.Scheme.IsVersionRegistered(gv) {
			t.Errorf("%s is not in the scheme", gv)
		}
	}
}

func TestNoUserServesAGroupThatTheServerServes(t *testing.T) {
	t.Parallel()
	resources := serverstorage.NewResourceConfig()
	resources.EnableVersions(GroupVersions()...)
	reserved := Reserved(resources)
	for _, group := range []string{"", "apps", "rbac.authorization.k8s.io", "apiextensions.k8s.io", "metrics.k8s.io"} {
		if !reserved.Has(group) {
			t.Errorf("group %q is not reserved", group)
		}
	}
	if reserved.Has("custom.metrics.k8s.io") {
		t.Error("nobody can serve custom.metrics.k8s.io")
	}
}

// where authenticates every token as the logical cluster that it is asked in.
type where struct{}

func (where) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	c, ok := scope.ClusterFrom(req.Context())
	if !ok {
		return nil, false, scope.ErrNoCluster
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: "of " + c.String()}}, true, nil
}

func TestATokenIsReviewedInTheLogicalClusterThatAsks(t *testing.T) {
	t.Parallel()
	resources := serverstorage.NewResourceConfig()
	resources.EnableVersions(GroupVersions()...)
	group, err := authentication{authenticationrest.RESTStorageProvider{Authenticator: where{}}}.NewRESTStorage(resources, nil)
	if err != nil {
		t.Fatal(err)
	}
	reviews, ok := group.VersionedResourcesStorageMap["v1"]["tokenreviews"].(rest.Creater)
	if !ok {
		t.Fatalf("tokenreviews are served by %T", group.VersionedResourcesStorageMap["v1"]["tokenreviews"])
	}
	review := func(ctx context.Context) (*authenticationapi.TokenReview, error) {
		obj, err := reviews.Create(ctx, &authenticationapi.TokenReview{Spec: authenticationapi.TokenReviewSpec{Token: "t"}}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*authenticationapi.TokenReview), nil
	}
	for _, c := range []logicalcluster.Name{"a", "b"} {
		got, err := review(inCluster(t, c))
		if err != nil {
			t.Fatal(err)
		}
		if !got.Status.Authenticated || got.Status.User.Username != "of "+c.String() {
			t.Errorf("in %s: %+v", c, got.Status)
		}
	}
	if got, err := review(t.Context()); err == nil {
		t.Errorf("outside of all logical clusters: %+v", got.Status)
	}
}
