package scope

import (
	"errors"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// ErrNoCluster is returned for a request whose context names no logical cluster.
var ErrNoCluster = errors.New("the context names no logical cluster")

// RoundTripper puts the scope of a request's context in front of its URL path.
type RoundTripper struct{ delegate http.RoundTripper }

// NewRoundTripper wraps delegate.
func NewRoundTripper(delegate http.RoundTripper) http.RoundTripper {
	return RoundTripper{delegate: delegate}
}

// RoundTrip implements http.RoundTripper.
func (r RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	s, ok := From(req.Context())
	if !ok {
		return nil, ErrNoCluster
	}
	u := *req.URL
	u.Path = s.Path() + u.Path
	if u.RawPath != "" {
		u.RawPath = s.Path() + u.RawPath
	}
	req = req.WithContext(req.Context()) // a copy: the caller keeps its request as it is
	req.URL = &u
	return r.delegate.RoundTrip(req)
}

// WrappedRoundTripper lets client-go find the transport below.
func (r RoundTripper) WrappedRoundTripper() http.RoundTripper { return r.delegate }

// ScopedConfig returns a copy of config whose clients take the scope of each
// request from its context. The host of config must carry no scope of its own.
func ScopedConfig(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Host = strings.TrimSuffix(c.Host, "/")
	c.Wrap(NewRoundTripper)
	return c
}

// PinnedConfig returns a copy of config whose clients always talk to s.
func PinnedConfig(config *rest.Config, s Scope) *rest.Config {
	c := rest.CopyConfig(config)
	c.Host = strings.TrimSuffix(c.Host, "/") + s.Path()
	return c
}

// UnscopedConfig returns a copy of config without the scope that the host of a
// kubeconfig carries, and that scope; ok is false if it carries none. An error says
// what is wrong with the host.
func UnscopedConfig(config *rest.Config) (c *rest.Config, s Scope, ok bool, err error) {
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, s, false, err
	}
	s, path, ok, err := Cut(host.Path)
	if err != nil || !ok {
		return config, s, false, err
	}
	host.Path = path
	c = rest.CopyConfig(config)
	c.Host = host.String()
	return c, s, true, nil
}
