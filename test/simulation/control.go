package simulation

import (
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// control is the process of the server: what it holds in memory, its controllers
// and the requests that it works on. What is stored survives it.
type control struct {
	world     *World
	informers map[schema.GroupResource]*kube.Informer
	order     []schema.GroupResource
	// leaving holds until when a namespace counts as deleted lately.
	leaving map[kube.Key]time.Time
	// written are the objects as their status was written last.
	written map[kube.Key]kube.Object

	placement  *queue[kube.Key] // Namespaces
	references *queue[kube.Key] // ConfigMaps
	copies     *queue[kube.Key] // objects
	status     *queue[kube.Key] // objects
	namespaces *queue[kube.Key]
	garbage    *queue[kube.Key]
	fleet      *queue[kube.Key] // PhysicalClusters
	requests   *queue[request]

	actors []actor
}

// request of a user; the number tells equal ones apart.
type request struct {
	n  int
	do *func(pause func()) error
}

// settle is how long a Namespace that is being deleted is left alone: requests
// that were admitted before have been stored then.
const settle = 500 * time.Millisecond

// byObject finds the Copies of an object.
const byObject = "object"

func (w *World) startServer() {
	c := &control{world: w, informers: map[schema.GroupResource]*kube.Informer{}, leaving: map[kube.Key]time.Time{}, written: map[kube.Key]kube.Object{}}
	c.placement = newQueue(w, "placement", 1, c.place)
	c.references = newQueue(w, "references", 1, c.refer)
	c.copies = newQueue(w, "copies", 2, c.release)
	c.status = newQueue(w, "status", 2, c.summarize)
	c.namespaces = newQueue(w, "namespaces", 1, c.empty)
	c.garbage = newQueue(w, "garbage", 1, func(k kube.Key, pause func()) (time.Duration, error) {
		pause()
		w.api.Collect(k)
		return 0, nil
	})
	c.fleet = newQueue(w, "fleet", 1, c.forget)
	c.requests = newQueue(w, "request", 4, func(r request, pause func()) (time.Duration, error) {
		if err := (*r.do)(pause); err != nil {
			w.say("answer: %v", err)
		}
		return 0, nil
	})
	c.order = append(slices.Clone(copied), copies, placements, physicalClusters)
	for _, gr := range c.order {
		indexers := map[string]func(kube.Object) []string{}
		if gr == copies {
			indexers[byObject] = func(o kube.Object) []string { return []string{objectOf(o.(*placementv1alpha1.Copy)).String()} }
		}
		i := kube.NewInformer(w.api, gr, nil, indexers)
		c.informers[gr] = i
		i.List(nil)
	}
	for _, gr := range c.order {
		c.informers[gr].Handle(func(old, new kube.Object) { c.changed(gr, old, new) })
	}
	c.actors = []actor{c.follower()}
	for _, q := range []*queue[kube.Key]{c.placement, c.references, c.copies, c.status, c.namespaces, c.garbage, c.fleet} {
		c.actors = append(c.actors, actor{weight: 2, ready: q.ready, step: q.step})
	}
	c.actors = append(c.actors, actor{weight: 6, ready: c.requests.ready, step: c.requests.step})
	w.control = c
}

func (w *World) stopServer() {
	if w.control == nil {
		return
	}
	c := w.control
	for _, q := range []*queue[kube.Key]{c.placement, c.references, c.copies, c.status, c.namespaces, c.garbage, c.fleet} {
		q.stop()
	}
	c.requests.stop()
	w.control = nil
}

// follower delivers one change to one of the server's own caches.
func (c *control) follower() actor {
	var pending []*kube.Informer
	return actor{
		weight: 6,
		ready: func() bool {
			pending = pending[:0]
			for _, gr := range c.order {
				if c.world.arrives(c.informers[gr]) {
					pending = append(pending, c.informers[gr])
				}
			}
			return len(pending) > 0
		},
		step: func() { pending[c.world.rng.IntN(len(pending))].Step() },
	}
}

// catchUp delivers everything to the server's own caches.
func (c *control) catchUp() {
	for _, gr := range c.order {
		for c.informers[gr].Pending() {
			c.informers[gr].Step()
		}
	}
}

// objectOf is the key of the object of a Copy.
func objectOf(c *placementv1alpha1.Copy) kube.Key {
	o := c.Spec.Object
	k := kube.Key{
		Resource: schema.GroupResource{Group: o.Group, Resource: o.Resource},
		Cluster:  logicalcluster.From(c), Namespace: c.Namespace, Name: o.Name,
	}
	if k.Resource == namespaces {
		k.Namespace = ""
	}
	return k
}

// namespaceOf is the key of the Namespace that an object is in, or is.
func namespaceOf(k kube.Key) kube.Key {
	name := k.Namespace
	if k.Resource == namespaces {
		name = k.Name
	}
	return kube.Key{Resource: namespaces, Cluster: k.Cluster, Name: name}
}

// changed wakes the controllers that a change concerns.
func (c *control) changed(gr schema.GroupResource, old, new kube.Object) {
	obj := new
	if obj == nil {
		obj = old
	}
	key := c.world.api.KeyOf(gr, obj)
	switch gr {
	case copies:
		object := objectOf(obj.(*placementv1alpha1.Copy))
		c.copies.add(object)
		c.status.add(object)
		c.placement.add(namespaceOf(object))
		return
	case placements:
		c.placement.add(namespaceOf(key))
		return
	case physicalClusters:
		c.fleet.add(key)
		for _, p := range c.informers[placements].All() {
			c.placement.add(namespaceOf(c.world.api.KeyOf(placements, p)))
		}
		if c.givenUp(key.Name) {
			c.waiting(key.Name)
		}
		return
	}
	c.placement.add(namespaceOf(key))
	c.copies.add(key)
	if new != nil && targetsText(old) != targetsText(new) {
		c.status.add(key)
	}
	c.garbage.add(key)
	if new == nil || new.GetDeletionTimestamp() != nil {
		for _, k := range c.world.api.Dependents(obj.GetUID()) {
			c.garbage.add(k)
		}
	}
	for _, r := range obj.GetOwnerReferences() {
		if k, owner := c.world.api.ByUID(r.UID); owner != nil {
			c.garbage.add(k)
		}
	}
	switch {
	case gr == namespaces && new != nil && new.GetDeletionTimestamp() != nil:
		c.namespaces.addAfter(key, settle)
	case new == nil && gr != namespaces:
		c.namespaces.addAfter(namespaceOf(key), settle)
	}
	if gr == configMaps {
		c.references.add(key)
		return
	}
	for _, o := range []kube.Object{old, new} {
		if o == nil {
			continue
		}
		for _, r := range workload.References(kindOf(gr), cast(o).Object) {
			if r.Resource == configMaps {
				c.references.add(kube.Key{Resource: configMaps, Cluster: key.Cluster, Namespace: key.Namespace, Name: r.Name})
			}
		}
	}
}

// waiting wakes what waits for a target that was given up.
func (c *control) waiting(target string) {
	for _, gr := range copied {
		for _, obj := range c.informers[gr].All() {
			if _, ok := targetsOf(obj)[target]; ok && obj.GetDeletionTimestamp() != nil {
				c.copies.add(c.world.api.KeyOf(gr, obj))
			}
		}
	}
}

func targetsText(obj kube.Object) string {
	if obj == nil {
		return ""
	}
	return obj.GetAnnotations()[placementv1alpha1.TargetsAnnotation]
}

func targetsOf(obj metav1.Object) placementv1alpha1.Targets {
	return stamp.TargetsOf(obj.GetAnnotations())
}

// empty deletes the content of a Namespace that is being deleted, but neither
// Copies nor Placements.
func (c *control) empty(key kube.Key, pause func()) (time.Duration, error) {
	pause()
	namespace := cast(c.world.api.Find(key))
	if namespace == nil || namespace.GetDeletionTimestamp() == nil || len(stringsIn(namespace, "spec", "finalizers")) == 0 {
		return 0, nil
	}
	remaining := false
	for _, gr := range content {
		for _, obj := range c.world.api.ListNamespace(gr, key.Cluster, key.Name) {
			remaining = true
			if obj.GetDeletionTimestamp() == nil {
				err := c.world.api.Delete(system, c.world.api.KeyOf(gr, obj), kube.DeleteOptions{
					UID: obj.GetUID(), Propagation: metav1.DeletePropagationBackground,
				})
				if err != nil {
					return 0, err
				}
				pause()
			}
		}
	}
	if remaining {
		return time.Second, nil
	}
	done := changed(namespace)
	unstructured.RemoveNestedField(done.Object, "spec", "finalizers")
	_, err := c.world.api.Update(system, namespaces, done)
	return 0, err
}

// summarize writes the status of an object.
func (c *control) summarize(key kube.Key, pause func()) (time.Duration, error) {
	pause()
	obj := c.cached(key)
	if obj == nil {
		return 0, nil
	}
	var list []*placementv1alpha1.Copy
	for _, o := range c.informers[copies].By(byObject, key.String()) {
		list = append(list, o.(*placementv1alpha1.Copy))
	}
	if node := syncer.NodeOf(kindOf(resourceOf(obj)), obj, list); node != "" {
		bound := obj.DeepCopy()
		_ = unstructured.SetNestedField(bound.Object, node, "spec", "nodeName") // a path of maps
		written, err := c.world.api.Update(system, key.Resource, bound)
		if err != nil {
			return 0, err
		}
		obj = cast(written)
		pause()
	}
	status, differs := c.world.bugs.Summarize(kindOf(key.Resource), obj, list)
	if !differs {
		return 0, nil
	}
	pause()
	u := changed(obj)
	u.Object["status"] = status
	updated, err := c.world.api.UpdateStatus(system, key.Resource, u)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err == nil {
		c.written[key] = updated
		c.world.say("status of %s: %v", key, cast(updated).Object["status"])
	}
	return 0, err
}

// cached asks the watch cache for something not older than what was written last, and
// the store for what it lacks.
func (c *control) cached(key kube.Key) *unstructured.Unstructured {
	cached := c.world.api.Cached(key, c.world.rng.IntN)
	if cached == nil || !c.world.bugs.forgetful && kube.Older(cached, c.written[key]) {
		cached = c.world.api.Find(key)
	}
	return cast(cached)
}
