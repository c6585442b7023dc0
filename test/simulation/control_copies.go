package simulation

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	copiescontroller "github.com/atoll-dev/atoll/pkg/controllers/copies"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// release re-enacts pkg/controllers/copies: it takes note of removals.
func (c *control) release(key kube.Key, pause func()) (time.Duration, error) {
	pause()
	var list []*placementv1alpha1.Copy
	for _, o := range c.informers[copies].By(byObject, key.String()) {
		list = append(list, o.(*placementv1alpha1.Copy))
	}
	obj := c.world.api.Find(key)
	var object metav1.Object // nil if there is none
	if obj != nil {
		object = obj
	}
	if obj != nil {
		pause()
		if err := c.adopt(key, cast(obj), list); err != nil {
			return 0, err
		}
	}
	v := c.world.bugs.Release(object, list, c.givenUp)
	if key.Resource == namespaces && (obj == nil || v.Finalizer && obj.GetDeletionTimestamp() != nil) {
		pause()
		if err := c.sweep(key, obj); err != nil {
			return 0, err
		}
	}
	if obj != nil && v.Finish {
		pause()
		return 0, c.finish(key, obj)
	}
	if obj != nil && (v.Finalizer || v.Drop) {
		pause()
		if err := c.takeNote(key, obj, v); err != nil {
			return 0, err
		}
	}
	for _, copied := range v.Delete {
		pause()
		if err := c.deleteCopy(copied); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// adopt notes what a Copy says that a controller below has adopted.
func (c *control) adopt(key kube.Key, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy) error {
	claim := copiescontroller.Claim(obj, list)
	if claim == nil {
		return nil
	}
	ref := claim.Status.Controller
	controller := cast(c.world.api.Find(kube.Key{
		Resource: schema.GroupResource{Group: ref.Group, Resource: ref.Resource}, Cluster: key.Cluster, Namespace: key.Namespace, Name: ref.Name,
	}))
	if controller == nil {
		return nil
	}
	a, ok := copiescontroller.Adopt(kindOf(key.Resource), obj, claim, kindOf(resourceOf(controller)), controller)
	if !ok {
		return nil
	}
	u := changed(obj)
	annotations := u.GetAnnotations()
	annotations[placementv1alpha1.TargetsAnnotation] = a.Targets.String()
	u.SetAnnotations(annotations)
	u.SetOwnerReferences(a.Owners)
	c.world.say("copies: %s is adopted by %s", key, controller.GetName())
	_, err := c.world.api.Update(system, key.Resource, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// finish ends the time that a Pod has to stop in.
func (c *control) finish(key kube.Key, obj kube.Object) error {
	zero := int64(0)
	err := c.world.api.Delete(system, key, kube.DeleteOptions{UID: obj.GetUID(), Grace: &zero})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// takeNote writes the object as it was read without finalizer or entry.
func (c *control) takeNote(key kube.Key, obj kube.Object, v copiescontroller.Verdict) error {
	u := changed(obj)
	if v.Finalizer {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == placementv1alpha1.CopiesFinalizer }))
	}
	if v.Drop {
		annotations := u.GetAnnotations()
		if annotations[placementv1alpha1.TargetsAnnotation] = v.Targets.String(); len(v.Targets) == 0 {
			delete(annotations, placementv1alpha1.TargetsAnnotation)
		}
		u.SetAnnotations(annotations)
	}
	c.world.say("copies: %s: finalizer %v, targets %v", key, v.Finalizer, v.Targets)
	_, err := c.world.api.Update(system, key.Resource, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *control) deleteCopy(copied *placementv1alpha1.Copy) error {
	key := c.world.api.KeyOf(copies, copied)
	c.world.say("copies: delete %s of %s (%s)", key, copied.Spec.Object.UID, copied.Status.State)
	err := c.world.api.Delete(system, key, kube.DeleteOptions{UID: copied.UID, Version: copied.ResourceVersion})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// sweep removes the records in a Namespace that is gone or about to be.
func (c *control) sweep(key kube.Key, namespace kube.Object) error {
	for _, o := range c.informers[copies].All() {
		copied := o.(*placementv1alpha1.Copy)
		if namespaceOf(objectOf(copied)) != key || copied.Status.State != placementv1alpha1.CopyRemoved ||
			namespace != nil && copied.Spec.Object.UID == namespace.GetUID() {
			continue
		}
		if err := c.deleteCopy(copied); err != nil {
			return err
		}
	}
	for _, p := range c.world.api.ListNamespace(placements, key.Cluster, key.Name) {
		if live := c.world.api.Find(key); live != nil && (namespace == nil || live.GetUID() != namespace.GetUID()) && owns(p, live) {
			continue // of a younger Namespace of the name
		}
		err := c.world.api.Delete(system, c.world.api.KeyOf(placements, p), kube.DeleteOptions{UID: p.GetUID()})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// givenUp says that nobody will ever acknowledge for a target.
func (c *control) givenUp(target string) bool {
	obj := c.informers[physicalClusters].Get(kube.Key{Resource: physicalClusters, Cluster: "root", Name: target})
	return obj == nil || obj.(*fleetv1alpha1.PhysicalCluster).Spec.Forget
}

// forget re-enacts pkg/controllers/physicalclusters: the copies of a physical
// cluster that was given up count as removed.
func (c *control) forget(key kube.Key, pause func()) (time.Duration, error) {
	pause()
	if !c.givenUp(key.Name) || c.informers[physicalClusters].Get(key) == nil {
		return 0, nil
	}
	for _, o := range c.informers[copies].All() {
		copied := o.(*placementv1alpha1.Copy)
		if copied.Spec.PhysicalCluster != key.Name || copied.Status.State == placementv1alpha1.CopyRemoved {
			continue
		}
		pause()
		declared := copied.DeepCopy()
		declared.Status.State, declared.Status.Reason = placementv1alpha1.CopyRemoved, "Forgotten"
		if _, err := c.world.api.Update(system, copies, declared); err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	if err := c.forgetObserved(key.Name, pause); err != nil {
		return 0, err
	}
	return 10 * time.Second, c.forgetUnmade(key.Name, pause)
}

// forgetObserved removes what was mirrored from a physical cluster that was given up:
// nobody else will.
func (c *control) forgetObserved(target string, pause func()) error {
	zero := int64(0)
	for _, gr := range observed {
		for _, obj := range c.informers[gr].All() {
			if targetsOf(obj)[target].State != placementv1alpha1.TargetObserved {
				continue
			}
			pause()
			err := c.world.api.Delete(system, c.world.api.KeyOf(gr, obj), kube.DeleteOptions{
				UID: obj.GetUID(), Grace: &zero, Propagation: metav1.DeletePropagationBackground,
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// owns says that a Placement was made for a Namespace.
func owns(p, namespace kube.Object) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.UID == namespace.GetUID()
}

func (c *control) forgetUnmade(target string, pause func()) error {
	for _, gr := range copied {
		for _, obj := range c.informers[gr].All() {
			entry, ok := targetsOf(obj)[target]
			if !ok || entry.State == placementv1alpha1.TargetObserved ||
				obj.GetDeletionTimestamp() == nil && entry.State != placementv1alpha1.TargetStateRemoving {
				continue
			}
			pause()
			_, err := c.world.api.Create(system, copies, unmade(kindOf(gr), obj, target))
			if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// unmade is the Copy, declared removed, of an object that has none.
func unmade(kind workload.Kind, obj kube.Object, target string) *placementv1alpha1.Copy {
	c := &placementv1alpha1.Copy{}
	c.Name, c.Namespace = syncer.CopyName(kind.GroupResource(), obj.GetName(), target), obj.GetNamespace()
	if kind.Role == workload.Container {
		c.Namespace = obj.GetName()
	}
	c.Annotations = map[string]string{"kcp.io/cluster": obj.GetAnnotations()["kcp.io/cluster"]}
	c.Spec.PhysicalCluster = target
	c.Spec.Object = placementv1alpha1.ObjectReference{
		Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Kind: kind.Kind, Name: obj.GetName(), UID: obj.GetUID(),
	}
	c.Status.State, c.Status.Reason = placementv1alpha1.CopyRemoved, "Forgotten"
	return c
}
