package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

type object = kube.Object

// request is a parsed request.
type request struct {
	method string
	scope  scope.Scope
	path   string
	query  url.Values
	body   []byte
	// content is the content type of the body.
	content string
	// metadata: the client wants metadata only.
	metadata bool
	// agent is what its client calls itself, see newClients.
	agent string

	res               *resource
	namespace         string
	name, subresource string
}

// reads says that nothing changes.
func (r *request) reads() bool { return r.method == http.MethodGet }

func (r *request) watches() bool { return r.query.Get("watch") != "" }

// String is for transcripts and for the order of requests.
func (r *request) String() string {
	q := ""
	for _, name := range []string{"watch", "resourceVersion", "labelSelector", "fieldSelector", "force"} {
		if v := r.query.Get(name); v != "" {
			q += " " + name + "=" + v
		}
	}
	if r.metadata {
		q += " metadata"
	}
	return r.method + " " + r.scope.Target + " " + r.scope.Cluster.String() + " " + r.path + q
}

func (r *request) key() kube.Key {
	k := kube.Key{Resource: r.res.GroupResource(), Namespace: r.namespace, Name: r.name}
	if r.scope.Cluster != "" {
		k.Cluster = r.scope.Cluster
	}
	return k
}

func parse(h *http.Request, body []byte) (*request, error) {
	s, rest, _, err := scope.Cut(h.URL.Path)
	if err != nil {
		return nil, err
	}
	r := &request{
		method: h.Method, scope: s, path: rest, query: h.URL.Query(), body: body,
		content: h.Header.Get("Content-Type"), agent: h.Header.Get("User-Agent"), metadata: strings.Contains(h.Header.Get("Accept"), "as=PartialObjectMetadata"),
	}
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return r, nil // about the server itself
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "finalize" && parts[2] != "status" {
		r.namespace, parts = parts[1], parts[2:]
	}
	if r.res = resources[gv.WithResource(parts[0])]; r.res == nil {
		return nil, fmt.Errorf("nobody serves %s %s", gv, parts[0])
	}
	if len(parts) > 1 {
		r.name = parts[1]
	}
	if len(parts) > 2 {
		r.subresource = parts[2]
	}
	return r, nil
}

// front is what answers requests: a server of the control plane, with its own watch
// cache, or a physical cluster.
type front struct {
	world *World
	name  string
	store *kube.Server
	// server is nil for a physical cluster.
	server *server
	// physical is nil for the control plane.
	physical *physical
	// began is the revision that the server had when this process started: its watch
	// cache was filled after that.
	began int64
	// heard is up to where somebody knows the changes of a resource.
	heard map[schema.GroupResource]int
}

func newFront(w *World, name string, store *kube.Server) *front {
	return &front{world: w, name: name, store: store, began: store.Revision(), heard: map[schema.GroupResource]int{}}
}

// execute answers a read, or any request to a physical cluster.
func (f *front) execute(c *call) answer {
	r := c.req
	if r.res == nil {
		return f.about(r)
	}
	if f.physical != nil && !f.world.servedBelow(r.res) && !r.listsClaims() {
		return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name))
	}
	if a, ok := f.unserved(r); ok {
		return a
	}
	if a, ok := f.refuses(c); ok {
		f.world.ledger.refusedAgain(c)
		return a
	}
	switch {
	case r.method == http.MethodGet && r.name != "":
		return f.get(c)
	case r.method == http.MethodGet && r.watches():
		return f.watch(c)
	case r.method == http.MethodGet:
		return f.list(c)
	}
	f.world.ledger.asks(f, c)
	a := f.write(c)
	f.world.ledger.refuses(c, a)
	return a
}

// object answers with an object.
func (f *front) object(r *request, obj object) answer {
	return ok(f.world.encode(obj, r.res, r.metadata), describe(obj))
}

// ok answers with a document.
func ok(body []byte, summary string) answer { return respond(http.StatusOK, body, summary) }

func respond(code int, body []byte, summary string) answer {
	return answer{response: &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Summary": {summary}},
		Body:   io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)),
	}}
}

// failure answers with an error.
func failure(err error) answer {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.Kind, s.APIVersion = "Status", "v1"
	body, _ := json.Marshal(s) // a Status can be
	code := int(s.Code)
	if code == 0 {
		code = http.StatusInternalServerError
	}
	return respond(code, body, s.Message)
}
