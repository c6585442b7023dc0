package shells

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// physicalNamespace is the name below of the namespace of a happening; people
// know it even before it is recorded.
func (w *World) physicalNamespace(h Happening) string {
	namespace := w.api.Find(h.namespace())
	if namespace == nil {
		return ""
	}
	if name := namespace.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]; name != "" {
		return name
	}
	return stamp.PhysicalNamespace(controlPlane, h.Cluster, h.Namespace, namespace.GetUID())
}

// below finds where a happening is below, and what is there.
func (w *World) below(h Happening) (*physical, kube.Key, *unstructured.Unstructured) {
	p := w.cluster(h.Physical)
	key := kube.Key{Resource: h.Resource, Namespace: w.physicalNamespace(h), Name: h.Name}
	return p, key, cast(p.api.Find(key))
}

func (p *physical) editAs(key kube.Key, obj *unstructured.Unstructured, change func(*unstructured.Unstructured)) {
	u := obj.DeepCopy()
	change(u)
	if _, err := p.api.Edit(people, key.Resource, u, "kubectl-edit"); err != nil {
		p.world.say("people: edit %s: %v", key, err)
	}
}

// editBelow changes fields, some of them ours.
func (w *World) editBelow(h Happening) {
	p, key, obj := w.below(h)
	if obj == nil {
		return
	}
	p.editAs(key, obj, func(u *unstructured.Unstructured) {
		switch {
		case h.N%3 == 0 || key.Resource == jobs || key.Resource == pods:
			annotations := u.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations["example.com/note"] = "people"
			u.SetAnnotations(annotations)
		case key.Resource == configMaps:
			_ = unstructured.SetNestedField(u.Object, "people", "data", "version") // a path of maps
		case key.Resource == services:
			_ = unstructured.SetNestedField(u.Object, "people", "spec", "selector", "version") // a path of maps
		case key.Resource == deployments:
			_ = unstructured.SetNestedField(u.Object, int64(h.N%4), "spec", "replicas") // a path of maps
		}
	})
}

// flapBelow has a controller below say something else for a moment, as that of
// StatefulSets does.
func (w *World) flapBelow(h Happening) {
	p, key, obj := w.below(h)
	if obj == nil || key.Resource != deployments || obj.Object["status"] == nil {
		return
	}
	status := part(obj, "status")
	other := maps.Clone(status)
	other["readyReplicas"] = int64(0)
	for range 1 + h.N%10 {
		for _, s := range []map[string]any{other, status} {
			if err := p.status(key, obj, s); err != nil {
				w.say("flapping: %v", err)
			}
		}
	}
}

// stripBelow takes marks of ours off.
func (w *World) stripBelow(h Happening) {
	p, key, obj := w.below(h)
	if obj == nil {
		return
	}
	p.editAs(key, obj, func(u *unstructured.Unstructured) {
		labels, annotations := u.GetLabels(), u.GetAnnotations()
		if h.N%2 == 0 {
			delete(labels, placementv1alpha1.ManagedByLabel)
		}
		if h.N%3 == 0 {
			delete(annotations, syncer.ObjectAnnotation)
		}
		if h.N%5 == 0 {
			delete(annotations, syncer.AppliedAnnotation)
		}
		u.SetLabels(labels)
		u.SetAnnotations(annotations)
	})
}

func (w *World) deleteBelow(h Happening) {
	p, key, obj := w.below(h)
	if obj != nil {
		_ = p.api.Delete(people, key, kube.DeleteOptions{Propagation: metav1.DeletePropagationBackground}) // there or not
	}
}

// restoreBelow replaces a copy by one from a backup: the same marks, another UID.
func (w *World) restoreBelow(h Happening) {
	p, key, obj := w.below(h)
	if obj == nil {
		return
	}
	w.deleteBelow(h)
	restored := obj.DeepCopy()
	restored.SetFinalizers(nil)
	restored.SetOwnerReferences(nil)
	if h.N%2 == 0 {
		restored.SetManagedFields(nil)
	}
	if _, err := p.api.Create(people, key.Resource, restored); err != nil {
		w.say("people: restore %s: %v", key, err)
	}
}

// resurrectBelow makes a copy again that was removed long ago, from a backup.
func (w *World) resurrectBelow(h Happening) {
	p := w.cluster(h.Physical)
	removed := w.ledger.removed[p.name]
	if len(removed) == 0 {
		return
	}
	e := removed[h.N%len(removed)]
	obj := changed(e.Old)
	obj.SetFinalizers(nil)
	obj.SetOwnerReferences(nil)
	_, _ = p.api.Create(people, namespaces, newObject(namespaces, "", e.Key.Namespace)) // may be there
	if created, err := p.api.Create(people, e.Key.Resource, obj); err == nil {
		w.say("people: resurrect %s as %s", e.Key, describe(created))
	}
}

// cloneBelow copies an object with its marks to another name or namespace.
func (w *World) cloneBelow(h Happening) {
	p, key, obj := w.below(h)
	if obj == nil {
		return
	}
	clone := obj.DeepCopy()
	clone.SetFinalizers(nil)
	clone.SetOwnerReferences(nil)
	if h.N%2 == 0 {
		clone.SetName(clonePrefix + h.Name)
	} else {
		clone.SetNamespace(clonePrefix + key.Namespace)
		_, _ = p.api.Create(people, namespaces, newObject(namespaces, "", clone.GetNamespace())) // may be there
	}
	if _, err := p.api.Create(people, key.Resource, clone); err != nil {
		w.say("people: clone %s: %v", key, err)
	}
}

// holdBelow puts a finalizer on a copy that nobody takes off for a while.
func (w *World) holdBelow(h Happening) {
	p, key, obj := w.below(h)
	if obj != nil && obj.GetDeletionTimestamp() == nil && !slices.Contains(obj.GetFinalizers(), "example.com/hold") {
		p.editAs(key, obj, func(u *unstructured.Unstructured) { u.SetFinalizers(append(u.GetFinalizers(), "example.com/hold")) })
	}
}

// squat makes an object of people's own where a copy may want to be.
func (w *World) squat(h Happening) {
	p, key, obj := w.below(h)
	if obj != nil || key.Namespace == "" || h.Resource == replicaSets {
		return
	}
	u := example(h.Resource, key.Namespace, h.Name, h.N)
	if h.N%2 == 0 && h.Resource == configMaps {
		u.Object["data"] = map[string]any{"theirs": "people"}
	}
	if _, err := p.api.Create(people, key.Resource, u); err != nil {
		w.say("people: squat %s: %v", key, err)
	}
}

// squatNamespace makes a namespace of people's own where ours wants to be.
func (w *World) squatNamespace(h Happening) {
	name := w.physicalNamespace(h)
	if name == "" {
		return
	}
	if _, err := w.cluster(h.Physical).api.Create(people, namespaces, newObject(namespaces, "", name)); err == nil {
		w.say("people: namespace %s on %s", name, h.Physical)
		w.squat(h)
	}
}

// leave removes what people made.
func (w *World) leave(h Happening) {
	p := w.cluster(h.Physical)
	for _, gr := range content {
		for _, obj := range p.api.List(gr) {
			key := p.api.KeyOf(gr, obj)
			if !w.ledger.ours(key, obj) && len(obj.GetOwnerReferences()) == 0 {
				_ = p.api.Delete(people, key, kube.DeleteOptions{}) // there or not
			}
		}
	}
}

func (w *World) deleteNamespaceBelow(h Happening) {
	p := w.cluster(h.Physical)
	key := kube.Key{Resource: namespaces, Name: w.physicalNamespace(h)}
	if p.api.Find(key) != nil {
		_ = p.api.Delete(people, key, kube.DeleteOptions{}) // there or not
	}
}
