package auth

import (
	"net/http"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// The paths of OpenID discovery, below the URL of a logical cluster. Whether
// somebody may read them is up to the role system:service-account-issuer-discovery.
const (
	OpenIDConfigPath = serviceaccount.OpenIDConfigPath
	OpenIDKeysPath   = serviceaccount.JWKSPath
)

// Discovery serves what others need to verify service account tokens of the
// logical cluster of the request. url is that of the server.
func (t *Tokens) Discovery(url string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, ok := scope.ClusterFrom(req.Context())
		if !ok || c == scope.Wildcard || req.Method != http.MethodGet && req.Method != http.MethodHead {
			http.NotFound(w, req)
			return
		}
		provider, err := t.metadata(url, c)
		if err != nil {
			responsewriters.InternalError(w, req, apierrors.NewInternalError(err))
			return
		}
		body, _ := provider.GetConfigJSON()
		w.Header().Set("Content-Type", "application/json")
		if req.URL.Path == OpenIDKeysPath {
			body, _ = provider.GetKeysetJSON()
			w.Header().Set("Content-Type", "application/jwk-set+json")
		}
		_, _ = w.Write(body) // the client is gone if it fails
	})
}

func (t *Tokens) metadata(url string, c logicalcluster.Name) (serviceaccount.OpenIDMetadataProvider, error) {
	return serviceaccount.NewOpenIDMetadataProvider(t.issuer(c), url+scope.Scope{Cluster: c}.Path()+OpenIDKeysPath, "", t.public)
}
