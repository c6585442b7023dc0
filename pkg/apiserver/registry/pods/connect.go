package pods

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/reach"
)

// kind is one of the subresources that upgrade.
type kind struct {
	subresource string
	options     func() runtime.Object
}

var (
	exec        = kind{"exec", func() runtime.Object { return &api.PodExecOptions{} }}
	attach      = kind{"attach", func() runtime.Object { return &api.PodAttachOptions{} }}
	portForward = kind{"portforward", func() runtime.Object { return &api.PodPortForwardOptions{} }}
)

// Connect serves a subresource whose requests become streams.
type Connect struct {
	Config
	kind kind
}

var _ rest.Connecter = &Connect{}

// New implements rest.Storage.
func (c *Connect) New() runtime.Object { return c.kind.options() }

// Destroy implements rest.Storage.
func (*Connect) Destroy() {}

// ConnectMethods implements rest.Connecter: GET is for WebSocket.
func (*Connect) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPost} }

// NewConnectOptions implements rest.Connecter.
func (c *Connect) NewConnectOptions() (runtime.Object, bool, string) {
	return c.kind.options(), false, ""
}

// Connect implements rest.Connecter.
func (c *Connect) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	if err := mayCreate(ctx, c.Authorizer); err != nil {
		return nil, err
	}
	call, target, place, err := c.call(ctx, name, c.kind.subresource, options)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !httpstream.IsUpgradeRequest(req) {
			responder.Error(apierrors.NewBadRequest("Upgrade request required"))
			return
		}
		ctx, end, err := c.Streams.begin(req.Context(), call.Pod.LogicalCluster, place.Target)
		if err != nil {
			responder.Error(err)
			return
		}
		defer end()
		defer fairness.Suspend(ctx)()
		call.Method, call.Upgrade = req.Method, reach.UpgradeHeaders(req.Header)
		resp, err := target.Do(ctx, call)
		if err == nil {
			err = reach.Relay(ctx, w, call, resp)
		}
		if err != nil {
			responder.Error(err)
		}
	}), nil
}
