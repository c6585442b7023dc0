package kube

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// fieldManagers do server-side apply with the code and the schema that real
// servers use.
type fieldManagers map[schema.GroupVersionKind]*managedfields.FieldManager

// typing takes a while to load.
var typing = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

func (f fieldManagers) of(gvk schema.GroupVersionKind) (*managedfields.FieldManager, error) {
	if m := f[gvk]; m != nil {
		return m, nil
	}
	types := typing()
	if !scheme.Scheme.Recognizes(gvk) { // a kind that is defined there
		types = managedfields.NewDeducedTypeConverter()
	}
	m, err := managedfields.NewDefaultFieldManager(types,
		oneVersion{}, noDefaults{}, unstructuredOnly{}, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, fmt.Errorf("making a field manager: %w", err)
	}
	f[gvk] = m
	return m, nil
}

// Apply applies an object on the server's side. As on a real server a UID that is
// set must be that of the object that exists, and a resource version that is set
// must be its version, if there is one: no object has the version 1.
func (s *Server) Apply(by string, gr schema.GroupResource, obj *unstructured.Unstructured, manager string, force bool) (Object, error) {
	key := s.KeyOf(gr, obj)
	var live *unstructured.Unstructured
	if existing := s.objects[key]; existing != nil {
		live = existing.(*unstructured.Unstructured).DeepCopy()
	}
	switch {
	case live == nil && obj.GetUID() != "":
		return nil, apierrors.NewConflict(gr, key.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", obj.GetUID()))
	case live != nil && obj.GetUID() != "" && obj.GetUID() != live.GetUID():
		return nil, apierrors.NewConflict(gr, key.Name, fmt.Errorf("uid mismatch: %s, %s", obj.GetUID(), live.GetUID()))
	case live != nil && obj.GetResourceVersion() != "" && obj.GetResourceVersion() != live.GetResourceVersion():
		return nil, apierrors.NewConflict(gr, key.Name, fmt.Errorf("the object has been modified"))
	case live == nil:
		live = &unstructured.Unstructured{}
		live.SetGroupVersionKind(obj.GroupVersionKind())
	}
	fields, err := s.fields.of(obj.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	applied := obj.DeepCopy()
	merged, err := fields.Apply(live, applied, manager, force)
	if err != nil {
		return nil, err // a conflict, in the form that clients get
	}
	out := timeless(merged.(*unstructured.Unstructured))
	if live.GetUID() == "" {
		return s.Create(by, gr, out)
	}
	out.SetResourceVersion("")
	return s.Update(by, gr, out)
}

// Edit updates an object as a client of a manager does that changes some fields:
// the fields become the manager's.
func (s *Server) Edit(by string, gr schema.GroupResource, obj *unstructured.Unstructured, manager string) (Object, error) {
	live, ok := s.objects[s.KeyOf(gr, obj)].(*unstructured.Unstructured)
	if !ok || len(live.GetManagedFields()) == 0 {
		return s.Update(by, gr, obj)
	}
	fields, err := s.fields.of(obj.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	merged, err := fields.Update(live.DeepCopy(), obj.DeepCopy(), manager)
	if err != nil {
		return nil, err
	}
	return s.Update(by, gr, timeless(merged.(*unstructured.Unstructured)))
}

// timeless drops the times of managed fields, which come from the real clock.
func timeless(u *unstructured.Unstructured) *unstructured.Unstructured {
	entries := u.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	u.SetManagedFields(entries)
	return u
}

// The parts of a scheme that a field manager needs when all objects are
// unstructured and have one version.
type (
	oneVersion       struct{}
	noDefaults       struct{}
	unstructuredOnly struct{}
)

func (oneVersion) Convert(_, _, _ any) error { return fmt.Errorf("there is one version only") }
func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (noDefaults) Default(runtime.Object) {}
func (unstructuredOnly) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// OwnerOf is a reference to an object that controls another one.
func OwnerOf(u *unstructured.Unstructured) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}
