package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

type (
	objects = controller.Informer[*unstructured.Unstructured]
	copies  = controller.Informer[*placementv1alpha1.Copy]
)

// Workers of the queues. They mostly wait for one of the two servers.
const (
	objectWorkers      = 24
	observationWorkers = 16
	eventWorkers       = 2
	orphanWorkers      = 2
)

// session is one run of the syncer against a known world.
type session struct {
	target       string
	controlPlane string
	// kinds are those of the session.
	kinds  workload.Catalog
	up     upstream
	down   physical
	report *reporter
	// plan and decide are the core's, see Config.
	plan   func(syncer.Input) []syncer.Action
	decide func(syncer.Observation) syncer.MirrorAction

	// kinds that have copies, and kinds of which objects are mirrored, as far as the
	// physical cluster serves them.
	placed   map[schema.GroupVersionResource]workload.Kind
	observed map[schema.GroupVersionResource]workload.Kind

	logical map[schema.GroupVersionResource]*objects
	below   map[schema.GroupVersionResource]*objects
	copies  *copies
	events  *objects
	listed  *orphanRecords

	objectQueue      *controller.Controller[objectKey]
	observationQueue *controller.Controller[observationKey]
	eventQueue       *controller.Controller[string]
	orphanQueue      *controller.Controller[string]

	// What was written and has not come back yet.
	writtenCopies  *recent[objectKey, *placementv1alpha1.Copy]
	writtenBelow   *recent[objectKey, *unstructured.Unstructured]
	writtenLogical *recent[observationKey, *unstructured.Unstructured]

	settled *notes[string]
	// unlisted are the orphans that the list has no room for.
	unlisted *notes[bool]
	asked    *notes[types.UID]
	// uncounted is since when objects have waited for a quota to be enforced below.
	uncounted *notes[time.Time]
	refused   workqueue.TypedRateLimiter[objectKey]
	silent    workqueue.TypedRateLimiter[objectKey]
	reverts   damper
	reports   pacer
	making    keyedMutex
	started   time.Time
}

func newSession(a *Agent, w world) *session {
	s := &session{
		target: a.target, controlPlane: w.controlPlane, kinds: a.Kinds.Current(), up: a.up, down: a.down, report: a.report,
		plan: a.Plan, decide: a.Observe,
		placed: map[schema.GroupVersionResource]workload.Kind{}, observed: map[schema.GroupVersionResource]workload.Kind{},
		logical: map[schema.GroupVersionResource]*objects{}, below: map[schema.GroupVersionResource]*objects{},
		writtenCopies:  newRecent[objectKey, *placementv1alpha1.Copy](),
		writtenBelow:   newRecent[objectKey, *unstructured.Unstructured](),
		writtenLogical: newRecent[observationKey, *unstructured.Unstructured](),
		settled:        newNotes[string](),
		unlisted:       newNotes[bool](),
		asked:          newNotes[types.UID](),
		uncounted:      newNotes[time.Time](),
		refused:        workqueue.NewTypedItemExponentialFailureRateLimiter[objectKey](time.Second, 2*time.Minute),
		silent:         workqueue.NewTypedItemExponentialFailureRateLimiter[objectKey](50*time.Millisecond, 15*time.Second),
		started:        time.Now(),
	}
	s.objectQueue = controller.New("syncer/objects", objectWorkers, s.reconcile)
	s.observationQueue = controller.New("syncer/observations", observationWorkers, s.observe)
	s.eventQueue = controller.New("syncer/events", eventWorkers, s.bringEvent)
	s.orphanQueue = controller.New("syncer/orphans", orphanWorkers, s.orphan)
	for _, k := range s.kinds.Kinds() {
		// All kinds are watched above: an object of one that is not served below
		// gets a Copy that says so.
		s.placed[k.GroupVersionResource()] = k
	}
	for _, k := range s.kinds.Observed() {
		if w.serves(k) {
			s.observed[k.GroupVersionResource()] = k
		}
	}
	s.makeInformers(w)
	s.rememberVersions()
	return s
}

// run syncs until ctx is done, and returns when all that it started has ended.
func (s *session) run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer s.endWithThePast(cancel)()
	for _, q := range []interface{ ShutDown() }{s.objectQueue, s.observationQueue, s.eventQueue, s.orphanQueue} {
		defer q.ShutDown() // also if they are never run
	}

	for _, i := range s.informers() {
		running.Go(func() { i.Run(ctx) })
	}
	running.Go(func() { s.copies.Run(ctx) })
	running.Go(func() { s.listed.Run(ctx) })
	for _, i := range s.informers() {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	if err := s.copies.WaitForSync(ctx); err != nil {
		return err
	}
	if err := s.listed.WaitForSync(ctx); err != nil {
		return err
	}
	if err := s.report.meet(ctx, s.expected); err != nil {
		return err
	}
	defer s.report.gate.expect(nil)
	// Events are kept by namespace, so the namespaces come first.
	running.Go(func() { s.events.Run(ctx) })

	s.handle()
	running.Go(func() { s.objectQueue.Run(ctx) })
	running.Go(func() { s.observationQueue.Run(ctx) })
	running.Go(func() { s.eventQueue.Run(ctx) })
	running.Go(func() { s.orphanQueue.Run(ctx) })
	s.report.syncing(true)
	defer s.report.syncing(false)
	logger.Info("Syncing", "controlPlane", s.controlPlane)
	<-ctx.Done()
	return nil
}

func (s *session) informers() []*objects {
	var above, below []*objects
	for _, kind := range s.watched() {
		gvr := kind.GroupVersionResource()
		if i := s.logical[gvr]; i != nil {
			above = append(above, i)
		}
		if i := s.below[gvr]; i != nil {
			below = append(below, i)
		}
	}
	return append(above, below...)
}

// watched are all that are placed or observed, each once, in order.
func (s *session) watched() []workload.Kind {
	all := slices.Clone(s.kinds.Kinds())
	for _, kind := range s.kinds.Observed() {
		gvr := kind.GroupVersionResource()
		_, placed := s.placed[gvr]
		if _, observed := s.observed[gvr]; observed && !placed {
			all = append(all, kind)
		}
	}
	return all
}

// Indexes.
const (
	// byEntryUID finds the logical object that was mirrored for a physical UID.
	byEntryUID = "entry-uid"
	// byUID and byOwner find physical objects by their UID and that of an owner.
	byUID   = "uid"
	byOwner = "owner"
	// byMark finds copies by the logical object that they name.
	byMark = "mark"
	// byPhysicalName finds a Namespace by the name of its physical namespace.
	byPhysicalName = "physical-name"
	// byScaled finds an autoscaler by what it scales.
	byScaled = "scaled"
)

func (s *session) makeInformers(w world) {
	for _, kind := range s.watched() { // what an informer is compared with comes in the order in which they are made
		gvr := kind.GroupVersionResource()
		s.logical[gvr] = s.logicalInformer(kind)
		if w.serves(kind) {
			s.below[gvr] = s.physicalInformer(kind)
		}
	}
	s.copies = controller.NewInformer("copies of "+s.target, &placementv1alpha1.Copy{},
		controller.Lists(s.up.atoll.PlacementV1alpha1().Copies(metav1.NamespaceAll)),
		controller.InformerOptions[*placementv1alpha1.Copy]{
			Server: s.up.server, Metadata: listMetadata(s.up.metadata, placementv1alpha1.SchemeGroupVersion.WithResource("copies")),
		})
	s.listed = s.orphanInformer()
	s.events = controller.NewInformer("events on "+s.target, example(schema.GroupVersionKind{Version: "v1", Kind: "Event"}),
		controller.Lists(s.down.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("events"))),
		controller.InformerOptions[*unstructured.Unstructured]{Unscoped: true, Transform: s.eventOfOurs, Server: s.down.server})
}

func (s *session) logicalInformer(kind workload.Kind) *objects {
	indexers := map[string]func(*unstructured.Unstructured) []string{byEntryUID: s.entryUID}
	switch kind.Kind {
	case "Namespace":
		indexers[byPhysicalName] = physicalName
	case "HorizontalPodAutoscaler":
		indexers[byScaled] = scales
	}
	return controller.NewInformer(kind.Resource+" for "+s.target, example(kind.GroupVersionKind),
		controller.Lists(s.up.dynamic.Resource(kind.GroupVersionResource())),
		controller.InformerOptions[*unstructured.Unstructured]{
			Indexers: indexers, Server: s.up.server, Metadata: listMetadata(s.up.metadata, kind.GroupVersionResource()),
		})
}

func (s *session) physicalInformer(kind workload.Kind) *objects {
	return controller.NewInformer(kind.Resource+" on "+s.target, example(kind.GroupVersionKind),
		controller.Lists(s.down.dynamic.Resource(kind.GroupVersionResource())),
		controller.InformerOptions[*unstructured.Unstructured]{
			Unscoped: true, Server: s.down.server, Metadata: listMetadata(s.down.metadata, kind.GroupVersionResource()),
			// Managed fields tell drift.
			Transform: untouched,
			Tweak: func(o *metav1.ListOptions) {
				o.LabelSelector = placementv1alpha1.ManagedByLabel + "=" + s.controlPlane
			},
			Indexers: map[string]func(*unstructured.Unstructured) []string{
				byUID:   func(o *unstructured.Unstructured) []string { return []string{string(o.GetUID())} },
				byOwner: owners,
				byMark:  s.markValue(kind),
			},
		})
}

func example(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// entryUID is the physical UID of which a logical object was mirrored.
func (s *session) entryUID(obj *unstructured.Unstructured) []string {
	entry, ok := stamp.TargetsOf(obj.GetAnnotations())[s.target]
	if !ok || entry.State != placementv1alpha1.TargetObserved || entry.UID == "" {
		return nil
	}
	return []string{string(entry.UID)}
}

func physicalName(namespace *unstructured.Unstructured) []string {
	if name := namespace.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]; name != "" {
		return []string{name}
	}
	return nil
}

func owners(obj *unstructured.Unstructured) []string {
	var uids []string
	for _, ref := range obj.GetOwnerReferences() {
		uids = append(uids, string(ref.UID))
	}
	return uids
}

func (s *session) markValue(kind workload.Kind) func(*unstructured.Unstructured) []string {
	return func(obj *unstructured.Unstructured) []string {
		m, ok := syncer.MarkOf(kind.GroupResource(), obj)
		if !ok {
			return nil
		}
		return []string{keyOfMark(kind, m).Request.String()}
	}
}

// scales names what an autoscaler scales.
func scales(obj *unstructured.Unstructured) []string {
	kind, _, _ := unstructured.NestedString(obj.Object, "spec", "scaleTargetRef", "kind")
	name, _, _ := unstructured.NestedString(obj.Object, "spec", "scaleTargetRef", "name")
	return []string{scaledValue(controller.RequestFor(obj), kind, name)}
}

func scaledValue(r controller.Request, kind, name string) string {
	return fmt.Sprintf("%s|%s/%s/%s", r.Cluster, r.Namespace, kind, name)
}
