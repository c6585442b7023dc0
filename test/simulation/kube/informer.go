package kube

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Informer is a cache that follows one resource of a server through a watch.
// Nothing moves by itself: Step delivers the next change, Lose breaks the watch,
// List reads everything anew. As with a real watch, changes of one resource
// arrive in order; what happened while there was no watch is not told one by one.
type Informer struct {
	server   *Server
	resource schema.GroupResource
	visible  func(Object) bool
	indexers map[string]func(Object) []string
	handler  func(old, new Object)

	at       int
	watching bool
	cache    map[Key]Object
	keys     []Key
	index    map[string]map[string][]Key
}

// NewInformer makes an informer that has not listed yet. visible, if not nil,
// selects what the client may see.
func NewInformer(s *Server, gr schema.GroupResource, visible func(Object) bool, indexers map[string]func(Object) []string) *Informer {
	if visible == nil {
		visible = func(Object) bool { return true }
	}
	i := &Informer{server: s, resource: gr, visible: visible, indexers: indexers, cache: map[Key]Object{}, index: map[string]map[string][]Key{}}
	for name := range indexers {
		i.index[name] = map[string][]Key{}
	}
	return i
}

// Handle calls f for each change of the cache; old is nil for what is new, new
// for what is gone. What is there already is replayed.
func (i *Informer) Handle(f func(old, new Object)) {
	for _, k := range slices.Clone(i.keys) {
		f(nil, i.cache[k])
	}
	i.handler = f
}

// Resource that is followed.
func (i *Informer) Resource() schema.GroupResource { return i.resource }

// Watching says that the watch is there.
func (i *Informer) Watching() bool { return i.watching }

// Pending says that Step has something to deliver.
func (i *Informer) Pending() bool {
	log := i.server.logs[i.resource]
	for i.watching && i.at < len(log) {
		if e := log[i.at]; i.sees(e.Old) || i.sees(e.New) {
			return true
		}
		i.at++
	}
	return false
}

func (i *Informer) sees(obj Object) bool { return obj != nil && i.visible(obj) }

// Step delivers the next change.
func (i *Informer) Step() (Key, bool) {
	if !i.Pending() {
		return Key{}, false
	}
	e := i.server.logs[i.resource][i.at]
	i.at++
	i.server.heard[i.resource] = max(i.server.heard[i.resource], i.at)
	if i.sees(e.New) {
		i.set(e.Key, e.New)
	} else {
		i.set(e.Key, nil)
	}
	return e.Key, true
}

// Lose breaks the watch.
func (i *Informer) Lose() { i.watching = false }

// List replaces the cache by what the server has now and starts a watch from
// there. What keep rejects is missing from the list; nil keeps everything.
func (i *Informer) List(keep func(Object) bool) {
	i.at, i.watching = len(i.server.logs[i.resource]), true
	i.server.heard[i.resource] = i.at
	now := map[Key]Object{}
	for _, obj := range i.server.List(i.resource) {
		if i.visible(obj) && (keep == nil || keep(obj)) {
			now[i.server.KeyOf(i.resource, obj)] = obj
		}
	}
	for _, k := range slices.Clone(i.keys) {
		if now[k] == nil {
			i.set(k, nil)
		}
	}
	for _, obj := range i.server.List(i.resource) {
		k := i.server.KeyOf(i.resource, obj)
		if now[k] != nil && i.cache[k] != obj {
			i.set(k, obj)
		}
	}
}

func (i *Informer) set(k Key, obj Object) {
	old := i.cache[k]
	if old == nil && obj == nil {
		return
	}
	if old != nil {
		i.unindex(k, old)
	}
	at, found := slices.BinarySearchFunc(i.keys, k, compare)
	switch {
	case obj == nil:
		delete(i.cache, k)
		i.keys = slices.Delete(i.keys, at, at+1)
	default:
		i.cache[k] = obj
		if !found {
			i.keys = slices.Insert(i.keys, at, k)
		}
		i.reindex(k, obj)
	}
	if i.handler != nil {
		i.handler(old, obj)
	}
}

func (i *Informer) unindex(k Key, obj Object) {
	for name, f := range i.indexers {
		for _, value := range f(obj) {
			i.index[name][value] = slices.DeleteFunc(i.index[name][value], func(other Key) bool { return other == k })
		}
	}
}

func (i *Informer) reindex(k Key, obj Object) {
	for name, f := range i.indexers {
		for _, value := range f(obj) {
			keys := i.index[name][value]
			if at, found := slices.BinarySearchFunc(keys, k, compare); !found {
				i.index[name][value] = slices.Insert(keys, at, k)
			}
		}
	}
}

// Get returns an object from the cache, nil if it is not there.
func (i *Informer) Get(k Key) Object { return i.cache[k] }

// All returns the cache, in the order of the keys.
func (i *Informer) All() []Object { return i.objects(i.keys) }

// By returns what an indexer finds.
func (i *Informer) By(index, value string) []Object { return i.objects(i.index[index][value]) }

func (i *Informer) objects(keys []Key) []Object {
	out := make([]Object, 0, len(keys))
	for _, k := range keys {
		out = append(out, i.cache[k])
	}
	return out
}
