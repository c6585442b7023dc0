package crds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
)

const (
	// maxHandlers is what the handlers may weigh that are kept ready. One that is dropped is
	// made again when it is asked for; that takes some milliseconds, or a tenth of a second
	// for the largest. Watches go on with the one that they began with.
	maxHandlers = 192 << 20
	// weightAlways is what a handler weighs at least, and weightEach for each byte of its
	// versions: their schema in three forms, and compiled rules (measured with 170 definitions of real projects).
	weightAlways, weightEach = 128 << 10, 14
)

// ServingConfig is what the stock handlers are made with.
type ServingConfig struct {
	// Delegate answers what no definition serves.
	Delegate http.Handler
	// RESTOptions is that of custom resources.
	RESTOptions generic.RESTOptionsGetter
	Admission   admission.Interface
	Authorizer  authorizer.UnconditionalAuthorizer
	// Services resolves the service references of conversion webhooks.
	Services func(logicalcluster.Name) webhook.ServiceResolver
	// Authentication says how to authenticate to conversion webhooks.
	Authentication    func(logicalcluster.Name) webhook.AuthenticationInfoResolverWrapper
	RequestTimeout    time.Duration
	MinRequestTimeout time.Duration
	MaxRequestBytes   int64
	// OpenAPI holds the definitions of built-in types, from which those of
	// TypeMeta and ObjectMeta are taken.
	OpenAPI map[string]*spec.Schema
}

// stockHandler is upstream's handler, whose type is not exported.
type stockHandler interface {
	http.Handler
	GetCustomResourceListerCollectionDeleter(*apiextensionsv1.CustomResourceDefinition) (finalizer.ListerCollectionDeleter, error)
}

// handlers has one stock handler for each shape.
type handlers struct {
	config ServingConfig
	ready  *weighed.Cache[Shape, *entry]
}

// entry is a handler and the definition that it knows.
type entry struct {
	canonical *apiextensionsv1.CustomResourceDefinition
	handler   stockHandler
	weight    int64
}

func newHandlers(config ServingConfig) *handlers {
	return &handlers{config: config, ready: weighed.New[Shape](maxHandlers, func(e *entry) int64 { return e.weight })}
}

// errCold says that there is no handler, nor somebody who makes it.
var errCold = errors.New("there is no handler")

// get waits for a processor before it makes a handler, and not while it does: who waits for that is
// of another logical cluster, maybe, and the rules of a schema take up to seconds to be compiled.
func (h *handlers) get(ctx context.Context, d *Definition) (*entry, error) {
	e, err := h.ready.Get(ctx, d.Shape, func() (*entry, error) { return nil, errCold })
	if !errors.Is(err, errCold) {
		return e, err
	}
	done, err := fairness.Compute(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return h.ready.Get(ctx, d.Shape, func() (*entry, error) {
		full, err := d.Full()
		if err != nil {
			return nil, err
		}
		e := &entry{canonical: canonical(d, full.Spec), weight: weightAlways + weightEach*d.size}
		// The webhook of a definition may be a Service of its logical cluster: then no other shares it.
		if e.handler, err = h.make(e.canonical, logicalcluster.From(d), d.versions != nil && d.versions.rules); err != nil {
			return nil, err
		}
		if _, err := e.handler.GetCustomResourceListerCollectionDeleter(e.canonical); err != nil { // compiles all
			return nil, fmt.Errorf("compiling %s: %w", d.Name, err)
		}
		letGoOfSchemas(e.canonical)
		return e, nil
	})
}

func (h *handlers) forget(s Shape) { h.ready.Remove(s) }

func (h *handlers) make(crd *apiextensionsv1.CustomResourceDefinition, cluster logicalcluster.Name, rules bool) (stockHandler, error) {
	c := h.config
	schemas, err := schemasOf(crd)
	if err != nil {
		return nil, err
	}
	c.Admission = beforeRules{c.Admission, rules, schemas}
	only, err := newOnly(crd)
	if err != nil {
		return nil, err
	}
	handler, err := apiextensionsapiserver.NewCustomResourceDefinitionHandler(
		nil, nil, // discovery does not come here
		only, c.Delegate, c.RESTOptions, c.Admission,
		nil, // its informer never has an event
		c.Services(cluster), c.Authentication(cluster), 1, c.Authorizer, c.RequestTimeout, c.MinRequestTimeout, c.OpenAPI, c.MaxRequestBytes)
	if err != nil {
		return nil, fmt.Errorf("serving %s: %w", crd.Name, err)
	}
	return handler, nil
}

// canonical is the definition that the handler of a shape knows. Its UID is that
// of no object, and it was established long ago: the stock handler makes creations
// wait for two seconds after that, for other servers to see it, too.
func canonical(d *Definition, spec apiextensionsv1.CustomResourceDefinitionSpec) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Name, UID: types.UID(fmt.Sprintf("%x", d.Shape[:16])),
			DeletionTimestamp: d.DeletionTimestamp,
		},
		Spec:   spec,
		Status: *d.Status.DeepCopy(),
	}
	if established := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established); established != nil {
		established.LastTransitionTime = metav1.Time{}
	}
	return crd
}

// letGoOfSchemas of the definition of a handler that has compiled them. It keeps the definition to compare it upon
// updates, of which there are none; the schemas are a quarter of what a handler takes.
func letGoOfSchemas(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Versions = slices.Clone(crd.Spec.Versions) // others may have them
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema = nil
	}
}

// only is an informer of one definition that never changes.
type only struct{ indexer cache.Indexer }

func newOnly(crd *apiextensionsv1.CustomResourceDefinition) (only, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := indexer.Add(crd); err != nil {
		return only{}, fmt.Errorf("indexing %s: %w", crd.Name, err)
	}
	return only{indexer}, nil
}

// Informer implements the generated interface.
func (o only) Informer() cache.SharedIndexInformer { return eventless{} }

// Lister implements the generated interface.
func (o only) Lister() crdlisters.CustomResourceDefinitionLister {
	return crdlisters.NewCustomResourceDefinitionLister(o.indexer)
}

// eventless takes handlers and never calls them. Upstream's handler asks its
// informer for nothing else.
type eventless struct{ cache.SharedIndexInformer }

// AddEventHandler implements cache.SharedIndexInformer.
func (eventless) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}
