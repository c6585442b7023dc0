package egress

import (
	"net/http"
	"net/url"
	"time"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/answers"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Webhooks makes the clients of stock webhook machinery of a logical cluster call through the guard and
// without credentials. Upstream's resolver would give those of the server, or of
// the pod that it runs in, to a webhook that calls itself kubernetes.default.svc.
func (g *Guard) Webhooks(s Services) webhookutil.AuthenticationInfoResolverWrapper {
	return func(webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
		return anonymous{guard: g, services: s}
	}
}

type anonymous struct {
	guard    *Guard
	services Services
	// around is called with all that calls a webhook; nil leaves it as it is.
	around func(http.RoundTripper) http.RoundTripper
}

var _ webhookutil.AuthenticationInfoResolver = anonymous{}

// ClientConfigFor implements webhookutil.AuthenticationInfoResolver.
func (a anonymous) ClientConfigFor(string) (*rest.Config, error) { return a.config(), nil }

func (a anonymous) config() *rest.Config {
	config := a.guard.Config()
	if wrap := config.WrapTransport; a.around != nil {
		config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return a.around(wrap(next)) }
	}
	return config
}

// ClientConfigForService implements webhookutil.AuthenticationInfoResolver: only who names
// a Service gets into its pods. Each client has a transport of its own.
func (a anonymous) ClientConfigForService(string, string, int) (*rest.Config, error) {
	config, caller := a.config(), a.guard.Caller(a.services)
	config.Dial = caller.DialContext
	wrap := config.WrapTransport
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		if t, ok := next.(*http.Transport); ok {
			caller.own(t)
		}
		return wrap(next)
	}
	return config, nil
}

// webhookAnswers bounds what webhooks answer by what they were asked about: an object of
// any size may come back changed, in a patch or, converted, with others. The request of a
// user has given up its slot while a webhook answers, so their number bounds nothing: all
// that a logical cluster's webhooks answer at a time is bounded, too.
var webhookAnswers = answers.Bounds{
	Most: 3 << 20, PerSent: 4, Together: 64 << 20, Free: 64 << 10,
	Owner: func(req *http.Request) string {
		if c, ok := scope.ClusterFrom(req.Context()); ok {
			return c.String()
		}
		return "at " + req.URL.Host // upstream converts without the context of the request
	},
}

// Config is a configuration without credentials whose clients call through the
// guard, follow no redirects and read no answer without end; user agent and timeout are those that upstream calls webhooks with.
func (g *Guard) Config() *rest.Config {
	return &rest.Config{
		Dial: g.DialContext, Proxy: noProxy,
		UserAgent: "kube-apiserver-admission", Timeout: 30 * time.Second,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return suspended{g.answers.With(next)} },
	}
}

// suspended makes the request of a user give up its slot while a webhook is asked.
type suspended struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s suspended) RoundTrip(req *http.Request) (*http.Response, error) {
	back, err := fairness.Call(req.Context())
	if err != nil {
		return nil, err
	}
	defer back()
	return s.next.RoundTrip(req)
}

// noProxy is said in so many words: by default the environment names a proxy.
func noProxy(*http.Request) (*url.URL, error) { return nil, nil }
