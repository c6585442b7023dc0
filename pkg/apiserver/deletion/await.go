package deletion

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// waitTimeout bounds how long an answer waits.
const waitTimeout = 2 * time.Second

// Waiter holds answers back, once it follows informers.
type Waiter struct {
	client  metadata.Interface
	kinds   workload.Source
	waiters *waiters
}

// New makes a Waiter from the configuration of the loopback client, which acts
// in the logical cluster of the context. Answers wait for objects of kinds that have
// copies.
func New(loopback *restclient.Config, kinds workload.Source) (*Waiter, error) {
	client, err := metadata.NewForConfig(loopback)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Waiter{client: client, kinds: kinds, waiters: newWaiters()}, nil
}

// Follow has informers say what is gone. Before it, no answer waits.
func (w *Waiter) Follow(objects *controller.Metadata) { w.waiters.follow(w.kinds, objects) }

// With serves with next. It belongs behind authorization: it looks at what the
// requester may delete.
func (w *Waiter) With(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		d, ok := deletionOf(req, w.kinds.Current())
		if !ok {
			next.ServeHTTP(rw, req)
			return
		}
		req = req.WithContext(storage.WithRemoved(req.Context()))
		answer := &answer{ResponseWriter: rw, before: func() {
			if d.name == "" || !storage.Removed(req.Context()) {
				w.await(req.Context(), d)
			}
		}}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), req)
	})
}

// deletion is what a request deletes.
type deletion struct {
	resource        schema.GroupVersionResource
	namespace, name string
	// selection is which objects of a collection.
	selection metav1.ListOptions
}

// deletionOf is what a user deletes of the objects that may have copies.
func deletionOf(req *http.Request, kinds workload.Catalog) (deletion, bool) {
	ctx := req.Context()
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || !info.IsResourceRequest || !deletes(info) && !evicts(info) {
		return deletion{}, false
	}
	kind, ok := kinds.ByResource(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource})
	if !ok || kind.Role == workload.Container {
		return deletion{}, false
	}
	u, ok := request.UserFrom(ctx)
	if !ok || auth.IsSystem(u) {
		return deletion{}, false
	}
	if _, ok := auth.SyncerOf(u); ok {
		return deletion{}, false
	}
	d := deletion{resource: kind.GroupVersionResource(), namespace: info.Namespace, name: info.Name}
	if kind.Declared { // which versions there are, the logical cluster says
		d.resource.Version = info.APIVersion
	}
	if info.Verb == "deletecollection" {
		query := req.URL.Query()
		d.name, d.selection = "", metav1.ListOptions{LabelSelector: query.Get("labelSelector"), FieldSelector: query.Get("fieldSelector")}
	}
	return d, true
}

func deletes(info *request.RequestInfo) bool {
	return info.Subresource == "" && (info.Verb == "delete" || info.Verb == "deletecollection")
}

// evicts says that a pod, which is the only thing that can be evicted, is deleted unless its disruption budget forbids it.
func evicts(info *request.RequestInfo) bool {
	return info.Verb == "create" && info.APIGroup == "" && info.Resource == "pods" && info.Subresource == "eviction"
}

// await returns when nothing of d is held by us alone, or when waitTimeout ends:
// the answer is right in either case. It asks once, and is notified of the rest.
func (w *Waiter) await(ctx context.Context, d deletion) {
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok {
		return
	}
	at := place{cluster, d.resource.GroupResource(), d.namespace}
	mine := w.waiters.add(at)
	if mine == nil {
		return
	}
	defer w.waiters.remove(at, mine)
	defer fairness.Suspend(ctx)()
	ctx, cancel := context.WithTimeout(scope.With(ctx, scope.Scope{Cluster: cluster}), waitTimeout)
	defer cancel()
	objects, err := w.read(ctx, d)
	if err != nil {
		return
	}
	mine.await(objects)
	select {
	case <-mine.done:
	case <-ctx.Done():
	}
}

// read returns the objects of d as they are.
func (w *Waiter) read(ctx context.Context, d deletion) ([]metav1.PartialObjectMetadata, error) {
	client := w.client.Resource(d.resource).Namespace(d.namespace)
	if d.name != "" {
		obj, err := client.Get(ctx, d.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return []metav1.PartialObjectMetadata{*obj}, nil
	}
	list, err := client.List(ctx, d.selection)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// held says that a deleted object is there for our finalizer only.
func held(obj *metav1.PartialObjectMetadata) bool {
	graceful := obj.DeletionGracePeriodSeconds != nil && *obj.DeletionGracePeriodSeconds > 0
	return obj.DeletionTimestamp != nil && !graceful && len(obj.Finalizers) == 1 && obj.Finalizers[0] == placementv1alpha1.CopiesFinalizer
}

// answer calls before once, ahead of a success.
type answer struct {
	http.ResponseWriter
	before func()
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if code < http.StatusMultipleChoices && a.before != nil {
		a.before()
	}
	a.before = nil
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(data []byte) (int, error) {
	if a.before != nil {
		a.before()
		a.before = nil
	}
	return a.ResponseWriter.Write(data)
}
