package egress

import (
	"net/http"
	"net/url"
	"time"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
)

// Webhooks makes the clients of stock webhook machinery call through the guard and
// without credentials. Upstream's resolver would give those of the server, or of
// the pod that it runs in, to a webhook that calls itself kubernetes.default.svc.
func (g *Guard) Webhooks(webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
	return anonymous{g}
}

type anonymous struct{ guard *Guard }

var _ webhookutil.AuthenticationInfoResolver = anonymous{}

// ClientConfigFor implements webhookutil.AuthenticationInfoResolver.
func (a anonymous) ClientConfigFor(string) (*rest.Config, error) { return a.guard.Config(), nil }

// ClientConfigForService implements webhookutil.AuthenticationInfoResolver.
func (a anonymous) ClientConfigForService(string, string, int) (*rest.Config, error) {
	return a.guard.Config(), nil
}

// Config is a configuration without credentials whose clients call through the
// guard; user agent and timeout are those that upstream calls webhooks with.
func (g *Guard) Config() *rest.Config {
	return &rest.Config{
		Dial: g.DialContext, Proxy: noProxy,
		UserAgent: "kube-apiserver-admission", Timeout: 30 * time.Second,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return suspended{next} },
	}
}

// suspended makes the request of a user give up its slot while a webhook is asked.
type suspended struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s suspended) RoundTrip(req *http.Request) (*http.Response, error) {
	defer fairness.Suspend(req.Context())()
	return s.next.RoundTrip(req)
}

// noProxy is said in so many words: by default the environment names a proxy.
func noProxy(*http.Request) (*url.URL, error) { return nil, nil }
