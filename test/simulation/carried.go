package simulation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

var manifests = fleetv1alpha1.Resource("manifests")

// addons is the namespace of root with the Manifests of a world.
const addons = "addons"

// carriage is what a Manifest carries: the same for each name, as the registry sees to.
type carriage struct {
	resource  schema.GroupResource
	gvk       schema.GroupVersionKind
	namespace string
	name      string
	removal   fleetv1alpha1.ManifestRemoval
	adopt     bool
}

var carriages = func() []carriage {
	v1 := schema.GroupVersion{Version: "v1"}
	storage := schema.GroupVersion{Group: "storage.k8s.io", Version: "v1"}
	return []carriage{
		{configMaps, v1.WithKind("ConfigMap"), metav1.NamespaceDefault, "carried", fleetv1alpha1.RemovalDelete, false},
		{configMaps, v1.WithKind("ConfigMap"), metav1.NamespaceDefault, "carried", fleetv1alpha1.RemovalKeep, true}, // and each wants it
		{storageClasses, storage.WithKind("StorageClass"), "", "fast", fleetv1alpha1.RemovalDelete, false},
		{storageClasses, storage.WithKind("StorageClass"), "", "kept", fleetv1alpha1.RemovalKeep, false},
		{namespaces, v1.WithKind("Namespace"), "", "extra", fleetv1alpha1.RemovalKeep, false},
		{configMaps, v1.WithKind("ConfigMap"), "extra", "inside", fleetv1alpha1.RemovalDelete, true},
	}
}()

func (h Happening) carriage() carriage { return carriages[h.N%len(carriages)] }

func (c carriage) below() kube.Key {
	return kube.Key{Resource: c.resource, Namespace: c.namespace, Name: c.name}
}

// object is what is carried, in one of its versions.
func (c carriage) object(n int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(c.gvk)
	u.SetNamespace(c.namespace)
	u.SetName(c.name)
	version := "v" + string(rune('a'+n/len(carriages)%5))
	u.SetLabels(map[string]string{"example.com/version": version})
	switch c.resource {
	case configMaps:
		u.Object["data"] = map[string]any{"version": version}
	case storageClasses:
		u.Object["provisioner"] = driver
	}
	return u
}

// carriedAt is what Manifests carry at a place of a physical cluster; nil if they carry nothing there.
func (w *World) carriedAt(key kube.Key) []carriage {
	if !w.manifests {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.carriages()), func(c carriage) bool { return c.below() != key })
}

func (h Happening) manifest() kube.Key {
	return kube.Key{Resource: manifests, Cluster: scope.Root, Namespace: addons, Name: fmt.Sprintf("m%d", h.N%len(carriages))}
}

// carry: an admin makes a Manifest, or changes it.
func (w *World) carry(h Happening) {
	c, key := h.carriage(), h.manifest()
	spec := map[string]any{"object": c.object(h.N).Object, "removal": string(c.removal), "adopt": c.adopt}
	if w.api.Find(key) != nil {
		w.update(w.people, key, func(u *unstructured.Unstructured) bool { u.Object["spec"] = spec; return true })
		return
	}
	u := newObject(manifests, key.Namespace, key.Name)
	u.Object["spec"] = spec
	w.create(key, u, nil)
}

// uncarry: an admin deletes one.
func (w *World) uncarry(h Happening) { w.remove(h.manifest(), 3) }

// recarry: an admin deletes one, and makes it again.
func (w *World) recarry(h Happening) {
	w.uncarry(h)
	w.recarryLater(h, 100)
}

func (w *World) recarryLater(h Happening, tries int) {
	w.after(pause/10, func() {
		switch {
		case w.api.Find(h.manifest()) == nil:
			w.carry(h)
		case tries > 0:
			w.recarryLater(h, tries-1)
		}
	})
}

// pinCarried: an admin wants Manifests on one physical cluster, or everywhere again.
func (w *World) pinCarried(h Happening) {
	h.Cluster, h.Namespace = scope.Root, addons
	w.pin(h)
}

// squatCarried: people have an object of their own where one is to be carried.
func (w *World) squatCarried(h Happening) {
	c, p := h.carriage(), w.cluster(h.Physical)
	u := c.object(h.N)
	u.SetLabels(map[string]string{"example.com/version": "theirs"})
	if c.namespace == "extra" {
		_, _ = p.api.Create(people, namespaces, newObject(namespaces, "", c.namespace)) // may be there
	}
	if _, err := p.api.Create(people, c.resource, u); err != nil {
		w.say("people: squat %s: %v", c.below(), err)
	}
}

// meddleCarried: people change what is carried, take its mark off, or delete it.
func (w *World) meddleCarried(h Happening) {
	c, p := h.carriage(), w.cluster(h.Physical)
	obj := cast(p.api.Find(c.below()))
	switch {
	case obj == nil:
	case h.N%5 == 0:
		p.editAs(c.below(), obj, func(u *unstructured.Unstructured) {
			labels := u.GetLabels()
			delete(labels, placementv1alpha1.CarriedByLabel)
			u.SetLabels(labels)
		})
	case h.N%2 == 0:
		p.editAs(c.below(), obj, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "theirs", "metadata", "labels", "example.com/version") // it may have none
		})
	default:
		_ = p.api.Delete(people, c.below(), kube.DeleteOptions{}) // there or not
	}
}

// makeAddons makes the namespace of root where there are Manifests.
func (w *World) makeAddons() {
	if w.manifests {
		w.must(w.api.Create(admin, namespaces, in(scope.Root, newObject(namespaces, "", addons))))
	}
}
