package pods

import (
	"context"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Log serves pods/log.
type Log struct{ Config }

var (
	_ rest.GetterWithOptions = &Log{}
	_ rest.StorageMetadata   = &Log{}
)

// New implements rest.Storage; upstream's says Pod, and discovery shows it.
func (*Log) New() runtime.Object { return &api.Pod{} }

// Destroy implements rest.Storage.
func (*Log) Destroy() {}

// ProducesMIMETypes implements rest.StorageMetadata.
func (*Log) ProducesMIMETypes(string) []string { return []string{"text/plain"} }

// ProducesObject implements rest.StorageMetadata.
func (*Log) ProducesObject(string) any { return "" }

// NewGetOptions implements rest.GetterWithOptions.
func (*Log) NewGetOptions() (runtime.Object, bool, string) { return &api.PodLogOptions{}, false, "" }

// OverrideMetricsVerb keeps logs that are followed out of the latencies of get.
func (*Log) OverrideMetricsVerb(verb string) string {
	if verb == http.MethodGet {
		return "CONNECT"
	}
	return verb
}

// Get implements rest.GetterWithOptions: the object that it returns is a stream.
func (l *Log) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o, ok := options.(*api.PodLogOptions)
	if !ok {
		return nil, apierrors.NewInternalError(errNoOptions)
	}
	o = o.DeepCopy()
	if o.Stream == nil {
		o.Stream = ptr.To(api.LogStreamAll)
	}
	if errs := validation.ValidatePodLogOptions(o, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(api.Kind("PodLogOptions"), name, errs)
	}
	if *o.Stream == api.LogStreamAll {
		o.Stream = nil // the default; physical clusters may not know the option
	}
	call, target, place, err := l.call(ctx, name, "log", o)
	if err != nil {
		return nil, err
	}
	call.Method = http.MethodGet
	return &stream{streams: l.Streams, target: target, place: place, call: call, follow: o.Follow}, nil
}

// stream is the log of a container.
type stream struct {
	streams *Streams
	target  Target
	place   Place
	call    reach.Call
	follow  bool
}

var _ rest.ResourceStreamer = &stream{}

// GetObjectKind implements runtime.Object.
func (*stream) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object; nobody copies a stream.
func (*stream) DeepCopyObject() runtime.Object { panic("a stream cannot be copied") }

// InputStream implements rest.ResourceStreamer.
func (s *stream) InputStream(ctx context.Context, _, _ string) (io.ReadCloser, bool, string, error) {
	body, err := s.streams.Ask(ctx, s.target, s.place.Target, s.call)
	return body, s.follow, "text/plain", err
}

// Ask sends a call to target, which has this name, on the account of the logical cluster of
// ctx, and returns what it answers. The error is fit for a user.
func (s *Streams) Ask(ctx context.Context, target Target, name string, call reach.Call) (io.ReadCloser, error) {
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok {
		return nil, apierrors.NewInternalError(scope.ErrNoCluster)
	}
	ctx, end, err := s.begin(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	back := fairness.Suspend(ctx)
	finish := sync.OnceFunc(func() { back(); end() })
	resp, err := target.Do(ctx, call)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = call.Failure(resp)
	}
	if err != nil {
		finish()
		return nil, err
	}
	return finishing{resp.Body, finish}, nil
}

type finishing struct {
	io.ReadCloser
	finish func()
}

// Close implements io.Closer.
func (f finishing) Close() error {
	defer f.finish()
	return f.ReadCloser.Close()
}
