package aggregation

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
)

// maxHeader bounds the header of an answer.
const maxHeader = 1 << 20

// connect returns the connections for an APIService, made anew when what it says
// about its server, or our certificate, has changed.
func (a *Aggregation) connect(s *apiregistrationv1.APIService) (http.RoundTripper, error) {
	proxy, err := a.proxies.of(logicalcluster.From(s))
	if err != nil {
		return nil, err
	}
	key, err := connectionKey(s, proxy)
	if err != nil {
		return nil, err
	}
	if known := a.state(s); known != nil && known.connection != nil && known.connection.key == key {
		return guarded{known.connection.transport}, nil
	}
	config, err := transport.TLSConfigFor(remote.BuildTransportConfig(nil, proxy.cert, proxy.key, s))
	if err != nil {
		return nil, fmt.Errorf("reading what the APIService says about TLS: %w", err)
	}
	t := a.Egress.Caller(a.services(logicalcluster.From(s))).Transport()
	t.TLSClientConfig, t.MaxResponseHeaderBytes = config, maxHeader
	made := &connection{key: key, transport: utilnet.SetTransportDefaults(t)}
	a.learn(s, func(known *state) {
		known.disconnect()
		known.connection = made
	})
	return guarded{made.transport}, nil
}

func (a *Aggregation) services(c logicalcluster.Name) egress.Services {
	return egress.Services{Kube: a.Kube, Cluster: c}
}

func connectionKey(s *apiregistrationv1.APIService, proxy *frontProxy) (string, error) {
	data, err := json.Marshal([]any{s.Spec.Service.Namespace, s.Spec.Service.Name, s.Spec.InsecureSkipTLSVerify, s.Spec.CABundle, proxy.cert})
	if err != nil {
		return "", fmt.Errorf("encoding an APIService: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// guarded keeps from each side what the other must not have of it: the server the
// user's credentials, the user what a browser would act on under our name.
type guarded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(req)
	if err != nil {
		return nil, steady(err)
	}
	for _, name := range []string{"Set-Cookie", "Strict-Transport-Security", "Alt-Svc", "Clear-Site-Data", "Service-Worker-Allowed"} {
		resp.Header.Del(name)
	}
	resp.Header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	resp.Header.Set("X-Content-Type-Options", "nosniff")
	return resp, nil
}

// WrappedRoundTripper lets upgrades find how to connect.
func (g guarded) WrappedRoundTripper() http.RoundTripper { return g.next }

// websocketToken is how browsers send a bearer token.
const websocketToken = "base64url.bearer.authorization.k8s.io."

// withoutCredentials removes what the user proved who he is with, and whatever the
// aggregated server may read as who he is: to some (CGI, WSGI) X_Remote_User is the
// same header as X-Remote-User.
func withoutCredentials(h http.Header) {
	for name := range h {
		if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "x-remote-") {
			delete(h, name)
		}
	}
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie"} {
		h.Del(name)
	}
	const name = "Sec-Websocket-Protocol"
	values := h.Values(name)
	h.Del(name)
	for _, value := range values {
		var kept []string
		for protocol := range strings.SplitSeq(value, ",") {
			if protocol = strings.TrimSpace(protocol); !strings.HasPrefix(protocol, websocketToken) {
				kept = append(kept, protocol)
			}
		}
		if len(kept) > 0 {
			h.Add(name, strings.Join(kept, ", "))
		}
	}
}

// pick takes one of hosts.
func pick(hosts []string) string { return hosts[rand.N(len(hosts))] }
