package view

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

type (
	objects = controller.Informer[*unstructured.Unstructured]
	copies  = controller.Informer[*placementv1alpha1.Copy]
	orphans = controller.Informer[*fleetv1alpha1.Orphan]
	imports = controller.Informer[*placementv1alpha1.ServiceImport]
	pods    = controller.Informer[*placementv1alpha1.PodImport]
)

// Config says what a View shows.
type Config struct {
	// Target is the physical cluster, ControlPlane the id of the control plane.
	Target, ControlPlane string
	Up                   connection.ControlPlane
	Down                 connection.Physical
	// Least is what may be held in any case of what the physical cluster shows; More is
	// asked when that is not enough, with the number of Copies and imports there. Nothing
	// bounds it without More.
	Least controller.Held
	More  func(placed int) controller.Held
}

// View is what a syncer knows of both sides.
type View struct {
	Config
	copies   *copies
	orphans  *orphans
	accounts *objects
	imports  *imports
	pods     *pods
	events   *objects
	// awaited is whose first list Start waits for.
	awaited atomic.Pointer[string]
	// allowance bounds what is held of the physical cluster; nil if nothing does.
	allowance *controller.Allowance

	// now is what readers see of the kinds.
	now atomic.Pointer[watched]
	mu  sync.Mutex // orders changes of what follows, and of now
	// kinds are those that are wanted, and begun what runs of them, shown or not yet.
	kinds    workload.Catalog
	begun    map[schema.GroupVersionResource]*entry
	handlers *Handlers // nil before Handle
	carrying carrying

	// What was written and has not come back yet: Copies and objects below by the
	// object, mirrors by what they mirror.
	WrittenCopies  *controller.Written[ObjectKey, *placementv1alpha1.Copy]
	WrittenBelow   *controller.Written[ObjectKey, *unstructured.Unstructured]
	WrittenMirrors *controller.Written[MirrorKey, *unstructured.Unstructured]
}

// New makes a View of kinds; Start fills it. All kinds that have copies are watched
// above: an object of one that is not served below gets a Copy that says so.
func New(c Config, kinds workload.Catalog, serves func(workload.Kind) bool) *View {
	v := &View{
		Config: c, kinds: kinds, begun: map[schema.GroupVersionResource]*entry{},
		WrittenCopies:  controller.NewWritten[ObjectKey, *placementv1alpha1.Copy](),
		WrittenBelow:   controller.NewWritten[ObjectKey, *unstructured.Unstructured](),
		WrittenMirrors: controller.NewWritten[MirrorKey, *unstructured.Unstructured](),
	}
	v.carrying.kinds, v.carrying.watches = map[schema.GroupVersionKind]CarriedKind{}, map[schema.GroupVersionResource]*watch{}
	if c.More != nil {
		v.allowance = controller.NewAllowance(c.Least, v.allowed)
	}
	now := &watched{kinds: kinds, entries: map[schema.GroupVersionResource]*entry{}, byKind: map[schema.GroupVersionKind]*entry{}}
	for _, kind := range kinds.All() { // what an informer is compared with comes in the order in which they are made
		if !kind.Copied() && !serves(kind) || kind.Carries {
			continue
		}
		e := &entry{kind: kind, above: &watch{objects: v.informerAbove(kind)}}
		if serves(kind) {
			e.below = &watch{objects: v.informerBelow(kind)}
		}
		v.begun[kind.GroupVersionResource()] = e
		now = now.with(kinds, kind.GroupVersionResource(), e)
	}
	v.now.Store(now)
	v.copies = controller.NewInformer("copies of "+v.Target, &placementv1alpha1.Copy{},
		controller.Lists(v.Up.Atoll.PlacementV1alpha1().Copies(metav1.NamespaceAll)),
		controller.InformerOptions[*placementv1alpha1.Copy]{
			Server: v.Up.Server, Metadata: connection.ListMetadata(v.Up.Metadata, placementv1alpha1.SchemeGroupVersion.WithResource("copies")),
		})
	v.orphans = v.informerOfOrphans()
	v.accounts = v.informerOfAccounts()
	v.imports = v.informerOfImports()
	v.pods = v.informerOfPodImports()
	v.events = v.informerOfEvents()
	v.rememberVersions()
	return v
}

// rememberVersions has the informers know which versions own writes were answered
// with: a server that shows less has gone back in time; and the memories of those writes
// how far the informers are.
func (v *View) rememberVersions() {
	v.WrittenCopies.Reached = func(_ ObjectKey, version string) bool { return v.copies.Reached(version) }
	v.WrittenCopies.Informed = func(key ObjectKey) (*placementv1alpha1.Copy, bool) { return v.copies.Get(v.CopyRequest(key)) }
	v.WrittenMirrors.Reached = func(key MirrorKey, version string) bool { return reached(v.now.Load().above(key.Resource), version) }
	v.WrittenMirrors.Informed = func(key MirrorKey) (*unstructured.Unstructured, bool) {
		obj := v.informedMirror(key)
		return obj, obj != nil
	}
	v.WrittenCopies.OnPut = func(c *placementv1alpha1.Copy) { v.copies.Wrote(c.ResourceVersion) }
	v.WrittenBelow.OnPut = func(obj *unstructured.Unstructured) {
		if obj.GetLabels()[placementv1alpha1.CarriedByLabel] != "" {
			return // of none of these
		}
		if e := v.now.Load().byKind[obj.GroupVersionKind()]; e != nil && e.below != nil {
			e.below.Wrote(obj.GetResourceVersion())
		}
	}
	v.WrittenMirrors.OnPut = func(obj *unstructured.Unstructured) {
		if e := v.now.Load().byKind[obj.GroupVersionKind()]; e != nil {
			e.above.Wrote(obj.GetResourceVersion())
		}
	}
}

// importsDelay is how long what may be held waits for the first list of imports, which a server
// from before them never answers.
const importsDelay = 10 * time.Second

// allowed is what may be held of the physical cluster, by what is placed there and by what is
// reached from there: a tenant with many Services elsewhere is not to stop all others.
func (v *View) allowed(ctx context.Context) controller.Held {
	if v.copies.WaitForSync(ctx) != nil {
		return controller.Held{}
	}
	limited, cancel := context.WithTimeout(ctx, importsDelay)
	defer cancel()
	_ = errors.Join(v.imports.WaitForSync(limited), v.pods.WaitForSync(limited)) // then there are none
	return v.More(v.copies.Len() + v.imports.Len() + v.pods.Len())
}

// Exceeded is closed when the physical cluster shows more than may be held, of which nothing
// is taken any more; Excess says how much.
func (v *View) Exceeded() <-chan struct{} {
	if v.allowance == nil {
		return nil
	}
	return v.allowance.Exceeded()
}

// Excess is nil before Exceeded.
func (v *View) Excess() error {
	if v.allowance == nil {
		return nil
	}
	return v.allowance.Err()
}

// reached: an informer that is not there any more gets no further.
func reached(i *objects, version string) bool { return i == nil || i.Reached(version) }

// OnWentBack has end called when one of the two servers went back in time: what was
// written, and what was noted of it, happened there no more.
func (v *View) OnWentBack(end func()) (remove func()) {
	above, below := v.Up.Server.OnWentBack(end), v.Down.Server.OnWentBack(end)
	return func() { above(); below() }
}

// informer is what Run runs.
type informer interface {
	Name() string
	Run(context.Context)
	WaitForSync(context.Context) error
}

// Start runs the watches, until ctx is done, in goroutines of running, and returns when
// all have their first list. That of events is not waited for, nor those of imports and Manifests, which a
// server from before them does not have.
func (v *View) Start(ctx context.Context, running *sync.WaitGroup) error {
	var all []informer
	v.mu.Lock()
	entries := v.now.Load().inOrder()
	for _, side := range []func(*entry) *watch{func(e *entry) *watch { return e.above }, func(e *entry) *watch { return e.below }} {
		for _, e := range entries {
			if w := side(e); w != nil {
				v.run(ctx, running, w)
				all = append(all, w)
			}
		}
	}
	v.carrying.ctx, v.carrying.running = ctx, running
	if manifests, ok := v.manifests(); ok {
		v.begin(ctx, running, manifests, false)
	}
	v.mu.Unlock()
	for _, i := range []informer{v.copies, v.orphans, v.accounts} {
		running.Go(func() { i.Run(ctx) })
		all = append(all, i)
	}
	running.Go(func() { v.imports.Run(ctx) })
	running.Go(func() { v.pods.Run(ctx) })
	for _, i := range all {
		v.awaited.Store(ptr.To(i.Name()))
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	v.awaited.Store(nil)
	return nil
}

// Awaited names the objects whose first list Start waits for; empty if it waits for none. A server may
// answer page after page, and never come to an end.
func (v *View) Awaited() string { return ptr.Deref(v.awaited.Load(), "") }

// Unwatched is what there is no watch of, save what Start does not wait for.
func (v *View) Unwatched() (all []syncer.Unwatched) {
	outages := []interface {
		Outage() (controller.Outage, bool)
	}{v.copies, v.orphans, v.accounts}
	v.mu.Lock()
	for _, e := range v.begun {
		for _, w := range []*watch{e.above, e.below} {
			if w != nil && !e.kind.Carries {
				outages = append(outages, w)
			}
		}
	}
	v.mu.Unlock()
	for _, i := range outages {
		if o, ok := i.Outage(); ok {
			all = append(all, syncer.Unwatched{Objects: o.Name, Since: o.Since, Err: o.Err})
		}
	}
	return all
}

// StartEvents runs the watch of the events of the physical cluster, of which those about
// known namespaces are kept: Start comes first.
func (v *View) StartEvents(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() { v.events.Run(ctx) })
}
