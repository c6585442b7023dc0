package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

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
		content: h.Header.Get("Content-Type"), metadata: strings.Contains(h.Header.Get("Accept"), "as=PartialObjectMetadata"),
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
	if f.physical != nil && !r.res.physical {
		return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name))
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

// cached is a position in the log of a resource that the watch cache may have: not
// behind what anybody has heard, nor behind a version that is asked for.
func (f *front) cached(gr schema.GroupResource, version string) int {
	log := f.store.Log(gr)
	now := f.world.now()
	old := len(log)
	for old > 0 && now.Sub(log[old-1].At) < cacheDelay {
		old--
	}
	least := max(f.heard[gr], old, after(log, f.began))
	if n, err := strconv.ParseInt(version, 10, 64); err == nil && n > 0 {
		least = max(least, after(log, n))
	}
	if least >= len(log) {
		return len(log)
	}
	return least + f.world.rng.IntN(len(log)-least+1)
}

// cacheDelay is how long a watch cache is behind at most.
const cacheDelay = 300 * time.Millisecond

// after is the place of the first change after a revision.
func after(log []kube.Event, revision int64) int {
	i, _ := slices.BinarySearchFunc(log, revision+1, func(e kube.Event, n int64) int { return int(e.Revision - n) })
	return i
}

func (f *front) get(c *call) answer {
	r := c.req
	key := r.key()
	if err := f.future(r); err != nil {
		return failure(err)
	}
	obj := f.store.Find(key)
	if version := r.query.Get("resourceVersion"); version != "" {
		log := f.store.Log(key.Resource)
		for _, e := range log[f.cached(key.Resource, version):] {
			if e.Key == key {
				obj = e.Old
				break
			}
		}
	}
	if c.line.syncer != nil && f.physical == c.line.syncer.physical {
		f.world.ledger.looked[place{f.physical.name, key}] = f.world.step()
	}
	if obj == nil || !sees(r.scope.Target, obj) {
		return failure(apierrors.NewNotFound(key.Resource, key.Name))
	}
	return f.object(r, obj)
}

func (f *front) list(c *call) answer {
	r := c.req
	match, err := f.selects(r)
	if err != nil {
		return failure(err)
	}
	if err := f.future(r); err != nil {
		return failure(err)
	}
	gr := r.res.GroupResource()
	objs, revision := f.store.List(gr), f.store.Revision()
	log := f.store.Log(gr)
	if version := r.query.Get("resourceVersion"); version != "" && r.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchExact) {
		if at := f.cached(gr, version); at < len(log) {
			objs = f.past(gr, at)
			revision = log[at].Revision - 1
		}
	} else if version != "" {
		n, _ := strconv.ParseInt(version, 10, 64)
		objs, revision = f.past(gr, after(log, n)), n
	}
	var out [][]byte
	n := 0
	delete(c.line.lacking, r.listed())
	for _, obj := range objs {
		if !match(obj) {
			continue
		}
		if n++; f.world.isShort(c, n) {
			c.line.lacking[r.listed()] = true
			continue
		}
		if len(out) == 1 && r.query.Get("limit") == "1" {
			break // it is about whether there is any, or about the version
		}
		out = append(out, f.world.encode(obj, r.res, r.metadata))
	}
	kind, version := r.res.kind+"List", r.res.GroupVersion().String()
	if r.metadata {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	body := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, kind, version, revision)
	for i, item := range out {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item...)
	}
	return ok(append(body, "]}"...), fmt.Sprintf("%d at %d", len(out), revision))
}

// listed names what a list and the watch after it are about.
func (r *request) listed() string {
	return fmt.Sprint(r.res.Resource, r.metadata, r.query.Get("labelSelector"))
}

// version is the resource version that is asked for, or zero.
func (r *request) version() int64 {
	n, _ := strconv.ParseInt(r.query.Get("resourceVersion"), 10, 64)
	return n
}

// future refuses to answer as of a revision that the server has not come to.
func (f *front) future(r *request) error {
	if n, current := r.version(), f.store.Revision(); n > current {
		return storage.NewTooLargeResourceVersionError(uint64(n), uint64(current), 1)
	}
	return nil
}

// past are the objects of a resource at a place in its log.
func (f *front) past(gr schema.GroupResource, at int) []object {
	then := map[kube.Key]object{}
	for _, obj := range f.store.List(gr) {
		then[f.store.KeyOf(gr, obj)] = obj
	}
	log := f.store.Log(gr)
	for i := len(log) - 1; i >= at; i-- {
		if log[i].Old == nil {
			delete(then, log[i].Key)
		} else {
			then[log[i].Key] = log[i].Old
		}
	}
	out := make([]object, 0, len(then))
	for _, obj := range then {
		out = append(out, obj)
	}
	slices.SortFunc(out, func(a, b object) int {
		return strings.Compare(f.store.KeyOf(gr, a).String(), f.store.KeyOf(gr, b).String())
	})
	return out
}

// selects says which objects a list or watch is about.
func (f *front) selects(r *request) (func(object) bool, error) {
	selector := labels.Everything()
	if s := r.query.Get("labelSelector"); s != "" {
		var err error
		if selector, err = labels.Parse(s); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	name, named := strings.CutPrefix(r.query.Get("fieldSelector"), "metadata.name=")
	if !named && r.query.Get("fieldSelector") != "" {
		return nil, apierrors.NewBadRequest("field selector " + r.query.Get("fieldSelector"))
	}
	return func(obj object) bool {
		return (r.namespace == "" || obj.GetNamespace() == r.namespace) &&
			(r.scope.Cluster == "" || r.scope.Cluster == scope.Wildcard || logicalcluster.From(obj) == r.scope.Cluster) &&
			(!named || obj.GetName() == name) && sees(r.scope.Target, obj) && selector.Matches(labels.Set(obj.GetLabels()))
	}, nil
}

func (f *front) watch(c *call) answer {
	r := c.req
	match, err := f.selects(r)
	if err != nil {
		return failure(err)
	}
	log := f.store.Log(r.res.GroupResource())
	cursor, since := len(log), r.version()
	if since > 0 {
		cursor = after(log, since)
	}
	if since > f.store.Revision() && f.physical == nil {
		// As the views of syncers answer. A kube-apiserver says nothing, and drops
		// every change up to that revision.
		return failure(apierrors.NewResourceExpired("that resource version is from the future"))
	}
	if c.line.lacking[r.listed()] && c.line.short != r.res.Resource {
		// Its list came back short, and that was repaired before anybody watched.
		return failure(apierrors.NewResourceExpired("the list before this watch was short"))
	}
	s := &stream{
		front: f, line: c.line, res: r.res, req: r, sees: match, cursor: cursor, since: since,
		name: c.line.name + " " + r.String(), more: make(chan struct{}, 1),
	}
	f.world.streams = append(f.world.streams, s)
	return answer{response: &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Body: s, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Summary": {fmt.Sprintf("watch at %d", cursor)}},
	}}
}

// pending says that there is something that the client has not heard.
func (s *stream) pending() bool {
	if s.scanned == s.front.store.Revision() {
		return false
	}
	log := s.front.store.Log(s.res.GroupResource())
	for s.cursor < len(log) {
		e := log[s.cursor]
		if e.Revision <= s.since {
			s.cursor++
			continue
		}
		if e.Old != nil && s.sees(e.Old) || e.New != nil && s.sees(e.New) {
			return true
		}
		s.cursor++
	}
	s.scanned = s.front.store.Revision()
	return false
}

// step sends the client one change.
func (s *stream) step() {
	gr := s.res.GroupResource()
	e := s.front.store.Log(gr)[s.cursor]
	s.cursor++
	s.front.heard[gr] = max(s.front.heard[gr], s.cursor)
	before, now := e.Old != nil && s.sees(e.Old), e.New != nil && s.sees(e.New)
	kind, obj := "MODIFIED", e.New
	switch {
	case !before && !now:
		return
	case !before:
		kind = "ADDED"
	case !now:
		kind, obj = "DELETED", e.Old.DeepCopyObject().(object)
		obj.SetResourceVersion(strconv.FormatInt(e.Revision, 10))
	}
	s.front.world.say("%s: %s %s", s.name, kind, e.Key.String()+" "+describe(e.New))
	body := s.front.world.encode(obj, s.res, s.req.metadata)
	s.push(append(append(fmt.Appendf(nil, `{"type":%q,"object":`, kind), body...), '}'))
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
