package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is anything that a Server stores.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key names an object. Cluster is empty on a physical cluster.
type Key struct {
	Resource  schema.GroupResource
	Cluster   logicalcluster.Name
	Namespace string
	Name      string
}

// String is for transcripts.
func (k Key) String() string {
	s := k.Resource.Resource + " "
	if k.Cluster != "" {
		s += k.Cluster.String() + "|"
	}
	if k.Namespace != "" {
		s += k.Namespace + "/"
	}
	return s + k.Name
}

func compare(a, b Key) int {
	return cmp.Or(
		cmp.Compare(a.Resource.Resource, b.Resource.Resource), cmp.Compare(a.Resource.Group, b.Resource.Group),
		cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
	)
}

// Namespaces is the resource that the other ones live in.
var Namespaces = schema.GroupResource{Resource: "namespaces"}

// Event is one change: Old is nil for a creation, New for a removal.
type Event struct {
	By       string
	Key      Key
	Revision int64
	At       time.Time
	Old, New Object
}

// Server stores objects.
type Server struct {
	// Name begins the UIDs.
	Name string
	// Logical says that keys contain the logical cluster of their objects.
	Logical bool
	// Unruled lets objects be created in any namespace, as a database does: whoever
	// is in front of it checks.
	Unruled bool
	// Now is the time.
	Now func() time.Time
	// Audit sees every change after it was stored.
	Audit func(e Event)

	revision int64
	writes   int64
	uids     int64
	objects  map[Key]Object
	keys     map[schema.GroupResource][]Key
	logs     map[schema.GroupResource][]Event
	byUID    map[types.UID]Key
	fields   fieldManagers
}

// New makes an empty server.
func New(name string, now func() time.Time) *Server {
	return &Server{
		Name: name, Now: now, revision: 100, objects: map[Key]Object{}, keys: map[schema.GroupResource][]Key{},
		logs: map[schema.GroupResource][]Event{}, byUID: map[types.UID]Key{}, fields: fieldManagers{},
	}
}

// KeyOf is the key of an object.
func (s *Server) KeyOf(gr schema.GroupResource, obj Object) Key {
	k := Key{Resource: gr, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if s.Logical {
		k.Cluster = logicalcluster.From(obj)
	}
	return k
}

// Writes counts the changes so far.
func (s *Server) Writes() int64 { return s.writes }

// Find returns an object, nil if there is none.
func (s *Server) Find(key Key) Object { return s.objects[key] }

// ByUID finds an object by its UID; nil if there is none.
func (s *Server) ByUID(uid types.UID) (Key, Object) {
	key, ok := s.byUID[uid]
	if !ok {
		return Key{}, nil
	}
	return key, s.objects[key]
}

// List returns the objects of a resource, in the order of their keys.
func (s *Server) List(gr schema.GroupResource) []Object {
	out := make([]Object, 0, len(s.keys[gr]))
	for _, k := range s.keys[gr] {
		out = append(out, s.objects[k])
	}
	return out
}

// ListNamespace returns the objects of a resource in a namespace.
func (s *Server) ListNamespace(gr schema.GroupResource, cluster logicalcluster.Name, namespace string) []Object {
	var out []Object
	for _, k := range s.keys[gr] {
		if k.Cluster == cluster && k.Namespace == namespace {
			out = append(out, s.objects[k])
		}
	}
	return out
}

// Resources that there are or were objects of, in order.
func (s *Server) Resources() []schema.GroupResource {
	return slices.SortedFunc(maps.Keys(s.keys), func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
}

// Create stores a new object and returns it.
func (s *Server) Create(by string, gr schema.GroupResource, obj Object) (Object, error) {
	key := s.KeyOf(gr, obj)
	if s.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(gr, key.Name)
	}
	if err := s.lifecycle(key); err != nil {
		return nil, err
	}
	obj = received(obj)
	s.uids++
	obj.SetUID(types.UID(fmt.Sprintf("%s-%d", s.Name, s.uids)))
	obj.SetCreationTimestamp(metav1.NewTime(s.Now()))
	obj.SetDeletionTimestamp(nil)
	obj.SetGeneration(0)
	if countsGenerations[gr.Resource] {
		obj.SetGeneration(1)
	}
	setDefaults(gr, obj, s)
	return s.commit(Event{By: by, Key: key, New: obj}), nil
}

// lifecycle refuses creation where there is no namespace to live in.
func (s *Server) lifecycle(key Key) error {
	if key.Namespace == "" || s.Unruled {
		return nil
	}
	namespace := s.objects[Key{Resource: Namespaces, Cluster: key.Cluster, Name: key.Namespace}]
	switch {
	case namespace == nil:
		return apierrors.NewNotFound(Namespaces, key.Namespace)
	case namespace.GetDeletionTimestamp() != nil:
		return apierrors.NewForbidden(key.Resource, key.Name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", key.Namespace))
	}
	return nil
}

// Update stores another version of an object and returns it. UID and resource
// version are preconditions if set. An object that was only waiting for its last
// finalizer is removed.
func (s *Server) Update(by string, gr schema.GroupResource, obj Object) (Object, error) {
	return s.update(by, gr, obj, false)
}

// UpdateStatus stores only the status of an object.
func (s *Server) UpdateStatus(by string, gr schema.GroupResource, obj *unstructured.Unstructured) (Object, error) {
	return s.update(by, gr, obj, true)
}

func (s *Server) update(by string, gr schema.GroupResource, obj Object, status bool) (Object, error) {
	key := s.KeyOf(gr, obj)
	old := s.objects[key]
	switch {
	case old == nil:
		return nil, apierrors.NewNotFound(gr, key.Name)
	case obj.GetUID() != "" && obj.GetUID() != old.GetUID():
		return nil, apierrors.NewConflict(gr, key.Name, fmt.Errorf("the UID in the precondition is %s, that in the object %s", obj.GetUID(), old.GetUID()))
	case obj.GetResourceVersion() != "" && obj.GetResourceVersion() != old.GetResourceVersion():
		return nil, apierrors.NewConflict(gr, key.Name, fmt.Errorf("the object has been modified"))
	}
	obj = prepareUpdate(obj, old, status)
	if sameContent(old, obj) {
		return old, nil
	}
	if err := validateUpdate(gr, obj, old); err != nil {
		return nil, err
	}
	if obj.GetGeneration() > 0 && !sameSpec(old, obj) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	if isReleased(gr, obj) {
		return s.commit(Event{By: by, Key: key, Old: old}), nil
	}
	return s.commit(Event{By: by, Key: key, Old: old, New: obj}), nil
}

// DeleteOptions are how to delete. UID and Version are preconditions if set.
type DeleteOptions struct {
	UID         types.UID
	Version     string
	Propagation metav1.DeletionPropagation
	Grace       *int64
}

// Delete removes an object, or begins to.
func (s *Server) Delete(by string, key Key, o DeleteOptions) error {
	old := s.objects[key]
	switch {
	case old == nil:
		return apierrors.NewNotFound(key.Resource, key.Name)
	case o.UID != "" && o.UID != old.GetUID():
		return apierrors.NewConflict(key.Resource, key.Name, fmt.Errorf("the UID in the precondition is %s, that in the object %s", o.UID, old.GetUID()))
	case o.Version != "" && o.Version != old.GetResourceVersion():
		return apierrors.NewConflict(key.Resource, key.Name, fmt.Errorf("the object has been modified"))
	}
	obj := beforeDelete(key.Resource, old, o, s.Now())
	switch {
	case isReleased(key.Resource, obj):
		s.commit(Event{By: by, Key: key, Old: old})
	case !sameContent(old, obj):
		s.commit(Event{By: by, Key: key, Old: old, New: obj})
	}
	return nil
}

// Revision is that of the last change.
func (s *Server) Revision() int64 { return s.revision }

// Log has all changes of a resource, oldest first.
func (s *Server) Log(gr schema.GroupResource) []Event { return s.logs[gr] }

// commit stores a change and returns the object, the last one if it is gone.
func (s *Server) commit(e Event) Object {
	s.revision++
	s.writes++
	e.Revision, e.At = s.revision, s.Now()
	if e.New != nil {
		e.New.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	}
	s.set(e)
	s.logs[e.Key.Resource] = append(s.logs[e.Key.Resource], e)
	if s.Audit != nil {
		s.Audit(e)
	}
	if e.New == nil {
		return e.Old
	}
	return e.New
}

// set makes the state what it is after a change.
func (s *Server) set(e Event) {
	keys := s.keys[e.Key.Resource]
	i, found := slices.BinarySearchFunc(keys, e.Key, compare)
	if e.Old != nil {
		delete(s.byUID, e.Old.GetUID())
	}
	if e.New == nil {
		delete(s.objects, e.Key)
		s.keys[e.Key.Resource] = slices.Delete(keys, i, i+1)
		return
	}
	s.objects[e.Key] = e.New
	s.byUID[e.New.GetUID()] = e.Key
	if !found {
		s.keys[e.Key.Resource] = slices.Insert(keys, i, e.Key)
	}
}
