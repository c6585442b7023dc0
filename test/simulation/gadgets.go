package simulation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// A kind that people of physical clusters define, and take back.
var (
	gadgets     = schema.GroupResource{Group: "example.com", Resource: "gadgets"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}

	ofGadgets = []schema.GroupResource{gadgets, definitions, apiServices}
)

// gadget is what Manifests carry of that kind.
var gadget = carriage{gadgets, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}, "", "g", fleetv1alpha1.RemovalDelete, false}

var (
	definitionKey = kube.Key{Resource: definitions, Name: gadgets.String()}
	apiServiceKey = kube.Key{Resource: apiServices, Name: "v1." + gadgets.Group}
)

// carriages are what Manifests of a world carry.
func (w *World) carriages() []carriage {
	if w.gadgets {
		return append(carriages[:len(carriages):len(carriages)], gadget)
	}
	return carriages
}

func gadgetManifest() kube.Key {
	return kube.Key{Resource: manifests, Cluster: scope.Root, Namespace: addons, Name: "gadget"}
}

// carryGadget: an admin has one everywhere, in one of its versions.
func (w *World) carryGadget(h Happening) {
	key := gadgetManifest()
	spec := map[string]any{"object": gadget.object(h.N).Object, "removal": string(gadget.removal), "adopt": false}
	if w.api.Find(key) != nil {
		w.update(w.people, key, func(u *unstructured.Unstructured) bool { u.Object["spec"] = spec; return true })
		return
	}
	u := newObject(manifests, key.Namespace, key.Name)
	u.Object["spec"] = spec
	w.create(key, u, nil)
}

// uncarryGadget: an admin deletes the Manifest.
func (w *World) uncarryGadget(Happening) { w.remove(gadgetManifest(), 3) }

// define has a physical cluster serve the kind.
func (p *physical) define() {
	if p.undefined = false; p.api.Find(definitionKey) == nil {
		for _, served := range []struct {
			kube.Key
			kind string
		}{{definitionKey, "CustomResourceDefinition"}, {apiServiceKey, "APIService"}} {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: served.Resource.Group, Version: "v1", Kind: served.kind})
			u.SetName(served.Name)
			u.SetLabels(map[string]string{"kube-aggregator.kubernetes.io/automanaged": "true"})
			p.must(p.api.Create(people, served.Resource, u))
		}
	}
}

// undefine: a physical cluster serves the kind no more, as its definition was deleted with all objects, or is broken; or
// serves it again.
func (w *World) undefine(h Happening) {
	p := w.cluster(h.Physical)
	if p.undefined {
		p.define()
		return
	}
	p.undefined = true
	if h.N%2 == 0 {
		for _, key := range []kube.Key{gadget.below(), definitionKey, apiServiceKey} {
			_ = p.api.Delete(people, key, kube.DeleteOptions{Propagation: metav1.DeletePropagationBackground}) // there or not
		}
	}
	for _, t := range slices.Clone(w.streams) { // those that end are taken out
		if t.front == p.front && t.res.GroupResource() == gadgets {
			t.end(errUnreachable)
			w.wait()
		}
	}
}

// unserved answers what is asked of a kind that a physical cluster does not serve now.
func (f *front) unserved(r *request) (answer, bool) {
	if f.physical == nil || !f.physical.undefined || r.res.GroupResource() != gadgets {
		return answer{}, false
	}
	return page(), true
}
