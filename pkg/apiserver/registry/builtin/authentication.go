package builtin

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// authentication is the group authentication.k8s.io, with reviews of tokens that
// are about the logical cluster in which they are asked for.
type authentication struct {
	authenticationrest.RESTStorageProvider
}

func (p authentication) NewRESTStorage(resources serverstorage.APIResourceConfigSource, getter generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info, err := p.RESTStorageProvider.NewRESTStorage(resources, getter)
	if err != nil {
		return info, err
	}
	for _, storage := range info.VersionedResourcesStorageMap {
		if _, ok := storage["tokenreviews"]; ok {
			storage["tokenreviews"] = tokenReviews{REST: tokenreview.NewREST(p.Authenticator, p.APIAudiences), provider: p.RESTStorageProvider}
		}
	}
	return info, nil
}

// tokenReviews gives upstream's review, which makes up a request without a
// context, the scope of the real one.
type tokenReviews struct {
	*tokenreview.REST
	provider authenticationrest.RESTStorageProvider
}

// Create implements rest.Creater.
func (r tokenReviews) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	where, ok := scope.From(ctx)
	if !ok {
		return nil, scope.ErrNoCluster
	}
	return tokenreview.NewREST(within{r.provider.Authenticator, where}, r.provider.APIAudiences).Create(ctx, obj, validate, options)
}

type within struct {
	authenticator.Request
	where scope.Scope
}

// AuthenticateRequest implements authenticator.Request.
func (w within) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	return w.Request.AuthenticateRequest(req.WithContext(scope.With(req.Context(), w.where)))
}
