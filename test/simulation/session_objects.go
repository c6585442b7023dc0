package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/admission/syncerguard"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

const maxSteps = 12

// reconcile brings one object and its copy together.
func (s *session) reconcile(key kube.Key, pause func()) (time.Duration, error) {
	if key.Resource == namespaces {
		for s.making[key] {
			pause()
		}
		s.making[key] = true
		defer delete(s.making, key)
	}
	p := &pass{session: s, key: key, pause: pause}
	err := p.run()
	switch {
	case errors.Is(err, errAgain), isSilence(err):
		s.silent[key]++
		return backoff(50*time.Millisecond, 15*time.Second, s.silent[key]), nil
	case err != nil:
		return 0, err
	}
	delete(s.silent, key)
	if p.after == 0 && (s.writtenCopies.holds(key) || s.writtenBelow.holds(key)) {
		return doubt, nil // should the caches never have it, it is gone again
	}
	if p.after == 0 && p.unwatched {
		return time.Minute, nil // nobody will tell when it changes
	}
	return p.after, nil
}

// pass is one run over one object.
type pass struct {
	*session
	key   kube.Key
	pause func()
	in    syncer.Input
	after time.Duration
	// unwatched: there is something of which the cache does not know.
	unwatched bool
}

func (p *pass) run() error {
	p.pause()
	p.read()
	for range maxSteps {
		actions := p.world.bugs.Plan(p.in)
		if len(actions) == 0 {
			p.done()
			return nil
		}
		for _, a := range actions {
			p.pause()
			if err := p.act(a); err != nil {
				return err
			}
			if p.in.Failure != nil && a.Verb != syncer.WriteCopy {
				break
			}
		}
		if p.after > 0 {
			return nil
		}
	}
	return fmt.Errorf("no end after %d steps: %w", maxSteps, errAgain)
}

func (p *pass) done() {
	unfinished := p.in.Copy != nil && (p.in.Copy.Status.State == placementv1alpha1.CopyPending ||
		p.in.Copy.Status.State == placementv1alpha1.CopyFailed || p.in.Copy.Status.State == placementv1alpha1.CopyRemoving)
	if (p.in.Failure != nil || unfinished) && !p.world.bugs.hasty {
		p.refused[p.key]++
		p.after = backoff(time.Second, 2*time.Minute, p.refused[p.key])
		return
	}
	delete(p.refused, p.key)
	stands := p.in.Logical != nil && len(p.entryUID(p.in.Logical)) > 0
	if (stands || p.in.Logical == nil) && p.in.Copy == nil {
		delete(p.settled, p.key)
		if stands || p.in.Physical == nil {
			delete(p.orphans, p.key)
		}
	}
}

func (p *pass) read() {
	p.in = syncer.Input{
		Ref:    syncer.Ref{Kind: kindOf(p.key.Resource), Cluster: p.key.Cluster, Namespace: p.key.Namespace, Name: p.key.Name},
		Target: p.name, ControlPlane: controlPlane, Settled: p.settled[p.key],
		Reverts: p.reverts[p.key], Now: p.world.now,
		Owner: func(uid types.UID) (*unstructured.Unstructured, bool) {
			obj := p.mirrorOf(uid)
			return cast(obj), obj != nil
		},
	}
	p.in.Logical = cast(p.logical[p.key.Resource].Get(p.key))
	p.in.Copy = p.copyOf(p.key)
	if p.in.Copy != nil && p.in.Copy.Status.State == placementv1alpha1.CopyRemoved {
		return
	}
	p.in.Namespace = p.namespaceOf()
	if p.key.Resource == namespaces {
		p.in.Contents = p.contents()
	}
	p.readPhysical()
}

func (s *session) copyKey(key kube.Key) kube.Key {
	return kube.Key{
		Resource: copies, Cluster: key.Cluster, Namespace: namespaceOf(key).Name,
		Name: syncer.CopyName(key.Resource, key.Name, s.name),
	}
}

func (s *session) copyOf(key kube.Key) *placementv1alpha1.Copy {
	c, _ := s.writtenCopies.pick(key, s.copies.Get(s.copyKey(key))).(*placementv1alpha1.Copy)
	return c
}

func (p *pass) readPhysical() {
	informer := p.beneath[p.key.Resource]
	if p.in.Namespace.Name == "" {
		marked := cast(first(informer.By(byMark, p.key.String())))
		if marked == nil {
			return
		}
		p.in.Physical = marked
		p.in.Namespace = syncer.Namespace{Name: cmp.Or(marked.GetNamespace(), marked.GetName()), State: syncer.NamespaceReady}
		return
	}
	if obj := p.writtenBelow.pick(p.key, informer.Get(p.physicalKey())); obj != nil {
		p.in.Physical = cast(obj)
		return
	}
	if p.in.Logical == nil && p.in.Copy == nil {
		p.in.Physical = cast(first(informer.By(byMark, p.key.String())))
		return
	}
	p.in.Unseen = true
}

func (p *pass) look() error {
	return p.down("look for "+p.physicalKey().String(), func() error {
		p.world.ledger.looked[place{p.name, p.physicalKey()}] = p.world.step
		p.in.Physical, p.in.Unseen = cast(p.api.Find(p.physicalKey())), false
		p.unwatched = p.in.Physical != nil
		return nil
	})
}

func (p *pass) physicalKey() kube.Key {
	if p.key.Resource == namespaces {
		return kube.Key{Resource: namespaces, Name: p.in.Namespace.Name}
	}
	return kube.Key{Resource: p.key.Resource, Namespace: p.in.Namespace.Name, Name: p.key.Name}
}

func (p *pass) namespaceOf() syncer.Namespace {
	name, uid := "", types.UID("")
	if logical := p.logical[namespaces].Get(namespaceOf(p.key)); logical != nil {
		uid = logical.GetUID()
		name = logical.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]
	}
	current := p.in.Logical != nil && p.in.Copy != nil && p.in.Copy.Spec.Object.UID == p.in.Logical.GetUID()
	if p.in.Copy != nil && p.in.Copy.Status.PhysicalNamespace != "" && (!current || name == "") {
		name = p.in.Copy.Status.PhysicalNamespace
	}
	if name == "" || p.key.Resource == namespaces {
		return syncer.Namespace{Name: name, State: syncer.NamespaceReady}
	}
	return syncer.Namespace{Name: name, State: p.namespaceState(name, uid)}
}

func (p *pass) namespaceState(name string, uid types.UID) syncer.NamespaceState {
	obj := p.writtenBelow.pick(namespaceOf(p.key), p.beneath[namespaces].Get(kube.Key{Resource: namespaces, Name: name}))
	switch {
	case obj == nil || obj.GetName() != name:
		return syncer.NamespaceAbsent
	case obj.GetDeletionTimestamp() != nil:
		return syncer.NamespaceTerminating
	case uid != "" && obj.GetAnnotations()[placementv1alpha1.UIDAnnotation] != string(uid):
		return syncer.NamespaceNotOurs
	}
	return syncer.NamespaceReady
}

func (p *pass) contents() int {
	n := 0
	for _, o := range p.copies.All() {
		key := objectOf(o.(*placementv1alpha1.Copy))
		if key == p.key || namespaceOf(key) != p.key {
			continue
		}
		if c := p.writtenCopies.pick(key, o).(*placementv1alpha1.Copy); c.Status.State != placementv1alpha1.CopyRemoved {
			n++
		}
	}
	return n
}

func (p *pass) act(a syncer.Action) error {
	switch a.Verb {
	case syncer.WriteCopy:
		return p.writeCopy(a.Copy)
	case syncer.Look:
		return p.look()
	case syncer.CreateNamespace:
		return p.createNamespace()
	case syncer.Apply:
		return p.apply(a)
	case syncer.Delete:
		return p.remove(a)
	case syncer.AskServer:
		return p.ask(a.UID)
	case syncer.Report:
		if p.orphans[p.key] != a.UID {
			p.orphans[p.key] = a.UID
			p.world.say("%s: reports an orphan: %s %s", p.name, p.key, a.UID)
		}
		p.after = 10 * time.Minute
		return nil
	}
	return fmt.Errorf("unknown verb %q", a.Verb)
}

func (p *pass) writeCopy(c *placementv1alpha1.Copy) error {
	before := p.in.Copy
	c = c.DeepCopy()
	c.Annotations = map[string]string{"kcp.io/cluster": p.key.Cluster.String()}
	verb := syncerguard.Update
	if before == nil {
		verb = syncerguard.Create
	}
	p.world.ledger.guard(syncerguard.Write{
		Kinds:  kinds,
		Target: p.name, Cluster: p.key.Cluster, Verb: verb, Resource: copies, Namespace: c.Namespace, Name: c.Name, Object: c,
	})
	var written kube.Object
	err := p.up(fmt.Sprintf("copy %s %s %s of %s", p.key, c.Status.State, c.Status.Reason, c.Spec.Object.UID), func() (err error) {
		if err := p.mayWrite(); err != nil {
			return err
		}
		if before == nil {
			if !p.world.bugs.recordsAnything && !p.world.wants(p.key, c) {
				return apierrors.NewConflict(copies, c.Name, errors.New("no such object is targeted at it"))
			}
			written, err = p.world.api.Create(syncerOf(p.name), copies, c)
		} else {
			written, err = p.world.api.Update(syncerOf(p.name), copies, c)
		}
		return err
	})
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		p.pause()
		_ = p.up("read the copy", func() error {
			if live := p.world.api.Find(p.copyKey(p.key)); live != nil {
				p.writtenCopies.put(p.key, live)
			}
			return nil
		})
		return errAgain
	case apierrors.IsNotFound(err) && before != nil:
		p.writtenCopies.forget(p.key, before.UID)
		return errAgain
	case err != nil:
		return err
	}
	p.writtenCopies.put(p.key, written)
	p.in.Copy, p.in.Reverted = written.(*placementv1alpha1.Copy), 0
	return nil
}

// wants: the server accepts a new Copy only of an object that it knows under that
// UID, or one that says that nothing is there. After a backup was restored it must
// not vouch for an object that it has never heard of.
func (w *World) wants(key kube.Key, c *placementv1alpha1.Copy) bool {
	obj := w.api.Find(key)
	if obj == nil || obj.GetUID() != c.Spec.Object.UID {
		return c.Status.State == placementv1alpha1.CopyRemoved
	}
	_, ok := targetsOf(obj)[c.Spec.PhysicalCluster]
	return ok
}

func (p *pass) createNamespace() error {
	key := namespaceOf(p.key)
	if _, err := p.reconcile(key, p.pause); err != nil {
		return err
	}
	p.in.Namespace = p.namespaceOf()
	if p.in.Namespace.State != syncer.NamespaceAbsent {
		return nil
	}
	if c := p.copyOf(key); c != nil && c.Status.State == placementv1alpha1.CopyFailed {
		p.in.Failure = &syncer.Failure{Reason: "Namespace" + c.Status.Reason, Message: "the physical namespace: " + c.Status.Message}
		return nil
	}
	return errAgain
}

func (p *pass) apply(a syncer.Action) error {
	exists := a.Object.GetUID() != ""
	desired := a.Object
	if !exists && !p.world.bugs.adopts {
		// What appeared since we looked must not be taken over: no object has the
		// version 1.
		desired = desired.DeepCopy()
		desired.SetResourceVersion("1")
	}
	var applied kube.Object
	err := p.down(fmt.Sprintf("apply %s (%s)", p.physicalKey(), a.Why), func() (err error) {
		p.world.ledger.applies(p, a)
		applied, err = p.api.Apply(syncerOf(p.name), p.key.Resource, desired, syncer.FieldManager, p.world.bugs.Force(exists))
		return err
	})
	if err != nil {
		return p.refusal(err)
	}
	p.writtenBelow.put(p.key, applied)
	p.settled[p.key] = syncer.Fingerprint(cast(applied))
	p.in.Physical, p.in.Applied, p.in.Settled = cast(applied), true, p.settled[p.key]
	delete(p.reverts, p.key)
	if a.Drift {
		p.reverts[p.key] = p.in.Reverts.Again(p.in.Now)
		p.in.Reverted++
	}
	p.in.Reverts = p.reverts[p.key]
	return nil
}

func (p *pass) refusal(err error) error {
	if apierrors.IsConflict(err) {
		p.pause()
		if err := p.look(); err != nil {
			return err
		}
		if p.in.Physical != nil {
			p.writtenBelow.forget(p.key, p.in.Physical.GetUID())
		}
		return nil
	}
	if !isAnswer(err) || apierrors.IsNotFound(err) || strings.Contains(err.Error(), "because it is being terminated") {
		return err
	}
	p.in.Failure = &syncer.Failure{
		Reason: string(apierrors.ReasonForError(err)), Message: err.Error(), Immutable: strings.Contains(err.Error(), kube.Immutable),
	}
	return nil
}

func (p *pass) remove(a syncer.Action) error {
	key := p.physicalKey()
	key.Name = p.in.Physical.GetName()
	err := p.down(fmt.Sprintf("delete %s %s (%s)", key, a.UID, a.Why), func() error {
		p.world.ledger.deletes(p, a)
		return p.api.Delete(syncerOf(p.name), key, kube.DeleteOptions{
			UID: p.world.bugs.Precondition(a.UID), Propagation: a.Propagation, Grace: a.Grace,
		})
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return p.refusal(err)
	}
	p.writtenBelow.forget(p.key, a.UID)
	delete(p.settled, p.key)
	p.in.Settled, p.in.Applied, p.in.Failure = "", false, nil
	p.pause()
	if err := p.look(); err != nil {
		return err
	}
	if p.in.Physical != nil {
		p.writtenBelow.put(p.key, p.in.Physical)
	}
	return nil
}

// ask finds out whether the object with uid still exists, from a server that
// knows of its Copy.
func (p *pass) ask(uid types.UID) error {
	if p.world.bugs.trusting {
		p.in.Gone = uid
		return nil
	}
	var c *placementv1alpha1.Copy
	if err := p.up("ask for the copy of "+p.key.String(), func() error {
		c, _ = p.world.api.Find(p.copyKey(p.key)).(*placementv1alpha1.Copy)
		return nil
	}); err != nil {
		return err
	}
	switch {
	case c == nil:
		p.writtenCopies.forget(p.key, p.in.Copy.UID)
		return errAgain
	case c.UID != p.in.Copy.UID || c.Spec.Object.UID != uid:
		p.writtenCopies.put(p.key, c)
		return errAgain
	}
	p.pause()
	return p.up("ask for "+p.key.String(), func() error {
		obj := p.world.api.Find(p.key)
		if obj != nil && p.sees(obj) && obj.GetUID() == uid {
			return errAgain
		}
		p.in.Gone = uid
		return nil
	})
}
