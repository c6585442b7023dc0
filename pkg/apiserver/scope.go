package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/atoll-dev/atoll/pkg/apiserver/audit"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// unscoped are the paths that need no logical cluster: without a credential that
// names one, they are the server's own.
var unscoped = []string{"/livez", "/readyz", "/healthz", "/version", "/metrics"}

// WithScope moves the scope from the URL path into the context. A request
// without one belongs to the logical cluster of its service account token, as
// client-go's in-cluster configuration knows no path (clusterOf reads it, and the
// authenticator verifies it), or of its certificate. Credentials are good in their
// logical cluster only, so they are asked before the paths that need none. Any
// other request is answered with how to name a logical cluster.
func WithScope(next http.Handler, clusterOf func(token string) (logicalcluster.Name, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req = req.WithContext(audit.WithURI(req.Context(), req.RequestURI))
		s, rest, ok, err := scope.Cut(req.URL.Path)
		switch {
		case err != nil:
			notFound(w, err.Error())
			return
		case ok:
			next.ServeHTTP(w, withPath(req.WithContext(scope.With(req.Context(), s)), rest))
			return
		}
		if c, ok := clusterOf(bearerToken(req)); ok {
			next.ServeHTTP(w, req.WithContext(scope.WithCluster(req.Context(), c)))
			return
		}
		if c, ok := clusterOfCertificate(req); ok {
			next.ServeHTTP(w, req.WithContext(scope.WithCluster(req.Context(), c)))
			return
		}
		if isUnscoped(req.URL.Path) {
			next.ServeHTTP(w, req)
			return
		}
		notFound(w, fmt.Sprintf("%s names no logical cluster: put /clusters/<name> in front of the path, as in the server URL of a kubeconfig (atoll kubeconfig <name> prints one)", req.URL.Path))
	})
}

// withExisting answers requests to a logical cluster that does not exist. It is
// behind authorization, so that nobody can find out the names of others; what
// needs no authorization is answered for any name, and by anybody. In the view of a
// physical cluster, one that does not exist is as empty as one of which nothing is
// placed there: a syncer may ask for any name.
func withExisting(next, anybody http.Handler, exists func(context.Context, logicalcluster.Name) (bool, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		c, ok := scope.ClusterFrom(req.Context())
		_, viewed := scope.TargetFrom(req.Context())
		switch {
		case isUnscoped(req.URL.Path):
			anybody.ServeHTTP(w, req)
			return
		case !ok, c == scope.Root, c == scope.Wildcard, viewed:
			next.ServeHTTP(w, req)
			return
		}
		found, err := exists(req.Context(), c)
		switch {
		case err != nil:
			status := metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
				Message: fmt.Sprintf("looking up logical cluster %q: %v", c, err),
			}
			responsewriters.WriteRawJSON(http.StatusInternalServerError, status, w)
		case !found:
			notFound(w, fmt.Sprintf("logical cluster %q not found", c))
		default:
			next.ServeHTTP(w, req)
		}
	})
}

func withPath(req *http.Request, path string) *http.Request {
	u := *req.URL
	u.Path, u.RawPath = path, ""
	req.URL = &u
	req.RequestURI = u.RequestURI()
	return req
}

func isUnscoped(path string) bool {
	for _, p := range unscoped {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// clusterOfCertificate reads what a client certificate is meant for; whether the
// certificate is good, the authenticator finds out.
func clusterOfCertificate(req *http.Request) (logicalcluster.Name, bool) {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return "", false
	}
	return pki.ClusterOf(req.TLS.PeerCertificates[0])
}

func bearerToken(req *http.Request) string {
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// notFound answers 404. The message goes into a Warning header, too: client-go
// drops the body of an error in discovery, the first thing that kubectl asks for.
func notFound(w http.ResponseWriter, message string) {
	if header, err := utilnet.NewWarningHeader(299, "-", message); err == nil {
		w.Header().Add("Warning", header)
	}
	responsewriters.WriteRawJSON(http.StatusNotFound, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: message,
	}, w)
}
