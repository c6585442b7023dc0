package simulation

import (
	"fmt"
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
