package aggregation

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	proxyutil "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// maxDelegated is how many requests of a logical cluster are with aggregated
// servers at a time. They do not count for priority and fairness meanwhile.
const maxDelegated = 512

// With hands requests over whose version of a group an APIService of their
// logical cluster has; next serves everything else. It is behind authorization.
func (a *Aggregation) With(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		group, version, ok := groupVersion(req.URL.Path)
		if !ok || !a.serve(group, version, w, req) {
			next.ServeHTTP(w, req)
		}
	})
}

// groupVersion reads a path below /apis.
func groupVersion(path string) (group, version string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return "", "", false
	}
	group, rest, _ = strings.Cut(rest, "/")
	version, _, _ = strings.Cut(rest, "/")
	return group, version, group != "" && version != ""
}

// Documents serves the documents of one version of a group: resources and OpenAPI.
func (a *Aggregation) documents(group, version string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !a.serve(group, version, w, req) {
			fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server does not have it")
		}
	})
}

// serve reports whether the request is about an aggregated API. The server itself
// never asks one: what it does for one logical cluster must not wait for the
// server of another.
func (a *Aggregation) serve(group, version string, w http.ResponseWriter, req *http.Request) bool {
	ctx := req.Context()
	s, ok := scope.From(ctx)
	if !ok || s.Target != "" || s.Cluster == scope.Wildcard {
		return false
	}
	service := a.find(s.Cluster, group, version)
	who, known := request.UserFrom(ctx)
	if service == nil || known && auth.IsSystem(who) {
		return false
	}
	if !known {
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "missing user")
		return true
	}
	a.proxy(service, who, w, req)
	return true
}

// proxy hands one request over, as upstream's aggregator does.
func (a *Aggregation) proxy(s *apiregistrationv1.APIService, who user.Info, w http.ResponseWriter, req *http.Request) {
	unavailable := func(why string) {
		fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, fmt.Sprintf("the aggregated API %s/%s is not available: %s", s.Spec.Group, s.Spec.Version, why))
	}
	known := a.state(s)
	if why := refused(helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available), known); why != "" {
		unavailable(why)
		return
	}
	through, err := a.connect(s)
	if err != nil {
		unavailable(err.Error())
		return
	}
	c := logicalcluster.From(s)
	if !a.begin(c) {
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests of this logical cluster are with aggregated API servers")
		return
	}
	defer a.end(c)

	location := &url.URL{Scheme: "https", Host: pick(known.hosts), Path: req.URL.Path, RawQuery: req.URL.Query().Encode()}
	out, cancel := proxyutil.NewRequestForProxy(location, req)
	defer cancel()
	out.Host = egress.HostHeader(location.Host)
	withoutCredentials(out.Header)
	upgrade := httpstream.IsUpgradeRequest(req)
	if upgrade { // these are written to a connection of their own
		transport.SetAuthProxyHeaders(out, who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra())
	}
	through = transport.NewAuthProxyRoundTripper(who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra(), through)
	handler := proxy.NewUpgradeAwareHandler(location, through, true, upgrade, responder(unavailable))
	handler.RejectForwardingRedirects = true
	utilflowcontrol.RequestDelegated(req.Context())
	defer fairness.Suspend(req.Context())()
	handler.ServeHTTP(w, out)
}

// responder answers for a server that does not.
type responder func(why string)

// Error implements proxy.ErrorResponder.
func (r responder) Error(_ http.ResponseWriter, _ *http.Request, err error) { r(steady(err).Error()) }

// fail answers in place of an aggregated server. Upstream counts this by group and
// resource; those are names of tenants' choice, of which there is no end.
func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	responsewriters.WriteRawJSON(code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: message,
	}, w)
}

func (a *Aggregation) begin(c logicalcluster.Name) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.delegated[c] >= maxDelegated {
		return false
	}
	a.delegated[c]++
	return true
}

func (a *Aggregation) end(c logicalcluster.Name) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.delegated[c]--; a.delegated[c] == 0 {
		delete(a.delegated, c)
	}
}

var errTooLarge = errors.New("the answer is too large")
