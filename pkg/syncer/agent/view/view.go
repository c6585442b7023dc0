package view

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

type (
	objects = controller.Informer[*unstructured.Unstructured]
	copies  = controller.Informer[*placementv1alpha1.Copy]
	orphans = controller.Informer[*fleetv1alpha1.Orphan]
)

// Config says what a View shows.
type Config struct {
	// Target is the physical cluster, ControlPlane the id of the control plane.
	Target, ControlPlane string
	Up                   connection.ControlPlane
	Down                 connection.Physical
	// Kinds are those that have copies, or are mirrored. All that have copies are watched
	// above: an object of one that is not served below gets a Copy that says so.
	Kinds workload.Catalog
	// Serves says whether the physical cluster serves a kind.
	Serves func(workload.Kind) bool
}

// View is what a syncer knows of both sides.
type View struct {
	Config
	// placed and observed are the kinds; of observed those that are served.
	placed, observed map[schema.GroupVersionResource]workload.Kind
	above, below     map[schema.GroupVersionResource]*objects
	copies           *copies
	orphans          *orphans
	events           *objects

	// What was written and has not come back yet: Copies and objects below by the
	// object, mirrors by what they mirror.
	WrittenCopies  *controller.Written[ObjectKey, *placementv1alpha1.Copy]
	WrittenBelow   *controller.Written[ObjectKey, *unstructured.Unstructured]
	WrittenMirrors *controller.Written[MirrorKey, *unstructured.Unstructured]
}

// New makes a View; Run fills it.
func New(c Config) *View {
	v := &View{
		Config: c,
		placed: map[schema.GroupVersionResource]workload.Kind{}, observed: map[schema.GroupVersionResource]workload.Kind{},
		above: map[schema.GroupVersionResource]*objects{}, below: map[schema.GroupVersionResource]*objects{},
		WrittenCopies:  controller.NewWritten[ObjectKey, *placementv1alpha1.Copy](),
		WrittenBelow:   controller.NewWritten[ObjectKey, *unstructured.Unstructured](),
		WrittenMirrors: controller.NewWritten[MirrorKey, *unstructured.Unstructured](),
	}
	for _, kind := range c.Kinds.Kinds() {
		v.placed[kind.GroupVersionResource()] = kind
	}
	for _, kind := range c.Kinds.Observed() {
		if c.Serves(kind) {
			v.observed[kind.GroupVersionResource()] = kind
		}
	}
	for _, kind := range v.watched() { // what an informer is compared with comes in the order in which they are made
		gvr := kind.GroupVersionResource()
		v.above[gvr] = v.informerAbove(kind)
		if c.Serves(kind) {
			v.below[gvr] = v.informerBelow(kind)
		}
	}
	v.copies = controller.NewInformer("copies of "+v.Target, &placementv1alpha1.Copy{},
		controller.Lists(v.Up.Atoll.PlacementV1alpha1().Copies(metav1.NamespaceAll)),
		controller.InformerOptions[*placementv1alpha1.Copy]{
			Server: v.Up.Server, Metadata: connection.ListMetadata(v.Up.Metadata, placementv1alpha1.SchemeGroupVersion.WithResource("copies")),
		})
	v.orphans = v.informerOfOrphans()
	v.events = v.informerOfEvents()
	v.rememberVersions()
	return v
}

// watched are all that are placed or observed, each once, in order.
func (v *View) watched() []workload.Kind {
	all := slices.Clone(v.Kinds.Kinds())
	for _, kind := range v.Kinds.Observed() {
		if _, observed := v.observed[kind.GroupVersionResource()]; observed && !v.IsPlaced(kind.GroupVersionResource()) {
			all = append(all, kind)
		}
	}
	return all
}

// rememberVersions has the informers know which versions own writes were answered
// with: a server that shows less has gone back in time.
func (v *View) rememberVersions() {
	v.WrittenCopies.OnPut = func(c *placementv1alpha1.Copy) { v.copies.Wrote(c.ResourceVersion) }
	v.WrittenBelow.OnPut, v.WrittenMirrors.OnPut = v.wroteTo(v.below), v.wroteTo(v.above)
}

func (v *View) wroteTo(informers map[schema.GroupVersionResource]*objects) func(*unstructured.Unstructured) {
	byKind := make(map[schema.GroupVersionKind]*objects, len(informers))
	for _, kind := range v.watched() {
		if informer := informers[kind.GroupVersionResource()]; informer != nil {
			byKind[kind.GroupVersionKind] = informer
		}
	}
	return func(obj *unstructured.Unstructured) {
		if informer := byKind[obj.GroupVersionKind()]; informer != nil {
			informer.Wrote(obj.GetResourceVersion())
		}
	}
}

// OnWentBack has end called when one of the two servers went back in time: what was
// written, and what was noted of it, happened there no more.
func (v *View) OnWentBack(end func()) (remove func()) {
	above, below := v.Up.Server.OnWentBack(end), v.Down.Server.OnWentBack(end)
	return func() { above(); below() }
}

// informer is what Run runs.
type informer interface {
	Run(context.Context)
	WaitForSync(context.Context) error
}

// informers are all but the one of events.
func (v *View) informers() []informer {
	var all []informer
	for _, side := range []map[schema.GroupVersionResource]*objects{v.above, v.below} {
		for _, kind := range v.watched() {
			if i := side[kind.GroupVersionResource()]; i != nil {
				all = append(all, i)
			}
		}
	}
	return append(all, v.copies, v.orphans)
}

// Start runs the watches, until ctx is done, in goroutines of running, and returns when
// all have their first list; that of events is not waited for.
func (v *View) Start(ctx context.Context, running *sync.WaitGroup) error {
	all := v.informers()
	for _, i := range all {
		running.Go(func() { i.Run(ctx) })
	}
	for _, i := range all {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// StartEvents runs the watch of the events of the physical cluster, of which those about
// known namespaces are kept: Start comes first.
func (v *View) StartEvents(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() { v.events.Run(ctx) })
}
