package viewtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// Physical is as much of the API server of a physical cluster as it takes to carry something, over HTTP:
// what a client makes of an answer is part of what is decided.
type Physical struct {
	*httptest.Server
	mu      sync.Mutex
	kinds   map[schema.GroupVersionResource]metav1.APIResource
	objects map[place]*unstructured.Unstructured
	events  []event
	changed chan struct{}
	faults  map[string]error
	asked   map[string]int
	version int
}

// place names an object by its resource.
type place struct {
	gvr             schema.GroupVersionResource
	namespace, name string
}

// event is what watches of a resource send; without an object it ends them.
type event struct {
	gvr     schema.GroupVersionResource
	version int
	kind    string
	object  *unstructured.Unstructured
}

// ErrPage is what a server answers that does not know a path: a page, and no Status.
var ErrPage = errors.New("404 page not found")

var (
	// Definitions and APIServices are the resources by which others are served.
	Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// NewPhysical makes one that serves Definitions, APIServices and events.
func NewPhysical(t *testing.T) *Physical {
	p := &Physical{
		kinds: map[schema.GroupVersionResource]metav1.APIResource{}, objects: map[place]*unstructured.Unstructured{},
		changed: make(chan struct{}), faults: map[string]error{}, asked: map[string]int{}, version: 100,
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	p.Serve(Definitions, "CustomResourceDefinition", false)
	p.Serve(APIServices, "APIService", false)
	p.Serve(schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", true)
	return p
}

// Clients are those of a syncer.
func (p *Physical) Clients(t *testing.T) connection.Physical {
	t.Helper()
	c := &rest.Config{Host: p.URL, QPS: -1}
	var down connection.Physical
	var errs [3]error
	down.Dynamic, errs[0] = dynamic.NewForConfig(c)
	down.Metadata, errs[1] = metadata.NewForConfig(c)
	down.Kube, errs[2] = kubernetes.NewForConfig(c)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return down
}

// Serve has a kind served.
func (p *Physical) Serve(gvr schema.GroupVersionResource, kind string, namespaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds[gvr] = metav1.APIResource{Name: gvr.Resource, Kind: kind, Namespaced: namespaced, Verbs: metav1.Verbs{"list", "watch"}}
}

// Unserve has it served no more, as if its definition were gone: its watches end.
func (p *Physical) Unserve(gvr schema.GroupVersionResource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.kinds, gvr)
	p.send(event{gvr: gvr})
}

// Put stores an object of a resource.
func (p *Physical) Put(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store(place{gvr, obj.GetNamespace(), obj.GetName()}, obj.DeepCopy())
}

// Remove takes one away.
func (p *Physical) Remove(gvr schema.GroupVersionResource, namespace, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(place{gvr, namespace, name})
}

// Has says whether it is there.
func (p *Physical) Has(gvr schema.GroupVersionResource, namespace, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.objects[place{gvr, namespace, name}] != nil
}

// Fail answers a verb (discover, get, list, compare: a list of metadata, watch, patch, delete) at a path with
// an error, until it heals.
func (p *Physical) Fail(verb, path string, err error) (heal func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[verb+" "+path] = err
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.faults, verb+" "+path)
	}
}

// Asked is how often something was asked for.
func (p *Physical) Asked(verb, path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[verb+" "+path]
}

// Writes are the requests that change something.
func (p *Physical) Writes() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for what := range p.asked {
		if strings.HasPrefix(what, "patch ") || strings.HasPrefix(what, "delete ") {
			all = append(all, what)
		}
	}
	slices.Sort(all)
	return all
}

// ServeHTTP implements http.Handler.
func (p *Physical) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, discovers, ok := parsePath(r.URL.Path)
	verb := strings.ToLower(r.Method)
	switch {
	case discovers:
		verb = "discover"
	case verb == "get" && r.URL.Query().Get("watch") != "":
		verb = "watch"
	case verb == "get" && at.name == "" && partially(r):
		verb = "compare"
	case verb == "get" && at.name == "":
		verb = "list"
	}
	p.mu.Lock()
	p.asked[verb+" "+r.URL.Path]++
	fault := p.faults[verb+" "+r.URL.Path]
	served, has := p.kinds[at.gvr]
	p.mu.Unlock()
	switch {
	case fault != nil:
		refuse(w, fault)
	case !ok || !discovers && (!has || at.name != "" && served.Namespaced != (at.namespace != "")):
		refuse(w, ErrPage)
	case discovers:
		p.discover(w, at.gvr.GroupVersion())
	case verb == "list", verb == "compare":
		p.list(w, r, at, served.Kind)
	case verb == "watch":
		p.watch(w, r, at)
	default:
		obj, err := p.one(r, verb, at)
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, http.StatusOK, partial(r, obj))
	}
}

// parsePath reads /api/v1/... and /apis/GROUP/VERSION/...
func parsePath(path string) (at place, discovers, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		at.gvr.Version, parts = parts[1], parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		at.gvr.Group, at.gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return at, false, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		at.namespace, parts = parts[1], parts[2:]
	}
	switch len(parts) {
	case 0:
		return at, true, true
	case 2:
		at.name = parts[1]
	}
	at.gvr.Resource = parts[0]
	return at, false, len(parts) <= 2
}

func refuse(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(s.Code), s)
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// partially says that only metadata are asked for.
func partially(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// partial is the object, or its metadata, as is asked.
func partial(r *http.Request, obj *unstructured.Unstructured) map[string]any {
	if !partially(r) {
		return obj.Object
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": obj.Object["metadata"]}
}

func (p *Physical) discover(w http.ResponseWriter, gv schema.GroupVersion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: gv.String()}
	for gvr, served := range p.kinds {
		if gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, served)
		}
	}
	if len(list.APIResources) == 0 {
		refuse(w, ErrPage)
		return
	}
	answer(w, http.StatusOK, list)
}

func (p *Physical) list(w http.ResponseWriter, r *http.Request, at place, kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	items := []any{}
	for place, obj := range p.objects {
		if place.gvr == at.gvr && (at.namespace == "" || place.namespace == at.namespace) && selected(r, obj) {
			items = append(items, partial(r, obj))
		}
	}
	list := map[string]any{"apiVersion": at.gvr.GroupVersion().String(), "kind": kind + "List"}
	if partially(r) {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	list["metadata"], list["items"] = map[string]any{"resourceVersion": strconv.Itoa(p.version)}, items
	answer(w, http.StatusOK, list)
}

// selected knows selectors of one label.
func selected(r *http.Request, obj *unstructured.Unstructured) bool {
	key, value, ok := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	return !ok || obj.GetLabels()[key] == value
}

func (p *Physical) watch(w http.ResponseWriter, r *http.Request, at place) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for sent := 0; ; {
		p.mu.Lock()
		events, changed := p.events[sent:], p.changed
		sent = len(p.events)
		p.mu.Unlock()
		for _, e := range events {
			if e.gvr != at.gvr || e.version <= from || e.object != nil && !selected(r, e.object) {
				continue
			}
			if e.object == nil {
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.object.Object})
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// one gets, applies, patches or deletes one object.
func (p *Physical) one(r *http.Request, verb string, at place) (*unstructured.Unstructured, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	there := p.objects[at]
	applies := r.Header.Get("Content-Type") == string(types.ApplyPatchType)
	if there == nil && !applies {
		return nil, apierrors.NewNotFound(at.gvr.GroupResource(), at.name)
	}
	switch verb {
	case "get":
		return there, nil
	case "delete":
		var options metav1.DeleteOptions
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if only := options.Preconditions; only == nil || only.UID == nil || *only.UID != there.GetUID() {
			return nil, apierrors.NewConflict(at.gvr.GroupResource(), at.name, errors.New("it has another UID"))
		}
		p.drop(at)
		return there, nil
	}
	sent := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &sent.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if applies && there != nil && sent.GetUID() == "" {
		return nil, apierrors.NewConflict(at.gvr.GroupResource(), at.name, errors.New("it is there"))
	}
	if applies {
		sent.SetUID(types.UID("below-" + at.name))
		return p.store(at, sent), nil
	}
	return nil, apierrors.NewMethodNotSupported(at.gvr.GroupResource(), verb)
}

// store gives an object a version, and sends it to watches; the lock is held, as in drop and send.
func (p *Physical) store(at place, obj *unstructured.Unstructured) *unstructured.Unstructured {
	kind := "ADDED"
	if p.objects[at] != nil {
		kind = "MODIFIED"
	}
	p.objects[at] = obj
	obj.SetResourceVersion(strconv.Itoa(p.version + 1))
	p.send(event{gvr: at.gvr, kind: kind, object: obj})
	return obj
}

func (p *Physical) drop(at place) {
	obj := p.objects[at]
	if obj == nil {
		panic(fmt.Sprintf("there is no %+v", at))
	}
	delete(p.objects, at)
	gone := obj.DeepCopy()
	gone.SetResourceVersion(strconv.Itoa(p.version + 1))
	p.send(event{gvr: at.gvr, kind: "DELETED", object: gone})
}

func (p *Physical) send(e event) {
	p.version++
	e.version = p.version
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Restore has an object be there that no watch has, as after a backup was restored.
func (p *Physical) Restore(gvr schema.GroupVersionResource, obj *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	obj.SetResourceVersion("7")
	p.objects[place{gvr, obj.GetNamespace(), obj.GetName()}] = obj
}
