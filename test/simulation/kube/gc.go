package kube

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Collector is who writes when garbage is collected.
const Collector = "garbage-collector"

// Dependents are the keys of the objects that name an owner.
func (s *Server) Dependents(uid types.UID) []Key {
	var out []Key
	for _, gr := range s.Resources() {
		for _, k := range s.keys[gr] {
			if owns(s.objects[k], uid) {
				out = append(out, k)
			}
		}
	}
	return out
}

func owns(obj Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == uid })
}

// Collect does what the garbage collector does about one object, and reports
// whether that was anything.
func (s *Server) Collect(key Key) bool {
	obj := s.objects[key]
	if obj == nil {
		return false
	}
	if obj.GetDeletionTimestamp() != nil {
		return s.release(key, obj)
	}
	refs := obj.GetOwnerReferences()
	if len(refs) == 0 {
		return false
	}
	waiting := false
	for _, r := range refs {
		_, owner := s.ByUID(r.UID)
		if owner == nil {
			continue
		}
		if !slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents) || owner.GetDeletionTimestamp() == nil {
			return false
		}
		waiting = true
	}
	policy := metav1.DeletePropagationBackground
	if waiting {
		policy = metav1.DeletePropagationForeground
	}
	return s.Delete(Collector, key, DeleteOptions{UID: obj.GetUID(), Propagation: policy}) == nil
}

// release takes the collector's own finalizers off once their work is done.
func (s *Server) release(key Key, obj Object) bool {
	switch {
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		for _, k := range s.Dependents(obj.GetUID()) {
			dependent := s.objects[k].DeepCopyObject().(Object)
			dependent.SetOwnerReferences(slices.DeleteFunc(slices.Clone(dependent.GetOwnerReferences()),
				func(r metav1.OwnerReference) bool { return r.UID == obj.GetUID() }))
			if _, err := s.Update(Collector, k.Resource, dependent); err != nil {
				return false
			}
		}
		return s.RemoveFinalizer(Collector, key, metav1.FinalizerOrphanDependents)
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents):
		blocking := false
		for _, k := range s.Dependents(obj.GetUID()) {
			for _, r := range s.objects[k].GetOwnerReferences() {
				blocking = blocking || r.UID == obj.GetUID() && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
			}
		}
		return !blocking && s.RemoveFinalizer(Collector, key, metav1.FinalizerDeleteDependents)
	}
	return false
}

// RemoveFinalizer takes a finalizer off an object and reports whether it was
// there.
func (s *Server) RemoveFinalizer(by string, key Key, finalizer string) bool {
	obj := s.objects[key]
	if obj == nil || !slices.Contains(obj.GetFinalizers(), finalizer) {
		return false
	}
	changed := obj.DeepCopyObject().(Object)
	changed.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer }))
	_, err := s.Update(by, key.Resource, changed)
	return err == nil
}
