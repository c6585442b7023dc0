package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	// ErrNotServed says that the physical cluster does not serve a kind.
	ErrNotServed = errors.New("not served")
	// ErrTooManyKinds says that more would be watched than may be.
	ErrTooManyKinds = errors.New("too many kinds")
)

// CarriedKind is a kind that Manifests carry, as the physical cluster serves it.
type CarriedKind struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// carrying are the kinds that Manifests carry, with the watches of what is carried: of an object of
// any other kind the catalog says what is watched, of these the Manifests do.
type carrying struct {
	ctx     context.Context // that of Start
	running *sync.WaitGroup
	mu      sync.Mutex
	kinds   map[schema.GroupVersionKind]CarriedKind
	watches map[schema.GroupVersionResource]*watch
}

// Carry finds how the physical cluster serves a kind, and watches what is carried of it. It returns
// once there is a first list.
func (v *View) Carry(ctx context.Context, gvk schema.GroupVersionKind) (CarriedKind, error) {
	c := &v.carrying
	c.mu.Lock()
	kind, known := c.kinds[gvk]
	c.mu.Unlock()
	if !known {
		var err error
		if kind, err = v.discover(ctx, gvk); err != nil {
			return CarriedKind{}, err
		}
	}
	if v.carried(kind.Resource) == nil {
		// A watch that is refused would only be tried again and again.
		options := metav1.ListOptions{Limit: 1, LabelSelector: placementv1alpha1.CarriedByLabel + "=" + v.ControlPlane}
		if _, err := v.Down.Metadata.Resource(kind.Resource).List(ctx, options); err != nil {
			return CarriedKind{}, fmt.Errorf("listing %s: %w", kind.Resource.GroupResource(), err)
		}
	}
	w, err := v.watchCarried(gvk, kind)
	if err != nil {
		return CarriedKind{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)() // one that is ended gets no list any more
	if err := w.WaitForSync(ctx); err != nil {
		return CarriedKind{}, fmt.Errorf("waiting for the first list of %s: %w", kind.Resource, err)
	}
	return kind, nil
}

// discover asks the physical cluster.
func (v *View) discover(ctx context.Context, gvk schema.GroupVersionKind) (CarriedKind, error) {
	path := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		path = "/api/" + gvk.Version
	}
	ctx, cancel := context.WithTimeout(ctx, connection.QuestionTimeout)
	defer cancel()
	var list metav1.APIResourceList
	err := v.Down.Kube.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Into(&list)
	switch {
	case apierrors.IsNotFound(err):
		return CarriedKind{}, ErrNotServed
	case err != nil:
		return CarriedKind{}, fmt.Errorf("asking what is served of %s: %w", gvk.GroupVersion(), err)
	}
	resource, namespaced, ok := syncer.ServedAs(list, gvk.Kind)
	if !ok {
		return CarriedKind{}, ErrNotServed
	}
	return CarriedKind{Resource: gvk.GroupVersion().WithResource(resource), Namespaced: namespaced}, nil
}

func (v *View) watchCarried(gvk schema.GroupVersionKind, kind CarriedKind) (*watch, error) {
	c := &v.carrying
	c.mu.Lock()
	defer c.mu.Unlock()
	manifests, ok := v.manifests()
	if c.ctx == nil || c.ctx.Err() != nil || !ok {
		return nil, errors.New("the watches have not begun, or have ended")
	}
	if w := c.watches[kind.Resource]; w != nil {
		return w, nil
	}
	if len(c.watches) >= fleetv1alpha1.MaxManifestKinds {
		for _, unused := range syncer.NotCarried(slices.Collect(maps.Keys(c.kinds)), slices.Collect(v.Objects(manifests.GroupVersionResource())), v.copies.List()) {
			c.drop(unused)
		}
	}
	if len(c.watches) >= fleetv1alpha1.MaxManifestKinds {
		return nil, ErrTooManyKinds
	}
	w := &watch{}
	w.objects = v.informerCarried(gvk, kind.Resource, func() { v.refusedCarried(gvk, manifests, w) })
	v.run(c.ctx, c.running, w)
	w.Handle(func(old, new *unstructured.Unstructured) { v.changedCarried(manifests, old, new) })
	c.watches[kind.Resource], c.kinds[gvk] = w, kind
	return w, nil
}

// changedCarried is called for each change of what is carried.
func (v *View) changedCarried(manifests workload.Kind, old, new *unstructured.Unstructured) {
	v.mu.Lock()
	h := v.handlers
	v.mu.Unlock()
	if h != nil {
		h.Below(syncer.Change{Target: v.Target, Kind: manifests, Placed: true, Old: old, New: new, Own: v.arrivedBelow(manifests, old, new)})
	}
}

// refusedCarried ends a watch whose list is refused, as its kind is not served any more, or may not be
// listed: it would be listed again and again, while the Copies say what was there. All of it is looked at,
// which asks what is served.
func (v *View) refusedCarried(gvk schema.GroupVersionKind, manifests workload.Kind, w *watch) {
	c := &v.carrying
	c.mu.Lock()
	current := c.watches[c.kinds[gvk].Resource] == w
	if current {
		c.drop(gvk)
	}
	c.mu.Unlock()
	if !current {
		return
	}
	for obj := range w.All() {
		v.changedCarried(manifests, obj, nil)
	}
}

// manifests is their kind.
func (v *View) manifests() (workload.Kind, bool) {
	for _, kind := range v.Kinds().Kinds() {
		if kind.Carries {
			return kind, true
		}
	}
	return workload.Kind{}, false
}

func (v *View) informerCarried(gvk schema.GroupVersionKind, gvr schema.GroupVersionResource, refused func()) *objects {
	manifests, _ := v.manifests()
	lists := controller.Lists(v.Down.Dynamic.Resource(gvr))
	list := lists.List
	lists.List = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		all, err := list(ctx, o)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			refused()
		}
		return all, err
	}
	return controller.NewInformer("carried "+gvr.Resource+" on "+v.Target, example(gvk), lists,
		controller.InformerOptions[*unstructured.Unstructured]{
			Unscoped: true, Server: v.Down.Server, Allowance: v.allowance, Metadata: connection.ListMetadata(v.Down.Metadata, gvr),
			Transform: whole,
			Tweak: func(o *metav1.ListOptions) {
				o.LabelSelector = placementv1alpha1.CarriedByLabel + "=" + v.ControlPlane
			},
			Indexers: indexers{byMark: marked(manifests)},
		})
}

// DoubtKind has the physical cluster asked for a kind once more: it does not answer as one that serves it.
func (v *View) DoubtKind(gvk schema.GroupVersionKind) {
	c := &v.carrying
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(gvk)
}

// drop ends the watch of a kind; the lock is held.
func (c *carrying) drop(gvk schema.GroupVersionKind) {
	kind, ok := c.kinds[gvk]
	if !ok {
		return
	}
	delete(c.kinds, gvk)
	if w := c.watches[kind.Resource]; w != nil {
		delete(c.watches, kind.Resource)
		w.end()
	}
}

func (v *View) carried(gvr schema.GroupVersionResource) *watch {
	c := &v.carrying
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watches[gvr]
}

// CarriedBelow is what is below under the name of what a Manifest carries, as the watch has it.
func (v *View) CarriedBelow(key ObjectKey, gvr schema.GroupVersionResource, r controller.Request) (*unstructured.Unstructured, bool) {
	w := v.carried(gvr)
	if w == nil {
		return nil, false
	}
	informed, found := w.Get(r)
	return v.WrittenBelow.Newest(key, informed, found)
}

// CarriedGone is Gone of what a Manifest carries.
func (v *View) CarriedGone(gvr schema.GroupVersionResource, r controller.Request) {
	if w := v.carried(gvr); w != nil {
		if obj, ok := w.Get(r); ok {
			w.Gone(r, obj.GetUID())
		}
	}
}

// Unapplied are the Manifests of which the Copy does not say that they are in place.
func (v *View) Unapplied(manifests workload.Kind) []ObjectKey {
	var out []ObjectKey
	for obj := range v.Objects(manifests.GroupVersionResource()) {
		key := KeyOf(manifests, obj)
		if c, ok := v.Copy(key); !ok || c.Status.State != placementv1alpha1.CopySynced {
			out = append(out, key)
		}
	}
	return out
}

// CarriedResource is the resource by which the kind of an object is watched.
func (v *View) CarriedResource(obj *unstructured.Unstructured) string {
	c := &v.carrying
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds[obj.GroupVersionKind()].Resource.Resource
}

// CarriedMarked is what is below with the mark of a Manifest, of the kinds that are watched.
func (v *View) CarriedMarked(key ObjectKey) []*unstructured.Unstructured {
	c := &v.carrying
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*unstructured.Unstructured
	for _, w := range c.watches {
		out = append(out, w.ByIndex(byMark, key.Request.String())...)
	}
	return out
}
