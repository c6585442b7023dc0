package pods

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
)

// maxHeader bounds the header of what a pod answers.
const maxHeader = 1 << 20

// Proxy serves pods/proxy and services/proxy: requests of HTTP, over a connection for each
// into a pod.
type Proxy struct {
	Config
	options func() runtime.Object
	// find finds the pods behind a name and a port, which may be empty.
	find func(ctx context.Context, name, port string) ([]egress.Backend, error)
}

var _ rest.Connecter = &Proxy{}

// New implements rest.Storage.
func (p *Proxy) New() runtime.Object { return p.options() }

// Destroy implements rest.Storage.
func (*Proxy) Destroy() {}

// ConnectMethods implements rest.Connecter: those of upstream.
func (*Proxy) ConnectMethods() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
}

// NewConnectOptions implements rest.Connecter.
func (p *Proxy) NewConnectOptions() (runtime.Object, bool, string) { return p.options(), true, "path" }

// Connect implements rest.Connecter. The id is NAME, NAME:PORT or SCHEME:NAME:PORT.
func (p *Proxy) Connect(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	scheme, name, port, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%q is none of NAME, NAME:PORT and SCHEME:NAME:PORT", id))
	}
	backends, err := p.find(ctx, name, port)
	if err != nil {
		return nil, err
	}
	path, err := pathOf(options)
	if err != nil {
		return nil, err
	}
	if scheme == "" {
		scheme = "http"
	}
	location := &url.URL{Scheme: scheme, Host: net.JoinHostPort(name, strconv.Itoa(int(backends[0].Port))), Path: utilnet.JoinPreservingTrailingSlash("", path)}
	through := &http.Transport{
		DisableKeepAlives: true, // the next request may be somebody else's
		DialContext: func(dial context.Context, _, _ string) (net.Conn, error) {
			return egress.DialAny(request.WithNamespace(dial, request.NamespaceValue(ctx)), p.dialForUser, backends)
		},
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as upstream: nobody says who a pod is
		TLSHandshakeTimeout: userTimeout, MaxResponseHeaderBytes: maxHeader,
	}
	handler := proxy.NewUpgradeAwareHandler(location, through, true, false, failing{responder})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer fairness.Suspend(req.Context())()
		handler.ServeHTTP(w, req)
	}), nil
}

func pathOf(options runtime.Object) (string, error) {
	switch o := options.(type) {
	case *api.PodProxyOptions:
		return o.Path, nil
	case *api.ServiceProxyOptions:
		return o.Path, nil
	}
	return "", apierrors.NewInternalError(errNoOptions)
}

// failing answers with the reason why nobody could be asked, or else as upstream.
type failing struct{ responder rest.Responder }

// Error implements proxy.ErrorResponder.
func (f failing) Error(_ http.ResponseWriter, _ *http.Request, err error) {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		f.responder.Error(status)
		return
	}
	f.responder.Error(apierrors.NewServiceUnavailable("error trying to reach it: " + err.Error()))
}

// podsBehind is the pod itself; without a port its first one.
func (c Config) podsBehind(ctx context.Context, name, port string) ([]egress.Backend, error) {
	obj, err := c.Pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod, ok := obj.(*api.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no pod", obj))
	}
	if port == "" {
		port = "80"
		for i := range pod.Spec.Containers {
			if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
				port = strconv.Itoa(int(ports[0].ContainerPort))
				break
			}
		}
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%q is no port of a pod: give its number", port))
	}
	return []egress.Backend{{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Port: int32(number)}}, nil
}

// servicesBehind are the pods of a Service with a selector: endpoints that somebody wrote
// are not asked for users.
func (c Config) servicesBehind(ctx context.Context, name, port string) ([]egress.Backend, error) {
	backends, err := c.Backends(ctx, request.NamespaceValue(ctx), name, port)
	var unlocated *egress.UnlocatedError
	if errors.As(err, &unlocated) {
		return nil, apierrors.NewServiceUnavailable(unlocated.Message)
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return nil, status // a wrapped one is answered as an error of the server
	}
	return backends, err
}
