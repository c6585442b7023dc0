package pods

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// Target is a physical cluster that can be reached.
type Target struct {
	reach.Link
	// UID is that of its namespace kube-system, ControlPlane the id that marks what is
	// ours there.
	UID          types.UID
	ControlPlane string
}

// Reach finds the way to a physical cluster; the error is fit for a tenant.
type Reach func(ctx context.Context, physicalCluster string) (Target, error)

// Config is what the subresources need.
type Config struct {
	Pods, Namespaces rest.Getter
	// Copies is asked for once requests come.
	Copies func() rest.Getter
	// Authorizer is asked whether who may get may create, too.
	Authorizer authorizer.Authorizer
	Reach      Reach
	Streams    *Streams
	// Backends are the pods behind a port of a Service of the logical cluster of ctx; the
	// port is its number, its name, or empty for the only one.
	Backends func(ctx context.Context, namespace, name, port string) ([]egress.Backend, error)
}

// Storage are the subresources that lead into pods, by their paths.
func (c Config) Storage() map[string]rest.Storage {
	return map[string]rest.Storage{
		"pods/log": &Log{c}, "pods/exec": &Connect{Config: c, kind: exec},
		"pods/attach": &Connect{Config: c, kind: attach}, "pods/portforward": &Connect{Config: c, kind: portForward},
		"pods/proxy":     &Proxy{Config: c, options: func() runtime.Object { return &api.PodProxyOptions{} }, find: c.podsBehind},
		"services/proxy": &Proxy{Config: c, options: func() runtime.Object { return &api.ServiceProxyOptions{} }, find: c.servicesBehind},
	}
}

// call makes the call for a pod of the logical cluster of ctx, and the target that takes it.
func (c Config) call(ctx context.Context, name, subresource string, options runtime.Object) (call reach.Call, target Target, place Place, err error) {
	pod, err := c.get(ctx, c.Pods, name)
	if err != nil {
		return call, target, place, err
	}
	if call, target, place, err = c.callOf(ctx, pod); err != nil {
		return call, target, place, err
	}
	call.Subresource = subresource
	call.Query, err = encode(options)
	return call, target, place, err
}

// callOf is a call for pod that says nothing yet.
func (c Config) callOf(ctx context.Context, pod metav1.Object) (call reach.Call, target Target, place Place, err error) {
	namespace, err := c.get(request.WithNamespace(ctx, ""), c.Namespaces, pod.GetNamespace())
	if err != nil {
		return call, target, place, err
	}
	if place, err = c.Place(ctx, pod, namespace, &metav1.GetOptions{}); err != nil {
		return call, target, place, err
	}
	if target, err = c.Reach(ctx, place.Target); err != nil {
		return call, target, place, err
	}
	cluster, _ := scope.ClusterFrom(ctx)
	return reach.Call{
		Pod: reach.Pod{
			PhysicalCluster: target.UID, ControlPlane: target.ControlPlane, Namespace: place.Namespace, Name: pod.GetName(), UID: place.UID,
			LogicalCluster: cluster, LogicalNamespace: pod.GetNamespace(),
		},
		AuditID: audit.GetAuditIDTruncated(ctx),
	}, target, place, nil
}

// Place finds where pod runs, which is in namespace, with Copies that are as recent as options
// say. The error is that of Locate, or of reading.
func (c Config) Place(ctx context.Context, pod, namespace metav1.Object, options *metav1.GetOptions) (Place, error) {
	copies := map[string]*placement.Copy{}
	ctx = request.WithNamespace(ctx, pod.GetNamespace())
	for _, t := range Kept(pod) {
		obj, err := c.Copies().Get(ctx, syncer.CopyName(corev1.Resource("pods"), pod.GetName(), t), options)
		if err != nil && !apierrors.IsNotFound(err) {
			return Place{}, err
		}
		if found, ok := obj.(*placement.Copy); ok && err == nil {
			copies[t] = found
		}
	}
	return Locate(pod, namespace, copies)
}

func (c Config) get(ctx context.Context, from rest.Getter, name string) (metav1.Object, error) {
	obj, err := from.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	return m, nil
}

// encode writes options as those of v1.
func encode(options runtime.Object) (url.Values, error) {
	query, err := legacyscheme.ParameterCodec.EncodeParameters(options, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("encoding the options: %w", err)
	}
	return query, nil
}

var errNoOptions = errors.New("the request has no options of its kind")
