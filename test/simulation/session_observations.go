package simulation

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/admission/protect"
	"github.com/atoll-dev/atoll/pkg/admission/syncerguard"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// viewed is a observation and where it belongs.
type viewed struct {
	syncer.Observation
	*session
	key     observationKey
	cluster logicalcluster.Name
	pause   func()
	// unwatched: the cache lacks what is below.
	unwatched bool
}

const shortDelay = 100 * time.Millisecond

// observe brings one object that controllers below made up to date.
func (s *session) observe(key observationKey, pause func()) (time.Duration, error) {
	pause()
	v, after, err := s.sight(key, pause)
	if err == nil && v != nil {
		response := s.world.bugs.Observe(v.Observation)
		if response.Verb != syncer.Rest {
			pause()
		}
		after, err = v.respond(response)
		if v.unwatched {
			after = max(after, 5*time.Second)
		}
	}
	if isSilence(err) {
		return 5 * time.Second, nil
	}
	if after == 0 && s.writtenLogical.holds(key) {
		after = doubt
	}
	return after, err
}

func (s *session) sight(key observationKey, pause func()) (*viewed, time.Duration, error) {
	v := &viewed{session: s, key: key, pause: pause, Observation: syncer.Observation{Kind: kindOf(key.Resource), Owner: s.owner, Refers: s.refers}}
	v.Physical = cast(first(s.beneath[key.Resource].By(byUID, string(key.UID))))
	v.Logical = cast(s.writtenLogical.pick(key, first(s.logical[key.Resource].By(byEntryUID, string(key.UID)))))
	if v.Physical != nil {
		if v.Logical == nil && s.isCopy(key.Resource, v.Physical) {
			return nil, 0, nil
		}
		if v.Logical == nil && key.Resource == pods && text(v.Physical, "spec", "nodeName") == "" {
			if left := 2*time.Second - s.world.now.Sub(v.Physical.GetCreationTimestamp().Time); left > 0 {
				return nil, left, nil
			}
		}
		namespace := first(s.logical[namespaces].By(byPhysicalName, v.Physical.GetNamespace()))
		switch {
		case v.Logical == nil && (namespace == nil || namespace.GetDeletionTimestamp() != nil):
			return nil, 0, nil
		case namespace != nil:
			v.cluster, v.Namespace = logicalcluster.From(namespace), namespace.GetName()
		}
	}
	if v.Logical != nil {
		v.cluster, v.Namespace = logicalcluster.From(v.Logical), v.Logical.GetNamespace()
	}
	if v.cluster.Empty() {
		return nil, 0, nil
	}
	if v.Physical == nil && v.Logical != nil {
		var err error
		if v.Physical, err = v.findBelow(); err != nil {
			return nil, 0, err
		}
		v.unwatched = v.Physical != nil
	}
	return v, 0, nil
}

// findBelow asks the physical cluster for the UID; nil is gone.
func (v *viewed) findBelow() (found *unstructured.Unstructured, err error) {
	namespace := v.logical[namespaces].Get(kube.Key{Resource: namespaces, Cluster: v.cluster, Name: v.Namespace})
	if namespace == nil || len(physicalName(namespace)) == 0 {
		// The backup does not know where it was: ask for the name everywhere.
		v.pause()
		err = v.down("look everywhere for "+v.Logical.GetName(), func() error {
			_, obj := v.api.ByUID(v.key.UID)
			found = cast(obj)
			return nil
		})
		return found, err
	}
	candidates := []string{v.Logical.GetName()}
	if name, ok := strings.CutSuffix(v.Logical.GetName(), "."+v.name); ok {
		candidates = append(candidates, name)
	}
	for _, name := range candidates {
		v.pause()
		if err := v.down("look for "+name, func() error {
			obj := v.api.Find(kube.Key{Resource: v.key.Resource, Namespace: physicalName(namespace)[0], Name: name})
			if obj != nil && obj.GetUID() == v.key.UID {
				found = cast(obj)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// owner names the logical object that stands for an owner below.
func (s *session) owner(uid types.UID) (syncer.Owner, bool) {
	obj := s.mirrorOf(uid)
	if obj == nil {
		return syncer.Owner{}, false
	}
	return syncer.Owner{Name: obj.GetName(), UID: obj.GetUID(), Deleting: obj.GetDeletionTimestamp() != nil}, true
}

// mirrorOf finds the logical object that stands for one below.
func (s *session) mirrorOf(uid types.UID) kube.Object {
	for _, gr := range copied {
		obj := first(s.beneath[gr].By(byUID, string(uid)))
		if obj == nil {
			continue
		}
		if mark, ok := syncer.MarkOf(gr, obj); ok {
			if logical := s.logical[gr].Get(keyOfMark(gr, mark)); logical != nil && logical.GetUID() == mark.UID {
				return logical
			}
		}
		break
	}
	for _, gr := range observed {
		informed := first(s.logical[gr].By(byEntryUID, string(uid)))
		if obj := s.writtenLogical.pick(observationKey{gr, uid}, informed); obj != nil {
			return obj
		}
	}
	return nil
}

func (s *session) refers(uid types.UID) (types.UID, bool) {
	o, ok := s.owner(uid)
	return o.UID, ok
}

func first(objs []kube.Object) kube.Object {
	if len(objs) == 0 {
		return nil
	}
	return objs[0]
}

func (v *viewed) respond(r syncer.MirrorAction) (time.Duration, error) {
	switch r.Verb {
	case syncer.CreateUp:
		return v.createUp(r.Object)
	case syncer.BindUp:
		return shortDelay, v.bindUp(r.Object)
	case syncer.UpdateUp:
		return 0, v.updateUp(r)
	case syncer.DeleteUp:
		return 0, v.deleteUp(r.Grace)
	case syncer.Release:
		return 0, v.release(r.Object)
	case syncer.DeleteBelow:
		return v.deleteBelow(r)
	}
	return 0, nil
}

// write is a write of an Observed object: admission checks and stamps it.
func (v *viewed) write(verb syncerguard.Verb, sub string, u *unstructured.Unstructured, do func(*unstructured.Unstructured) (kube.Object, error)) (written kube.Object, err error) {
	u = in(v.cluster, u.DeepCopy())
	err = v.up(fmt.Sprintf("%s %s %s %s/%s%s", verb, v.key.Resource.Resource, v.key.UID, v.Namespace, u.GetName(), sub), func() error {
		w := syncerguard.Write{
			Kinds:  kinds,
			Target: v.name, Cluster: v.cluster, Verb: verb, Resource: v.key.Resource, Subresource: sub,
			Namespace: v.Namespace, Name: u.GetName(), Object: u,
		}
		if err := v.mayWrite(); err != nil {
			return err
		}
		old := v.world.api.Find(v.world.api.KeyOf(v.key.Resource, u))
		if verb == syncerguard.Create {
			uid := types.UID(u.GetAnnotations()[placementv1alpha1.UIDAnnotation])
			v.world.ledger.guard(w)
			protect.Create(u)
			stamp.Observed(v.Kind, u, v.name, uid)
			in(v.cluster, u)
		} else if old != nil {
			w.Old = old
			if err := syncerguard.Check(w); err != nil {
				return apierrors.NewForbidden(v.key.Resource, u.GetName(), err)
			}
			if sub == "" {
				protect.UpdateObserved(u, old)
			} else {
				protect.Update(u, old)
			}
		}
		written, err = do(u)
		return err
	})
	return written, err
}

func (v *viewed) createUp(u *unstructured.Unstructured) (time.Duration, error) {
	create := func(u *unstructured.Unstructured) (kube.Object, error) {
		return v.world.api.Create(syncerOf(v.name), v.key.Resource, u)
	}
	created, err := v.write(syncerguard.Create, "", u, create)
	if apierrors.IsAlreadyExists(err) {
		v.pause()
		existing := v.world.api.Find(kube.Key{Resource: v.key.Resource, Cluster: v.cluster, Namespace: v.Namespace, Name: u.GetName()})
		if existing != nil && v.sees(existing) && len(v.entryUID(existing)) > 0 {
			return shortDelay, nil
		}
		if mark, ok := syncer.MarkOf(v.key.Resource, v.Physical); ok && existing != nil && v.sees(existing) && existing.GetUID() == mark.UID {
			return time.Second, nil
		}
		v.pause()
		created, err = v.write(syncerguard.Create, "", u, create)
		if apierrors.IsAlreadyExists(err) {
			v.pause()
			u = u.DeepCopy()
			u.SetName(u.GetName() + "." + v.name)
			created, err = v.write(syncerguard.Create, "", u, create)
		}
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return time.Second, nil
	case err != nil:
		return v.unwelcome(err)
	}
	v.writtenLogical.put(v.key, created)
	v.dependentsOf(v.key.UID)
	if withStatus, differs := syncer.StatusUp(v.Observation, cast(created)); differs {
		v.pause()
		return 0, v.writeStatus(withStatus)
	}
	return 0, nil
}

func (v *viewed) unwelcome(err error) (time.Duration, error) {
	if isSilence(err) || apierrors.IsConflict(err) {
		return 0, err
	}
	return time.Minute, nil
}

func (v *viewed) updateUp(r syncer.MirrorAction) error {
	obj := r.Object
	if r.Spec {
		status := obj.Object["status"]
		updated, err := v.write(syncerguard.Update, "", obj, func(u *unstructured.Unstructured) (kube.Object, error) {
			return v.world.api.Update(syncerOf(v.name), v.key.Resource, u)
		})
		if err != nil {
			if _, err := v.unwelcome(err); err != nil {
				return v.outdated(err)
			}
		} else {
			v.writtenLogical.put(v.key, updated)
			obj = changed(updated)
			obj.Object["status"] = status
		}
		v.pause()
	}
	if r.Status {
		return v.writeStatus(obj)
	}
	return nil
}

func (v *viewed) writeStatus(u *unstructured.Unstructured) error {
	updated, err := v.write(syncerguard.Update, "status", u, func(u *unstructured.Unstructured) (kube.Object, error) {
		return v.world.api.UpdateStatus(syncerOf(v.name), v.key.Resource, u)
	})
	if err != nil {
		if _, err := v.unwelcome(err); err != nil {
			return v.outdated(err)
		}
		return nil
	}
	v.writtenLogical.put(v.key, updated)
	return nil
}

func (v *viewed) outdated(err error) error {
	if v.Logical != nil {
		v.writtenLogical.forget(v.key, v.Logical.GetUID())
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (v *viewed) bindUp(desired *unstructured.Unstructured) error {
	err := v.up("bind "+v.Logical.GetName(), func() error {
		if err := v.mayWrite(); err != nil {
			return err
		}
		live := v.world.api.Find(v.world.api.KeyOf(pods, v.Logical))
		if live == nil || live.GetUID() != v.Logical.GetUID() || live.GetDeletionTimestamp() != nil {
			return apierrors.NewConflict(pods, v.Logical.GetName(), fmt.Errorf("another pod"))
		}
		bound := changed(live)
		_ = unstructured.SetNestedField(bound.Object, text(desired, "spec", "nodeName"), "spec", "nodeName") // a path of maps
		_, err := v.world.api.Update(syncerOf(v.name), pods, bound)
		return err
	})
	v.writtenLogical.forget(v.key, v.Logical.GetUID())
	switch {
	case apierrors.IsConflict(err):
		return nil
	case err == nil, isSilence(err):
		return err
	}
	return v.deleteUp(0)
}

func (v *viewed) deleteUp(grace int64) error {
	uid := v.Logical.GetUID()
	err := v.up(fmt.Sprintf("delete %s %s with grace %d", v.key.Resource.Resource, v.Logical.GetName(), grace), func() error {
		if err := v.mayWrite(); err != nil {
			return err
		}
		key := v.world.api.KeyOf(v.key.Resource, v.Logical)
		o := kube.DeleteOptions{UID: uid, Grace: &grace, Propagation: metav1.DeletePropagationBackground}
		if v.Physical != nil {
			o.Version = v.Logical.GetResourceVersion()
		}
		if now := v.world.api.Find(key); now != nil && o.Version != "" && now.GetResourceVersion() != o.Version {
			return apierrors.NewConflict(key.Resource, key.Name, errors.New("the object has been modified"))
		}
		v.world.ledger.deletesUp(v, key)
		return v.world.api.Delete(syncerOf(v.name), key, o)
	})
	v.writtenLogical.forget(v.key, uid)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// release lets go of what is being deleted.
func (v *viewed) release(obj *unstructured.Unstructured) error {
	_, err := v.write(syncerguard.Update, "", obj, func(u *unstructured.Unstructured) (kube.Object, error) {
		v.world.ledger.deletesUp(v, v.world.api.KeyOf(v.key.Resource, u))
		return v.world.api.Update(syncerOf(v.name), v.key.Resource, u)
	})
	v.writtenLogical.forget(v.key, v.Logical.GetUID())
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (v *viewed) deleteBelow(r syncer.MirrorAction) (time.Duration, error) {
	o := kube.DeleteOptions{UID: v.world.bugs.Precondition(v.Physical.GetUID()), Propagation: r.Propagation}
	if r.Grace >= 0 {
		o.Grace = &r.Grace
	}
	err := v.down("pass on the deletion of "+v.Physical.GetName(), func() error {
		return v.api.Delete(syncerOf(v.name), v.api.KeyOf(v.key.Resource, v.Physical), o)
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return shortDelay, nil
	}
	return 0, err
}
