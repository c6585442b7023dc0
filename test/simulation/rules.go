package simulation

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// What has to hold after every write, of what rules pods.
const (
	// RulesFirst: a quota that was there before anything that it rules is on a target
	// before the first thing that it rules.
	RulesFirst = "what rules comes first"
	// SameRuntime: pods run below with the runtime that their object names, or not at all.
	SameRuntime = "pods keep their runtime"
)

const (
	// sandboxed is the RuntimeClass of the logical clusters, sandbox its handler.
	sandboxed = "sandboxed"
	sandbox   = "sandbox"
)

// runtimeClass is one with the handler of sandboxes.
func runtimeClass(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": sandbox}}
	u.SetName(name)
	return u
}

// makeRuntimeClasses gives each logical cluster a class, and each physical cluster but
// "north" one of another name.
func (w *World) makeRuntimeClasses() {
	for _, cluster := range []logicalcluster.Name{"one", "two"} {
		w.must(w.api.Create(admin, runtimeClasses, in(cluster, runtimeClass(sandboxed))))
	}
	for _, p := range w.clusters[:2] {
		p.class = "class-of-" + p.name
		p.must(p.api.Create(controllers, runtimeClasses, runtimeClass(p.class)))
	}
}

// classOnce is the RuntimeClass that had a handler from the beginning: an emptied cluster
// lost it, which changes nothing of what controllers have observed.
func (p *physical) classOnce(handler string) string {
	if handler != sandbox {
		return ""
	}
	return p.class
}

// sandbox creates an object whose pods need the runtime.
func (w *World) sandbox(h Happening) {
	kind := kindOf(h.Resource)
	if kind.PodTemplate == nil {
		h.Resource = []schema.GroupResource{pods, deployments, jobs}[h.N%3]
		kind = kindOf(h.Resource)
	}
	u := example(h.Resource, h.Namespace, h.Name, h.N)
	path := append(slices.Clone(kind.PodTemplate), "spec", "runtimeClassName")
	_ = unstructured.SetNestedField(u.Object, sandboxed, path...) // a path of maps
	w.create(h.key(), u, nil)
}

// limit makes a quota in a namespace, liftLimit removes it.
func (w *World) limit(h Happening) {
	h.Resource, h.Name = quotas, "limit"
	w.create(h.key(), example(quotas, h.Namespace, h.Name, h.N), nil)
}

func (w *World) liftLimit(h Happening) {
	h.Resource, h.Name = quotas, "limit"
	w.remove(h.key(), h.N)
}

// count is the quota controller: from then on a quota limits something.
func (p *physical) count(key kube.Key, quota *unstructured.Unstructured) error {
	return p.status(key, quota, map[string]any{"hard": part(quota, "spec", "hard"), "used": map[string]any{"pods": "0"}})
}

// born is where an object has its place among all that were made: UIDs are counted.
func born(uid types.UID) int {
	n, _ := strconv.Atoi(string(uid[strings.LastIndex(string(uid), "-")+1:]))
	return n
}

// ruled checks an object that a syncer makes: what rules it is there.
func (l *ledger) ruled(p *physical, key kube.Key, m syncer.Mark) {
	if !workload.Ruled(kindOf(key.Resource)) || l.turnedBack > 0 {
		return
	}
	for _, obj := range l.world.api.ListNamespace(quotas, m.Cluster, m.Namespace) {
		entry, here := targetsOf(obj)[p.name]
		if !here || !entry.Keeps() || obj.GetDeletionTimestamp() != nil || l.ruledBefore(obj) {
			continue
		}
		// Who asked before it came back has read that it leaves.
		if at, ok := l.cameBack[instruction{obj.GetUID(), p.name}]; ok && l.world.now().Sub(at) < deciding {
			continue
		}
		record := kube.Key{Resource: copies, Cluster: m.Cluster, Namespace: m.Namespace, Name: syncer.CopyName(quotas, obj.GetName(), p.name)}
		if c, ok := l.world.api.Find(record).(*placementv1alpha1.Copy); ok && c.Status.State == placementv1alpha1.CopyFailed {
			continue
		}
		made := false
		for _, o := range l.made {
			made = made || o.uid == obj.GetUID() && o.target == p.name
		}
		if !made {
			l.world.fail(RulesFirst, "%s was made on %s before the quota %s of its namespace", key, p.name, obj.GetUID())
		}
	}
}

// ruledBefore says that something that a quota rules was in its namespace before it: it
// need not have waited.
func (l *ledger) ruledBefore(quota kube.Object) bool {
	cluster, namespace := logicalcluster.From(quota), quota.GetNamespace()
	for uid, versions := range l.versions {
		v := versions[0]
		if v.GetNamespace() == namespace && logicalcluster.From(v) == cluster && workload.Ruled(kindOf(resourceOf(v))) && born(uid) < born(quota.GetUID()) {
			return true
		}
	}
	return false
}

// sameRuntime checks the pods of a copy: one of the versions of the object names a class
// with the handler of theirs.
func (l *ledger) sameRuntime(p *physical, key kube.Key, obj *unstructured.Unstructured, uid types.UID) {
	kind := kindOf(key.Resource)
	if kind.PodTemplate == nil || l.turnedBack > 0 {
		return
	}
	path := append(slices.Clone(kind.PodTemplate), "spec", "runtimeClassName")
	class := text(obj, path...)
	if len(l.versions[uid]) > 0 && !slices.ContainsFunc(l.versions[uid], func(v *unstructured.Unstructured) bool {
		handler := syncer.RuntimeHandler(v)
		return class == "" && handler == "" || class != "" && class == p.classOf(handler)
	}) {
		l.world.fail(SameRuntime, "the pods of %s on %s have the runtime class %q", key, p.name, class)
	}
}

// Paced: what a server refuses is asked again ever later.
const Paced = "what is refused is tried ever later"

const (
	// pacedFor is how long refusals are counted, maxRefused how many there are of one
	// object in that time.
	pacedFor   = time.Second
	maxRefused = 20
)

// attempt is a request that was refused.
type attempt struct {
	syncer, method string
	key            kube.Key
}

// refuses counts what a physical cluster refuses a syncer for good: a conflict is
// looked at again at once.
func (l *ledger) refuses(c *call, a answer) {
	if c.line.syncer == nil || a.response == nil || a.response.StatusCode < 400 || a.response.StatusCode == 404 || a.response.StatusCode == 409 {
		return
	}
	l.refusedAgain(c)
}

func (l *ledger) refusedAgain(c *call) {
	at := attempt{c.line.syncer.name, c.req.method, c.req.key()}
	now := l.world.now()
	lately := slices.DeleteFunc(l.refused[at], func(t time.Time) bool { return now.Sub(t) > pacedFor })
	l.refused[at] = append(lately, now)
	if n := len(l.refused[at]); n > maxRefused {
		l.world.fail(Paced, "%s asked %s to %s %s %d times within %s, and was refused each time", at.syncer, c.line.to().name, at.method, at.key, n, pacedFor)
	}
}
