package simulation

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// session re-enacts pkg/syncer/agent: the memory and the queues of a syncer from
// its start to its end.
type session struct {
	*physical
	logical map[schema.GroupResource]*kube.Informer
	beneath map[schema.GroupResource]*kube.Informer
	copies  *kube.Informer
	// informers are all of them.
	informers []*kube.Informer

	objects      *queue[kube.Key]
	observations *queue[observationKey]

	writtenCopies  *recent[kube.Key]
	writtenBelow   *recent[kube.Key]
	writtenLogical *recent[observationKey]
	settled        map[kube.Key]string
	orphans        map[kube.Key]types.UID
	refused        map[kube.Key]int
	silent         map[kube.Key]int
	reverts        map[kube.Key]syncer.Reverts
	making         map[kube.Key]bool

	synced bool
	actors []actor
}

// observationKey names an object that controllers below made.
type observationKey struct {
	Resource schema.GroupResource
	UID      types.UID
}

// errSilence is no answer, errAgain ends a pass whose input is outdated.
var (
	errSilence = errors.New("no answer")
	errAgain   = errors.New("read again")
)

// Indexes of the informers.
const (
	byEntryUID     = "entry"
	byUID          = "uid"
	byOwner        = "owner"
	byMark         = "mark"
	byPhysicalName = "physical name"
)

func (p *physical) startSyncer() {
	if p.session != nil || p.dead || !p.registered {
		return
	}
	w := p.world
	s := &session{
		physical: p, logical: map[schema.GroupResource]*kube.Informer{}, beneath: map[schema.GroupResource]*kube.Informer{},
		writtenCopies: newRecent[kube.Key](w), writtenBelow: newRecent[kube.Key](w), writtenLogical: newRecent[observationKey](w),
		settled: map[kube.Key]string{}, orphans: map[kube.Key]types.UID{},
		refused: map[kube.Key]int{}, silent: map[kube.Key]int{}, reverts: map[kube.Key]syncer.Reverts{}, making: map[kube.Key]bool{},
	}
	s.objects = newQueue(w, p.name+" objects", 3, s.reconcile)
	s.observations = newQueue(w, p.name+" observations", 2, s.observe)
	for _, gr := range copied {
		s.logical[gr] = kube.NewInformer(w.api, gr, s.sees, map[string]func(kube.Object) []string{
			byEntryUID: s.entryUID, byPhysicalName: physicalName,
		})
		s.beneath[gr] = kube.NewInformer(p.api, gr, labelled, map[string]func(kube.Object) []string{
			byUID: func(o kube.Object) []string { return []string{string(o.GetUID())} }, byOwner: owners, byMark: s.markValue(gr),
		})
	}
	s.copies = kube.NewInformer(w.api, copies, s.sees, nil)
	for _, gr := range copied {
		s.informers = append(s.informers, s.logical[gr], s.beneath[gr])
	}
	s.informers = append(s.informers, s.copies)
	s.actors = []actor{
		{weight: 2, ready: s.canList, step: s.list},
		s.follower(),
		{weight: 4, ready: func() bool { return s.synced && s.objects.ready() }, step: s.objects.step},
		{weight: 4, ready: func() bool { return s.synced && s.observations.ready() }, step: s.observations.step},
	}
	p.session = s
}

func (p *physical) stopSyncer() {
	if p.session == nil {
		return
	}
	p.session.objects.stop()
	p.session.observations.stop()
	p.session = nil
	p.crashes++
}

// sees is the view of the server for the target.
func (s *session) sees(obj kube.Object) bool {
	if c, ok := obj.(*placementv1alpha1.Copy); ok {
		return c.Spec.PhysicalCluster == s.name
	}
	_, ok := targetsOf(obj)[s.name]
	return ok
}

// labelled is the label selector of the watches below.
func labelled(obj kube.Object) bool {
	return obj.GetLabels()[placementv1alpha1.ManagedByLabel] == controlPlane
}

func (s *session) entryUID(obj kube.Object) []string {
	entry, ok := targetsOf(obj)[s.name]
	if !ok || entry.State != placementv1alpha1.TargetObserved || entry.UID == "" {
		return nil
	}
	return []string{string(entry.UID)}
}

func physicalName(obj kube.Object) []string {
	if name := obj.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]; name != "" {
		return []string{name}
	}
	return nil
}

func owners(obj kube.Object) []string {
	var uids []string
	for _, r := range obj.GetOwnerReferences() {
		uids = append(uids, string(r.UID))
	}
	return uids
}

func (s *session) markValue(gr schema.GroupResource) func(kube.Object) []string {
	return func(obj kube.Object) []string {
		if m, ok := syncer.MarkOf(gr, obj); ok {
			return []string{keyOfMark(gr, m).String()}
		}
		return nil
	}
}

func keyOfMark(gr schema.GroupResource, m syncer.Mark) kube.Key {
	k := kube.Key{Resource: gr, Cluster: m.Cluster, Namespace: m.Namespace, Name: m.Name}
	if gr == namespaces {
		k.Namespace = ""
	}
	return k
}

// canUp and canDown say whether the two servers can be reached.
func (s *session) canUp() bool   { return !s.upCut && s.world.control != nil }
func (s *session) canDown() bool { return !s.downCut && !s.dead }

func (s *session) reaches(i *kube.Informer) bool {
	if i == s.copies || s.logical[i.Resource()] == i {
		return s.canUp()
	}
	return s.canDown()
}

// canList: some informer has no watch and could have one.
func (s *session) canList() bool {
	return slices.ContainsFunc(s.informers, func(i *kube.Informer) bool { return !i.Watching() && s.reaches(i) })
}

// list lists one informer; when all have been, the queues start.
func (s *session) list() {
	complete := true
	listed := false
	for _, i := range s.informers {
		if !i.Watching() && s.reaches(i) && !listed {
			listed = true
			i.List(nil)
			s.world.say("%s: list %s", s.name, i.Resource().Resource)
		}
		complete = complete && i.Watching()
	}
	if complete && !s.synced {
		s.synced = true
		s.handle()
		s.world.say("%s: syncing", s.name)
	}
}

// follower delivers one change to one informer.
func (s *session) follower() actor {
	var pending []*kube.Informer
	return actor{
		weight: 6,
		ready: func() bool {
			pending = pending[:0]
			for _, i := range s.informers {
				if s.reaches(i) && s.world.arrives(i) {
					pending = append(pending, i)
				}
			}
			return len(pending) > 0
		},
		step: func() {
			i := pending[s.world.rng.IntN(len(pending))]
			if k, ok := i.Step(); ok {
				s.world.say("%s: sees %s: %s", s.name, k, describe(i.Get(k)))
			}
		},
	}
}

// up and down are requests to the two servers: they may get lost, and so may
// their answers.
func (s *session) up(what string, do func() error) error {
	return s.request(s.canUp, "up: "+what, do)
}

func (s *session) down(what string, do func() error) error {
	return s.request(s.canDown, "down: "+what, do)
}

func (s *session) request(reaches func() bool, what string, do func() error) error {
	if !reaches() {
		return errSilence
	}
	luck := 100
	if s.world.troubled {
		luck = s.world.rng.IntN(60)
	}
	if luck == 0 {
		s.world.say("%s: %s: lost", s.name, what)
		return errSilence
	}
	err := do()
	if err != nil {
		s.world.say("%s: %s: %v", s.name, what, err)
	} else {
		s.world.say("%s: %s", s.name, what)
	}
	if luck == 1 {
		s.world.say("%s: the answer is lost", s.name)
		return errSilence
	}
	return err
}

func isSilence(err error) bool { return errors.Is(err, errSilence) }

// recent re-enacts the agent's memory of its own writes.
type recent[K comparable] struct {
	world   *World
	replies map[K]reply
}

type reply struct {
	obj kube.Object
	at  time.Time
}

// A write is believed for recentTTL; after doubt it is looked at again.
const (
	recentTTL = 5 * time.Second
	doubt     = recentTTL + time.Second
)

func newRecent[K comparable](w *World) *recent[K] {
	return &recent[K]{world: w, replies: map[K]reply{}}
}

func (r *recent[K]) put(key K, obj kube.Object) { r.replies[key] = reply{obj, r.world.now} }

func (r *recent[K]) holds(key K) bool { _, ok := r.replies[key]; return ok }

func (r *recent[K]) forget(key K, uid types.UID) {
	if e, ok := r.replies[key]; ok && e.obj.GetUID() == uid {
		delete(r.replies, key)
	}
}

func (r *recent[K]) pick(key K, informed kube.Object) kube.Object {
	e, ok := r.replies[key]
	switch {
	case !ok:
		return informed
	case informed != nil && revision(informed) >= revision(e.obj), informed == nil && r.world.now.Sub(e.at) > recentTTL:
		delete(r.replies, key)
		return informed
	}
	return e.obj
}

func (r *recent[K]) arrived(key K, obj kube.Object) (own bool) {
	e, ok := r.replies[key]
	if !ok {
		return false
	}
	if revision(obj) >= revision(e.obj) {
		delete(r.replies, key)
	}
	return e.obj.GetResourceVersion() == obj.GetResourceVersion()
}

func revision(obj kube.Object) int64 {
	n, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// handle connects informers and queues.
func (s *session) handle() {
	for _, gr := range copied {
		s.logical[gr].Handle(func(old, new kube.Object) {
			s.logicalChanged(gr, old, new)
			if slices.Contains(observed, gr) {
				s.counterpartChanged(gr, old, new)
			}
		})
		s.beneath[gr].Handle(func(old, new kube.Object) { s.belowChanged(gr, old, new) })
	}
	s.copies.Handle(s.copyChanged)
}

func (s *session) logicalChanged(gr schema.GroupResource, old, new kube.Object) {
	obj := new
	if obj == nil {
		obj = old
	}
	if entry := targetsOf(obj)[s.name]; entry.State == placementv1alpha1.TargetObserved && !entry.Adopted || old != nil && new != nil && onlyStatus(old, new) {
		return
	}
	key := s.world.api.KeyOf(gr, obj)
	s.objects.add(key)
	if came(old, new) {
		for _, copied := range s.beneath[gr].By(byMark, key.String()) {
			s.dependentsOf(copied.GetUID()) // they may have waited for their owner
		}
	}
	if gr == namespaces && came(old, new) {
		s.namespaceCame(new)
	}
	if gr == namespaces && old != nil && new != nil && len(physicalName(old)) == 0 {
		for _, other := range content {
			for _, o := range s.logical[other].All() {
				if k := s.world.api.KeyOf(other, o); namespaceOf(k) == key {
					s.objects.add(k)
				}
			}
		}
	}
}

// came says that an object is new, or has come back to life from a backup.
func came(old, new kube.Object) bool {
	return new != nil && (old == nil || old.GetDeletionTimestamp() != nil && new.GetDeletionTimestamp() == nil)
}

// namespaceCame: what runs in it was not taken up for want of the Namespace.
func (s *session) namespaceCame(namespace kube.Object) {
	for _, gr := range observed {
		for _, obj := range s.beneath[gr].All() {
			if slices.Contains(physicalName(namespace), obj.GetNamespace()) {
				s.observations.add(observationKey{gr, obj.GetUID()})
			}
		}
	}
}

func onlyStatus(old, new kube.Object) bool {
	return new.GetGeneration() > 0 && old.GetGeneration() == new.GetGeneration() && old.GetUID() == new.GetUID() &&
		(old.GetDeletionTimestamp() == nil) == (new.GetDeletionTimestamp() == nil) &&
		maps.Equal(old.GetLabels(), new.GetLabels()) && maps.Equal(old.GetAnnotations(), new.GetAnnotations()) &&
		slices.Equal(old.GetFinalizers(), new.GetFinalizers())
}

func (s *session) counterpartChanged(gr schema.GroupResource, old, new kube.Object) {
	for _, obj := range []kube.Object{old, new} {
		if obj == nil {
			continue
		}
		for _, uid := range s.entryUID(obj) {
			key := observationKey{gr, types.UID(uid)}
			if obj == new && s.writtenLogical.arrived(key, new) && old != nil {
				continue
			}
			if new == nil {
				s.writtenLogical.forget(key, obj.GetUID())
			}
			s.observations.add(key)
			if old == nil || new == nil {
				s.dependentsOf(key.UID)
			}
		}
	}
}

func (s *session) dependentsOf(uid types.UID) {
	for _, gr := range observed {
		for _, obj := range s.beneath[gr].By(byOwner, string(uid)) {
			if s.isCopy(gr, obj) {
				mark, _ := syncer.MarkOf(gr, obj)
				s.objects.add(keyOfMark(gr, mark))
				continue
			}
			s.observations.add(observationKey{gr, obj.GetUID()})
		}
	}
}

// isCopy says that an object below is the copy of one above, and is not to be mirrored.
func (s *session) isCopy(gr schema.GroupResource, obj kube.Object) bool {
	mark, marked := syncer.MarkOf(gr, obj)
	if !marked || first(s.logical[gr].By(byEntryUID, string(obj.GetUID()))) != nil {
		return false
	}
	key := keyOfMark(gr, mark)
	if s.copyOf(key) != nil {
		return true
	}
	logical := s.logical[gr].Get(key)
	return logical != nil && logical.GetUID() == mark.UID && len(s.entryUID(logical)) == 0
}

func (s *session) belowChanged(gr schema.GroupResource, old, new kube.Object) {
	for _, obj := range []kube.Object{old, new} {
		if obj == nil {
			continue
		}
		mark, marked := syncer.MarkOf(gr, obj)
		switch {
		case marked:
			key := keyOfMark(gr, mark)
			if new == nil {
				s.writtenBelow.forget(key, obj.GetUID())
			}
			if obj == new && s.writtenBelow.arrived(key, new) {
				break
			}
			s.objects.add(key)
		}
		if slices.Contains(observed, gr) && !s.isCopy(gr, obj) {
			s.observations.add(observationKey{gr, obj.GetUID()})
		}
		if old == nil {
			s.dependentsOf(obj.GetUID())
		}
	}
}

func (s *session) copyChanged(old, new kube.Object) {
	obj := new
	if obj == nil {
		obj = old
	}
	c := obj.(*placementv1alpha1.Copy)
	key := objectOf(c)
	if new == nil {
		s.writtenCopies.forget(key, old.GetUID())
		if slices.Contains(observed, key.Resource) {
			for _, marked := range s.beneath[key.Resource].By(byMark, key.String()) {
				s.observations.add(observationKey{key.Resource, marked.GetUID()})
			}
		}
	}
	if new == nil || !s.writtenCopies.arrived(key, new) || old == nil && c.Status.State != placementv1alpha1.CopyPending {
		s.objects.add(key)
	}
	if new == nil || c.Status.State == placementv1alpha1.CopyRemoved {
		s.objects.add(namespaceOf(key))
	}
}

// describe is an object in a transcript.
func describe(obj kube.Object) string {
	if obj == nil {
		return "gone"
	}
	line := string(obj.GetUID())
	if c, ok := obj.(*placementv1alpha1.Copy); ok {
		return line + " " + string(c.Status.State) + " " + c.Status.Reason + " of " + string(c.Spec.Object.UID)
	}
	if t := targetsText(obj); t != "" {
		line += " " + t
	}
	if obj.GetDeletionTimestamp() != nil {
		line += " deleting"
	}
	if g := obj.GetGeneration(); g > 0 {
		line += " generation " + strconv.FormatInt(g, 10)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && obj.GetLabels()[placementv1alpha1.ManagedByLabel] != "" {
		line += " of " + u.GetAnnotations()[placementv1alpha1.UIDAnnotation]
	}
	return line
}

func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
